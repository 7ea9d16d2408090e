// zero_simulate: how long a step would take on machines that are not here.
#ifndef ZERO_SIMULATION_H
#define ZERO_SIMULATION_H

#include <zero/configuration.h>

#ifdef __cplusplus
extern "C" {
#endif

// Either new_spec or model, machine and ranks: one run is simulated. Or `runs`: a table of them. Or
// the machine "list" alone: the machines that there are.
// Numbers that are 0 and texts that are NULL are not given: the configuration's value is taken, and
// without one a default.
typedef struct zero_simulate_options {
    size_t struct_size;
    const char *new_spec, *model; // a SPEC; or a directory or config.json
    const char *runs;             // a CSV file of runs, each of which is predicted and scored
    // The name of a machine, or a path of a machine's file (docs/scale.md). With `runs`: that of
    // all rows, instead of each row's own.
    const char *machine;
    const char *config_path;
    const zero_override *overrides; // as in zero_plan_options
    int override_count;
    int ranks;                 // devices
    zero_parallel parallel;    // how they divide one model; `split` is not read
    int context;               // devices that divide the tokens of each sample
    int64_t global_batch, seq; // samples of a step; tokens of a sample
    const char *recompute;     // "none", "selective", "full"
    const char *products;      // "fp8", "fp4": the numbers of products, where they are not dtype's
    const char *framework;     // whose efficiency is assumed: "megatron"; NULL: a well-made one
    // The axes of the mesh over the nodes, those of neighbouring devices first:
    // "tensor,context,data,pipeline" (the default) in any order, or "best".
    const char *order;
    // Failures are asked about with mtbf_hours > 0: those between two failures of a node.
    double mtbf_hours;
    double checkpoint_rate; // bytes a second of the whole storage; 0: of the nodes' NVMe
    double restart;         // seconds until training goes on, without reading the checkpoint
    int asynchronous;       // checkpoints are written beside training
    int json;
    // With `runs`: a CSV file to which predictions are durably written; NULL: none.
    const char *out;
    zero_logger logger;
    // The length of the training, whose time is told: its tokens or its steps; 0: not asked.
    int64_t tokens, steps;
    int explain; // with the machine "list": their constants, too
} zero_simulate_options;

// Writes the answer through `write`, as text or JSON. It needs no communicator, because it only
// computes. A run that does not fit into memory is no error: the answer says so.
ZERO_API zero_status zero_simulate(const zero_simulate_options *options,
                                   void (*write)(void *user, const char *text), void *user,
                                   zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
