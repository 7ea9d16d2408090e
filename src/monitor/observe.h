// What is written about an engine's steps, as configured: the sinks of sinks.h on rank 0; the
// records of a range of steps on every rank, for zero train --profile; and what a training measures
// of itself (predict/measured_steps.h), on every rank as well. One recorder serves all of them. It
// is attached only during steps that are wanted; if nothing is observed, there is no recorder.
#ifndef ZR_MONITOR_OBSERVE_H
#define ZR_MONITOR_OBSERVE_H

#include "engine/engine_api.h"
#include "predict/measured_steps.h"

// Steps first to last, counted from 1; empty if first is 0.
typedef struct zr_step_range {
    int64_t first, last;
} zr_step_range;

typedef struct zr_observation zr_observation;

// Observes the engine, which then owns *out (NULL if nothing is to be observed). Collective if
// something is. kept: the steps whose records stay until the next step begins; it must be the same
// on every rank. measured: takes the times of some steps, and outlives the engine; NULL on all
// ranks or on none. logger: used on rank 0 only, and must outlive the engine.
// Returns ZERO_ERR_IO if flops_profiler.output_file or the directory of a monitor cannot be
// written.
zero_status zr_observe(zero_engine *engine, const zero_logger *logger, zr_step_range kept,
                       zr_measured *measured, zr_observation **out, zero_error *error);

// Passes the loss over held-out text after `step` steps to the monitors. `observation` may be NULL,
// and any rank may call it.
void zr_observation_evaluated(zr_observation *observation, int64_t step, double loss);
// Tells, before the first step, that the evaluation of the state that the run continues from will
// be repeated. NULL is allowed.
void zr_observation_owes(zr_observation *observation);

// Returns the records of the kept range, once its last step is done.
const zr_recorder *zr_observation_kept(const zr_observation *observation);
// Return the names for these records: (unit_count) of the plan,
const char *const *zr_observation_units(const zr_observation *observation);
// and (flat_param_count) of the plan.
const char *const *zr_observation_flat_params(const zr_observation *observation);

#endif
