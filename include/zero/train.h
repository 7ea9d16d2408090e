// A whole training, as `zero train` offers it.
#ifndef ZERO_TRAIN_H
#define ZERO_TRAIN_H

#include <zero/comm.h>
#include <zero/configuration.h>

#ifdef __cplusplus
extern "C" {
#endif

// START: after the plan, before the first step
typedef enum zero_event_kind {
    ZERO_EVENT_START,
    ZERO_EVENT_STEP,
    ZERO_EVENT_EVAL,
    ZERO_EVENT_SAMPLE,
    ZERO_EVENT_END
} zero_event_kind;

typedef struct zero_event { // fields that an event does not have are 0 or NULL
    zero_event_kind kind;
    int64_t step, total_steps;
    double loss, previous_loss, lr, grad_norm; // EVAL: loss over the held-out text
    double milliseconds, tokens_per_second, seconds_left;
    int64_t tokens; // of the step, all ranks
    int is_best;    // EVAL: the best so far
    // START: steps between lines that the configuration asks for; 0: the reader's choice
    int64_t print_every;
    // SAMPLE: the sample; EVAL: what was read ("132 windows", "all of the held-out text"); END:
    // where the model lies
    const char *text;
} zero_event;

// Rank 0 only. A non-zero answer cancels: all ranks end after this step with ZERO_ERR_CANCELLED.
typedef int (*zero_progress)(void *user, const zero_event *event);

typedef struct zero_train_options {
    size_t struct_size;
    const char *new_spec; // "gpt2:layers=4,..."; or
    // a Hugging Face directory, or that of a run, whose model/ is taken; in every struct with a
    // model_dir
    const char *model_dir;
    // (data_count) [KIND:]PATH[:WEIGHT] each: text, JSONL or token files (docs/data.md)
    const char *const *data;
    int data_count;
    const char *val; // the same, without a weight; "none"; or NULL: the last tenth of each
    // of JSONL records; NULL: what they have (messages, prompt and completion, text)
    const char *field;
    // how messages are written: "chatml", "llama2", ...; NULL: by the model's chat template
    const char *chat;
    // "bytes", "chars", a directory or a tokenizer.json; NULL: bytes, or the one of model_dir
    const char *tokenizer;
    const char *out_dir;
    const char *config_path; // NULL: defaults
    const zero_override *overrides;
    int override_count;
    int64_t seq;          // 0: the model's context
    int64_t steps;        // 0: from epochs, or a finite default
    double epochs;        // 0: not given
    double lr;            // 0: the configuration's, or by model size
    int64_t seed;         // -1: the configuration's "seed", or 1337
    int64_t eval_every;   // 0: default; -1: never
    int64_t sample_every; // 0: never
    int threads;          // 0: what this machine allows, divided by its ranks
    const char *backend;  // as in zero_options (engine.h); NULL: cpu
    int64_t save_every;   // steps between checkpoints in out_dir/checkpoints; 0: by time alone
    double save_seconds;  // a checkpoint where the last one is so old; 0: by steps alone
    int64_t keep;         // newest checkpoints that stay; 0: all
    // go on from the newest whole checkpoint in out_dir, or from the start where there is none
    int resume;
    const char *job; // zero_run_job(): what a restart knows its own files by; NULL: none
    // by zero_run, whose ranks have died: go on with what this job has written, by as many ranks as
    // remain
    int restarted;
    // a signal number, on any rank, once the run is to end: all ranks save after the step under way
    // and end with ZERO_ERR_STOPPED; may be NULL
    const volatile int *stop;
    // seconds since 1970: saves and ends likewise shortly before; 0: no such time
    double end_by;
    int dry_run, strict, overwrite;
    // a file for a Chrome trace of steps 3 to 5 (of fewer, the last ones), all ranks; NULL: none
    const char *profile;
    zero_logger logger;
    zero_progress progress;
    void *progress_user;
    // tensors of model_dir that the model has no place for are left out with a warning, not refused
    int ignore_unused;
    // with resume: names, with commas, of what may differ from the model of the checkpoint:
    // "dropout"; NULL: nothing
    const char *allow_change;
    // 1: none is made after the last step, so that this run cannot be extended
    int no_final_checkpoint;
} zero_train_options;

// Collective over comm. See `zero train --help` and docs/ for what it writes into out_dir.
// ZERO_ERR_IO where the model cannot be written at the end: the message names the checkpoint that
// holds it, where there is room for one.
ZERO_API zero_status zero_train(zero_comm *comm, const zero_train_options *options,
                                zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
