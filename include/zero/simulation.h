// zero_simulate: how long a step would take on machines that are not here.
#ifndef ZERO_SIMULATION_H
#define ZERO_SIMULATION_H

#include <zero/configuration.h>

#ifdef __cplusplus
extern "C" {
#endif

// One run is simulated: of new_spec or model on so many ranks of a machine, or the run that a file
// describes, on a machine. Or the machine "list" alone: the machines that there are.
// Numbers that are 0 and texts that are NULL are not given: the configuration's value is taken, and
// without one a default.
typedef struct zero_simulate_options {
    size_t struct_size;
    const char *new_spec, *model; // a SPEC; or a directory or config.json
    // A JSON file that describes a run (docs/scale.md): its model, grid, batch and states. Of the
    // fields below, machine, framework, order, json, and those of failures and of the length go
    // with it; the others are not read.
    const char *run;
    const char *machine; // its name, or a path of a machine's file (docs/scale.md)
    const char *config_path;
    const zero_override *overrides; // as in zero_plan_options
    int override_count;
    int ranks, tensor, context, pipeline; // devices; of them, those that divide one model
    const char *schedule;                 // of the pipeline, as in zero_train_options
    int sequence_parallel;
    int64_t global_batch, seq; // samples of a step; tokens of a sample
    const char *recompute;     // "none", "selective", "full"
    const char *products;      // "fp8", "fp4": the numbers of products, where they are not dtype's
    const char *framework;     // whose efficiency is assumed: "megatron"; NULL: a well-made one
    // The axes of the mesh over the nodes, those of neighbouring devices first:
    // "tensor,context,data,pipeline" (the default) in any order, or "best".
    const char *order;
    // Failures count if mtbf_hours > 0: the hours between two failures of a node.
    double mtbf_hours;
    double checkpoint_rate; // bytes a second of the whole storage; 0: of the nodes' NVMe
    double restart;         // seconds until training goes on, without reading the checkpoint
    int asynchronous;       // checkpoints are written during training
    int json;
    const char *reserved; // not read: it was a file for the predictions of a table of runs
    zero_logger logger;
    // The tokens or the steps of a training whose time is wanted; 0 if it is not.
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
