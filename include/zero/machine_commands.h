// What a machine reaches, and what a training needs and would reach on one. Included by
// <zero/commands.h>, which says what is not promised of this.
#ifndef ZERO_MACHINE_COMMANDS_H
#define ZERO_MACHINE_COMMANDS_H

#include <zero/comm.h>
#include <zero/configuration.h>
#include <zero/grid.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- zero_bench: measures what this machine reaches.
typedef struct zero_bench_options {
    const char *what; // "comm", "gemm", "optimizer", "blocks", "step", "checkpoint", "memory", "io"
    int threads;
    double seconds;           // time to spend on each figure, approximately
    double parameters;        // optimizer, blocks: of one rank; 0: 100 and 34 million
    const char *new_spec;     // step: the model, "gpt2:layers=4,..."; NULL: "gpt2"
    int64_t micro_batch, seq; // step: 0: 4, and the model's context
    int64_t accumulation;     // step: 0: 1
    int stage;                // step
    const char *dtype;        // step: "fp32", "bf16", "fp16", "auto"; NULL: fp32
    const char *path;         // io: a directory of the disk; NULL: the current one
    // io: bytes of one transfer, and the most bytes of the scratch files; 0: 1 MiB and 1 GiB
    int64_t block, bytes;
    int depth; // io: transfers in flight; 0: 8
    int json;  // memory, io: writes one JSON object; rates are in bytes per second
    zero_logger logger;
    zero_parallel parallel; // step
} zero_bench_options;
// Runs the measurement `what` and writes its figures through `write`, on rank 0. Collective.
// "memory" and "io" take one rank, and store what they measured for later plans of this user on
// this machine.
ZERO_API zero_status zero_bench(zero_comm *comm, const zero_bench_options *options,
                                void (*write)(void *user, const char *text), void *user,
                                zero_error *error);

// ---- zero_doctor: what this machine has, and what it lacks.
typedef struct zero_doctor_options {
    const char *path; // a directory on the disk to look at; NULL: the current one
    // A file that gets this machine as zero_simulate reads machines (docs/scale.md), which measures
    // for some seconds more; NULL: none.
    const char *write_machine;
    int json; // 1: writes one JSON object, on one line: bytes, seconds, bytes and FLOPs per second
} zero_doctor_options;
// Writes a report about this machine through `write`.
ZERO_API zero_status zero_doctor(const zero_doctor_options *options,
                                 void (*write)(void *user, const char *text), void *user,
                                 zero_error *error);

// ---- zero_tune: finds the fastest way to train a model on this machine.
typedef struct zero_tune_options {
    // What is trained, as in zero_train_options.
    const char *new_spec, *model_dir;
    const char *const *data; // (data_count)
    int data_count;
    const char *field, *chat, *tokenizer;
    int ignore_unused;
    // Settings that are fixed; everything else is searched. A list in the configuration for
    // zero_optimization.stage and train_micro_batch_size_per_gpu says what may be tried.
    const char *config_path;
    const zero_override *overrides; // (override_count)
    int override_count;
    int64_t seq;            // 0: the model's context
    int ranks;              // of the job; 0: open
    int threads;            // of a rank; 0: its share of the cores
    zero_parallel parallel; // 0, NULL: open, unless the configuration says them
    const char *backend;    // as in zero_options (engine.h); NULL: cpu
    // Where the answer is written: tuned.json, the same as ds_config_optimal.json, cmd_optimal.txt,
    // summary.txt and summary.json, with experiments/; NULL: autotuning.results_dir, else "tuned".
    const char *out_dir;
    int64_t trials;      // to run, at most; 0: autotuning.tuner_num_trials
    double seconds;      // for everything; 0: 150, and more where steps are slow
    const char *metric;  // "throughput", "latency", "flops"; NULL: autotuning.metric
    int json;            // the answer as JSON in place of the table
    const char *program; // zero, which trials run; NULL: this program, or the one in PATH
    // The caller sets it to a signal number to end everything. May be NULL.
    const volatile int *stop;
    zero_logger logger;
    const char *chat_date; // as in zero_train_options
} zero_tune_options;

// Predicts what fits, measures the best of it in turn, writes the files and, through `write`, the
// answer. It starts its own processes and must not be called by ranks of a job.
// ZERO_ERR_USAGE: options that are missing or out of range; ZERO_ERR_CONFIG: the configuration, or
// nothing can be planned with it; ZERO_ERR_LIMIT: nothing fits, or every trial failed;
// ZERO_ERR_CANCELLED: *stop was set. No process is left, and no file but the answer's.
ZERO_API zero_status zero_tune(const zero_tune_options *options,
                               void (*write)(void *user, const char *text), void *user,
                               zero_error *error);

// ---- zero_compare: one model trained here in every way that ranks can share the work.
typedef struct zero_compare_options {
    const char *new_spec, *model; // a SPEC; or a directory
    const char *const *data;      // (data_count) as zero_train reads it
    int data_count;               // 0: a text is made up
    const char *config_path;
    const zero_override *overrides;
    int override_count;
    int64_t seq;
    int ranks;           // of the job, at least 2; 0: the cores of this machine, at least 2
    int threads;         // of a rank; 0: its share of the cores
    int64_t memory;      // bytes of a machine, for the largest models; 0: this machine's
    const char *nvme;    // a directory on NVMe for the states; NULL: that way is left out
    int steps;           // measured in each of three rounds, at most 83; 0: 10
    int json;            // writes JSON
    const char *path;    // a file to which the tables are durably written, too; or NULL
    const char *program; // that trains; NULL: this one if it is zero, else the zero in PATH
    zero_logger logger;
    // The caller sets it to a signal number to end the comparison. May be NULL.
    const volatile int *stop;
} zero_compare_options;

// Plans every way, predicts those for which there are cores, and trains each in turn for some
// steps, in processes of their own. A way that is impossible on these ranks, does not fit, or fails
// is one line of the answer, which goes through `write`, as Markdown or JSON.
// ZERO_ERR_USAGE: bad options, or nothing could be trained; ZERO_ERR_CONFIG: a configuration that
// leaves no choice; ZERO_ERR_CANCELLED: *stop was set; what was measured before it is written.
ZERO_API zero_status zero_compare(const zero_compare_options *options,
                                  void (*write)(void *user, const char *text), void *user,
                                  zero_error *error);

// ---- zero_simulate: how long a step would take on machines that are not here.
// One run is simulated: of new_spec or model on ranks of a machine, or the run that a file
// describes, on a machine. Or the machine "list" alone: the machines that there are.
// Numbers that are 0 and texts that are NULL are not given: the configuration's value is taken, and
// without one a default.
typedef struct zero_simulate_options {
    const char *new_spec, *model; // a SPEC; or a directory or config.json
    // A JSON file that describes a run (docs/scale.md): its model, grid, batch and states. With it
    // go machine, framework, order, json, and the fields of failures and of the training's length;
    // the other fields are not read.
    const char *run;
    const char *machine; // its name, or a path of a machine's file (docs/scale.md)
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
    // Hours between two failures of a node; 0: failures are not simulated.
    double mtbf_hours;
    double checkpoint_rate; // bytes a second of the whole storage; 0: of the nodes' NVMe
    double restart;         // seconds until training goes on, without reading the checkpoint
    int asynchronous;       // checkpoints are written while training goes on
    int json;
    zero_logger logger;
    // The length of the training, in tokens or steps, whose time is reported; 0: not given.
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
