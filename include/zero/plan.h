// zero_plan: what a model needs, computed before a run.
#ifndef ZERO_PLAN_H
#define ZERO_PLAN_H

#include <zero/configuration.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zero_plan_view { // what zero_plan writes:
    ZERO_PLAN_TABLE,          // the bytes of every rank at every stage;
    // and for one model, with the configuration's stage and options.ranks (or 1):
    ZERO_PLAN_PROGRAM, // the instructions that each rank runs, as text;
    // a micro-batch as SVG: calls, exchanges, transfers, and what is where meanwhile; with a
    // pipeline, a step of it: what each pipeline stage does when;
    ZERO_PLAN_DRAWING,
    ZERO_PLAN_LETTERS, // the same as text: what every flat parameter does during every call
} zero_plan_view;

typedef struct zero_plan_options {
    size_t struct_size;
    const char *new_spec, *model; // a SPEC; or a directory or config.json
    double parameters;            // or only their number (7.5e9)
    const char *config_path;
    const zero_override *overrides;
    int override_count;
    int64_t seq;
    int ranks; // of a job; 0 with memory > 0: finds how many are needed
    // Bytes of each machine, which its ranks share; with `parameters`, of each rank; 0: not given.
    int64_t memory;
    int json;
    zero_logger logger;
    zero_plan_view view; // views other than the table exclude json, memory and parameters
    // A file to which the answer is durably written, instead of being passed to `write`; or NULL.
    const char *path;
    int tensor;                   // as in zero_train_options
    int sequence_parallel;        // as in zero_train_options
    int pipeline;                 // as there
    const char *schedule, *split; // as there
    // The machines that `ranks` ranks fill in their order: their number ("2"), where each has as
    // many ranks, or the ranks of each ("4,2,2"). NULL: all are on one.
    const char *machines;
    // Times the operations of the plan's steps on this machine, unless their rates are known, in
    // about a second, and remembers the rates. Without it, predictions use the rates that earlier
    // runs have measured.
    int predict;
    int columns; // of the terminal for which tables are written; 0: they are as wide as they are
    // As in zero_options (engine.h), but a card need not be here; NULL: cpu. "cuda:h100-80gb" is
    // one of a certain kind, whose memory bounds the plan.
    const char *backend;
} zero_plan_options;

// Writes the answer through `write`, as text, JSON or SVG. It needs no communicator, because
// planning only computes.
ZERO_API zero_status zero_plan(const zero_plan_options *options,
                               void (*write)(void *user, const char *text), void *user,
                               zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
