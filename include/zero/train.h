// zero_train: a whole training, as `zero train` offers it.
#ifndef ZERO_TRAIN_H
#define ZERO_TRAIN_H

#include <zero/comm.h>
#include <zero/configuration.h>

#ifdef __cplusplus
extern "C" {
#endif

// START comes after the plan, before the first step.
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
    // loss: EVAL: over the held-out text; NaN if no token of the step or that text is a target.
    double loss, previous_loss, lr, grad_norm;
    double milliseconds, tokens_per_second, seconds_left;
    int64_t tokens; // of the step, on all ranks
    int is_best;    // EVAL: the lowest loss so far
    // START: the steps between two lines, as the configuration asks; 0: the receiver chooses.
    int64_t print_every;
    // SAMPLE: the sample; EVAL: what was read ("132 windows", "all of the held-out text"); END: the
    // directory of the model.
    const char *text;
    // EVAL, of a training on preferences: the pairs that were compared (KTO: examples), the share
    // of them whose chosen answer has the larger reward, and the mean reward of chosen answers
    // minus that of rejected ones; each NaN if there is none.
    int64_t pairs;
    double accuracy, margin;
} zero_event;

// Called on rank 0 only. A non-zero result cancels: all ranks end after this step with
// ZERO_ERR_CANCELLED.
typedef int (*zero_progress)(void *user, const zero_event *event);

typedef struct zero_train_options {
    size_t struct_size;
    const char *new_spec; // "gpt2:layers=4,..."; or
    // a Hugging Face directory, or that of a run, whose model/ is then used. This holds for
    // model_dir in every struct.
    const char *model_dir;
    // (data_count) each [KIND:]PATH[:WEIGHT]: text, JSONL or token files (docs/data.md)
    const char *const *data;
    int data_count;
    const char *val; // the same, without a weight; "none"; or NULL: the last tenth of each
    // The field of JSON records to use, or which fields are which keys: KEY=FIELD,KEY=FIELD,...
    // NULL: by the shape of each record (docs/data.md).
    const char *field;
    // How chat messages are written: "chatml", "llama2", ..., or the file of a template,
    // "NAME.jinja"; NULL: by the model's chat template.
    const char *chat;
    // "bytes", "chars", a directory, a tokenizer.json or a SentencePiece file NAME.model; NULL:
    // that of model_dir, otherwise bytes.
    const char *tokenizer;
    const char *out_dir;
    const char *config_path; // NULL: defaults
    const zero_override *overrides;
    int override_count;
    int64_t seq;   // 0: the model's context
    int64_t steps; // 0: from epochs, or a finite default
    double epochs; // 0: not given
    double lr;     // 0: the configuration's, or one that suits the model's size
    int64_t seed;  // -1: the configuration's "seed", or 1337
    // Steps between evaluations; 0: default; -1: never. Like save_every, under an asynchronous
    // schedule a multiple of libzero.pipeline.flush_every.
    int64_t eval_every;
    int64_t sample_every; // 0: never
    int threads;          // 0: what this machine allows, divided by its ranks
    const char *backend;  // as in zero_options (engine.h), or "auto": a card, else cpu; NULL: cpu
    int64_t save_every;   // steps between checkpoints in out_dir/checkpoints; 0: by time alone
    double save_seconds;  // saves once the last checkpoint is this old; 0: by steps alone
    int64_t keep;         // number of newest checkpoints to keep; 0: all
    // 1: continues from the newest intact checkpoint in out_dir, or starts anew if there is none.
    int resume;
    const char *job; // zero_run_job(): by which a restart recognizes its own files; NULL: none
    // 1: zero_run has restarted this program after ranks died: continues from what this job has
    // written, with the ranks that remain.
    int restarted;
    // The caller sets it to a signal number, on any rank, to end the run: all ranks save after the
    // current step and end with ZERO_ERR_STOPPED. May be NULL.
    const volatile int *stop;
    // Seconds since 1970: the run also saves and ends shortly before that time; 0: no limit.
    double end_by;
    // dry_run: makes one step and keeps nothing; strict: a flag that contradicts the configuration
    // file is an error; overwrite: replaces what an earlier run wrote to out_dir.
    int dry_run, strict, overwrite;
    // The file for a Chrome trace of steps 3 to 5 (of a shorter run, its last ones) on all ranks;
    // NULL: none.
    const char *profile;
    zero_logger logger;
    zero_progress progress;
    void *progress_user;
    // 1: tensors of model_dir that the model has no place for cause a warning, not an error.
    int ignore_unused;
    // With resume: what may differ from the model of the checkpoint, as names with commas:
    // "dropout"; NULL: nothing.
    const char *allow_change;
    // 1: makes no checkpoint after the last step, so that the run cannot be extended later.
    int no_final_checkpoint;
    int reserved; // not read: it was padding, in which older programs have anything
    // Ranks that compute one model together (tensor parallelism), a divisor of the job's ranks; 0:
    // as the configuration says.
    int tensor;
    // 1: these ranks also divide rows, Megatron's sequence parallelism; 0: as the configuration
    // says.
    int sequence_parallel;
    // Pipeline stages, ranks that compute different layers of one model; 0: as the configuration
    // says. With the tensor ranks of each they divide the job's ranks.
    int pipeline;
    // In which order they work: "1f1b", "gpipe", "interleaved:2", "zb-h1", "pipedream", "2bw"; and
    // the first units of their chunks: "0,6". NULL: as the configuration says.
    const char *schedule, *split;
    // 1: what the run measures of itself is not kept for later predictions.
    int no_learn;
    // The date that a chat template takes for today, "YYYY-MM-DD"; NULL: that of the run which is
    // resumed, or else today. config.json keeps it if the template asks for it.
    const char *chat_date;
} zero_train_options;

// Trains. Collective over comm. `zero train --help` and docs/ describe what it writes into out_dir.
// Returns ZERO_ERR_IO if the model cannot be written at the end; the message then names the
// checkpoint that holds it, if there was room for one.
ZERO_API zero_status zero_train(zero_comm *comm, const zero_train_options *options,
                                zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
