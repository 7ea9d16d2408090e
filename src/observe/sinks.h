// The sinks of an observation: each makes something of the steps that it wants, on rank 0. A new
// one is a table like these, named in the list of observe.c.
#ifndef ZR_OBSERVE_SINKS_H
#define ZR_OBSERVE_SINKS_H

#include "base/alloc.h"
#include "config/config.h"
#include "engine/engine_inner.h"
#include "observe/observe.h"

typedef struct zr_observed { // what a sink sees; the observation's, as long as that lives
    zero_engine *engine;
    const zr_config *config; // the engine's
    const zero_logger *logger;
    zr_recorder *recorder; // NULL: nothing is recorded
    int64_t begun;         // index of the first record of the step under way
    const char **units;    // (unit_count) names
    const char **pieces;   // (piece_count) names
} zr_observed;

typedef enum zr_wanted {
    ZR_WANTS_NOTHING,
    ZR_WANTS_STEP,    // the step, and nothing of its inside
    ZR_WANTS_RECORDS, // its records, from seen->begun on
} zr_wanted;

typedef struct zr_observe_sink {
    bool (*is_asked)(const zr_config *config); // whether the configuration asks for it at all
    bool reads_records;                        // so there has to be room for them
    // Of a sink that is asked for, before the step and after it, with the same answer.
    zr_wanted (*wants)(const zr_config *config, int64_t step);
    // Before the first step; what cannot be written is refused here. *own: the sink's, NULL at
    // first. Optional.
    zero_status (*open)(const zr_observed *seen, void **own, zero_error *error);
    zero_status (*step)(void *own, const zr_observed *seen, const zero_step_info *info,
                        zero_error *error); // of one that it wants, once it is done
    // The loss over held-out text after that many steps. Optional.
    void (*evaluated)(void *own, const zr_observed *seen, int64_t step, double loss);
    // Before the first step: the evaluation of the state that the run goes on from comes again.
    // Optional.
    void (*owes)(void *own);
    // Also after an `open` that has failed; says what is left to say, and frees `own`. Optional.
    void (*close)(void *own, const zr_observed *seen);
} zr_observe_sink;

extern const zr_observe_sink zr_observe_monitors; // tensorboard and csv_monitor
extern const zr_observe_sink zr_observe_time;     // wall_clock_breakdown
extern const zr_observe_sink zr_observe_memory;   // memory_breakdown
extern const zr_observe_sink zr_observe_flops;    // flops_profiler
extern const zr_observe_sink zr_observe_messages; // comms_logger

typedef struct zr_observe_sinks {     // each step is told to them in this order
    const zr_observe_sink *const *at; // (count)
    int count;
} zr_observe_sinks;

// zr_observe (observe.h) by these sinks, which outlive the engine, in place of the ones above.
zero_status zr_observe_by(const zr_observe_sinks *sinks, zero_engine *engine,
                          const zero_logger *logger, zr_step_range kept, zr_observation **out,
                          zero_error *error);

// Logs each line of the text after a name of nine columns, and frees it. ZERO_ERR_MEMORY where it
// has failed.
zero_status zr_observed_log(const zr_observed *seen, const char *name, zr_buffer *text,
                            zero_error *error);

#endif
