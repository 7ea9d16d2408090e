// zero_tune: finds the fastest way to train a model on this machine.
#ifndef ZERO_TUNE_H
#define ZERO_TUNE_H

#include <zero/configuration.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_tune_options {
    size_t struct_size;
    // What is trained, as in zero_train_options.
    const char *new_spec, *model_dir;
    const char *const *data; // (data_count)
    int data_count;
    const char *field, *chat, *tokenizer;
    int ignore_unused;
    // What is said already; everything else is open. A list in the configuration for
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
} zero_tune_options;

// Predicts what fits, measures the best of it in turn, writes the files and, through `write`, the
// answer. It starts its own processes and must not be called by ranks of a job.
// ZERO_ERR_USAGE: options that are missing or out of range; ZERO_ERR_CONFIG: the configuration, or
// nothing can be planned with it; ZERO_ERR_LIMIT: nothing fits, or every trial failed;
// ZERO_ERR_CANCELLED: *stop was set. No process is left, and no file but the answer's.
ZERO_API zero_status zero_tune(const zero_tune_options *options,
                               void (*write)(void *user, const char *text), void *user,
                               zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
