// What is written down of an engine's steps, as the configuration asks for it: the sinks of
// sinks.h, on rank 0; and the records of a range of steps on every rank, for zero train --profile.
// One recorder serves all of it. It is attached only for steps that somebody wants to see; where
// nothing is asked for there is none.
#ifndef ZR_OBSERVE_OBSERVE_H
#define ZR_OBSERVE_OBSERVE_H

#include "engine/engine_inner.h"

// 1-based; first 0: none
typedef struct zr_step_range {
    int64_t first, last;
} zr_step_range;

typedef struct zr_observation zr_observation;

// Collective where something is asked for. The engine owns *out (NULL where nothing is). kept: of
// the steps whose records stay until the next step begins; the same on every rank. logger: told on
// rank 0 alone, outlives the engine.
// ZERO_ERR_IO where flops_profiler.output_file or the directory of a monitor cannot be written.
zero_status zr_observe(zero_engine *engine, const zero_logger *logger, zr_step_range kept,
                       zr_observation **out, zero_error *error);

// For the monitors: the loss over held-out text after that many steps. NULL, and ranks above 0, are
// fine.
void zr_observation_evaluated(zr_observation *observation, int64_t step, double loss);
// before the first step: the run goes on from a state whose evaluation is made again; NULL is fine
void zr_observation_owes(zr_observation *observation);

// What was recorded of the kept range, once its last step is done.
const zr_recorder *zr_observation_kept(const zr_observation *observation);
// Names for its records.
// (unit_count) of the plan
const char *const *zr_observation_units(const zr_observation *observation);
// (piece_count) of the plan
const char *const *zr_observation_pieces(const zr_observation *observation);

#endif
