// The sinks of an observation: each makes something of the steps that it wants, on rank 0. To add
// one, write a table like these and name it in the list of observe.c.
#ifndef ZR_MONITOR_SINKS_H
#define ZR_MONITOR_SINKS_H

#include "base/alloc.h"
#include "config/config.h"
#include "engine/engine_api.h"
#include "monitor/observe.h"

typedef struct zr_observed { // what a sink sees; it belongs to the observation
    zero_engine *engine;
    const zr_config *config; // the engine's
    const zero_logger *logger;
    zr_recorder *recorder; // NULL if nothing is recorded
    int64_t begun;         // index of the first record of `steps`
    // What the records are of: one step, or all of an asynchronous pipeline's that overlap.
    zr_step_range steps;
    int64_t updates;          // made by the end of the step that is reported
    const char **units;       // (unit_count) names
    const char **flat_params; // (flat_param_count) names
    char of[40];              // " of pipeline stage 0"; empty: there is no pipeline
} zr_observed;

typedef enum zr_wanted {
    ZR_WANTS_NOTHING,
    ZR_WANTS_STEP,    // the step, but nothing from inside it
    ZR_WANTS_RECORDS, // its records, from seen->begun on
} zr_wanted;

typedef struct zr_observe_sink {
    bool (*is_asked)(const zr_config *config); // whether the configuration enables it
    // There must be room for records; steps that overlap are reported together, as the last of
    // them.
    bool reads_records;
    // What the sink wants of a step. Called before and after the step, with the same answer, if the
    // sink is enabled.
    zr_wanted (*wants)(const zr_config *config, int64_t step);
    // Called before the first step; refuses what cannot be written. *own belongs to the sink, and
    // is NULL at first. Optional.
    zero_status (*open)(const zr_observed *seen, void **own, zero_error *error);
    zero_status (*step)(void *own, const zr_observed *seen, const zero_step_info *info,
                        zero_error *error); // called after a step that the sink wants
    // Passes the loss over held-out text after `step` steps. Optional.
    void (*evaluated)(void *own, const zr_observed *seen, int64_t step, double loss);
    // Tells, before the first step, that the evaluation of the state that the run continues from
    // will be repeated. Optional.
    void (*owes)(void *own);
    // Writes what is left to write, and frees `own`. Also called after an `open` that failed.
    // Optional.
    void (*close)(void *own, const zr_observed *seen);
} zr_observe_sink;

extern const zr_observe_sink zr_observe_monitors; // tensorboard and csv_monitor
extern const zr_observe_sink zr_observe_time;     // wall_clock_breakdown
extern const zr_observe_sink zr_observe_memory;   // memory_breakdown
extern const zr_observe_sink zr_observe_flops;    // flops_profiler
extern const zr_observe_sink zr_observe_messages; // comms_logger

typedef struct zr_observe_sinks {     // they get each step in this order
    const zr_observe_sink *const *at; // (count)
    int count;
} zr_observe_sinks;

// The same as zr_observe (observe.h), with these sinks in place of the ones above. They must
// outlive the engine.
zero_status zr_observe_by(const zr_observe_sinks *sinks, zero_engine *engine,
                          const zero_logger *logger, zr_step_range kept, zr_measured *measured,
                          zr_observation **out, zero_error *error);

// Logs each line of the text after a name of nine columns, and frees the text. Returns
// ZERO_ERR_MEMORY if the text has failed.
zero_status zr_observed_log(const zr_observed *seen, const char *name, zr_buffer *text,
                            zero_error *error);

#endif
