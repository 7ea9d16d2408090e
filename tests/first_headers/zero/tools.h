// Whole jobs on top of the engine, as the program `zero` offers them: train, eval, run; generate, plan, bench and doctor have headers of their own.
#ifndef ZERO_TOOLS_H
#define ZERO_TOOLS_H

#include <zero/engine.h>
#include <zero/generate.h>
#include <zero/inspect.h>

#ifdef __cplusplus
extern "C" {
#endif

// START: after the plan, before the first step
typedef enum zero_event_kind { ZERO_EVENT_START, ZERO_EVENT_STEP, ZERO_EVENT_EVAL, ZERO_EVENT_SAMPLE, ZERO_EVENT_END } zero_event_kind;

typedef struct zero_event { // fields that an event does not have are 0 or NULL
    zero_event_kind kind;
    int64_t step, total_steps;
    double loss, previous_loss, lr, grad_norm; // EVAL: loss over the held-out text
    double milliseconds, tokens_per_second, seconds_left;
    int64_t tokens;      // of the step, all ranks
    int is_best;         // EVAL: the best so far
    int64_t print_every; // START: steps between lines that the configuration asks for; 0: the reader's choice
    const char *text;    // SAMPLE: the sample; EVAL: what was read ("132 windows", "all of the held-out text"); END: where the model lies
} zero_event;

// Rank 0 only. A non-zero answer cancels: all ranks end after this step with ZERO_ERR_CANCELLED.
typedef int (*zero_progress)(void *user, const zero_event *event);

typedef struct zero_train_options {
    size_t struct_size;
    const char *new_spec;     // "gpt2:layers=4,..."; or
    const char *model_dir;    // a Hugging Face directory, or that of a run, whose model/ is taken; in every struct with a model_dir
    const char *const *data;  // (data_count) [KIND:]PATH[:WEIGHT] each: text, JSONL or token files (docs/data.md)
    int data_count;
    const char *val;          // the same, without a weight; "none"; or NULL: the last tenth of each
    const char *field;        // of JSONL records; NULL: what they have (messages, prompt and completion, text)
    const char *chat;         // how messages are written: "chatml", "llama2", ...; NULL: by the model's chat template
    const char *tokenizer;    // "bytes", "chars", a directory or a tokenizer.json; NULL: bytes, or the one of model_dir
    const char *out_dir;
    const char *config_path;  // NULL: defaults
    const zero_override *overrides;
    int override_count;
    int64_t seq;              // 0: the model's context
    int64_t steps;            // 0: from epochs, or a finite default
    double epochs;            // 0: not given
    double lr;                // 0: the configuration's, or by model size
    int64_t seed;             // -1: the configuration's "seed", or 1337
    int64_t eval_every;       // 0: default; -1: never
    int64_t sample_every;     // 0: never
    int threads;              // 0: what this machine allows, divided by its ranks
    const char *backend;      // as in zero_options (engine.h); NULL: cpu
    int64_t save_every;       // steps between checkpoints in out_dir/checkpoints; 0: by time alone
    double save_seconds;      // a checkpoint where the last one is so old; 0: by steps alone
    int64_t keep;             // newest checkpoints that stay; 0: all
    int resume;               // go on from the newest whole checkpoint in out_dir, or from the start where there is none
    const char *job;          // zero_run_job(): what a restart knows its own files by; NULL: none
    int restarted;            // by zero_run, whose ranks have died: go on with what this job has written, by as many ranks as remain
    const volatile int *stop; // a signal number, on any rank, once the run is to end: all ranks save after the step under way and end with
                              // ZERO_ERR_STOPPED; may be NULL
    double end_by;            // seconds since 1970: saves and ends likewise shortly before; 0: no such time
    int dry_run, strict, overwrite;
    const char *profile;      // a file for a Chrome trace of steps 3 to 5 (of fewer, the last ones), all ranks; NULL: none
    zero_logger logger;
    zero_progress progress;
    void *progress_user;
    int ignore_unused;  // tensors of model_dir that the model has no place for are left out with a warning, not refused
    const char *allow_change; // with resume: names, with commas, of what may differ from the model of the checkpoint: "dropout"; NULL: nothing
    int no_final_checkpoint; // 1: none is made after the last step, so that this run cannot be extended
} zero_train_options;

// Collective over comm. See `zero train --help` and docs/ for what it writes into out_dir. ZERO_ERR_IO where the model cannot be written at the end: the
// message names the checkpoint that holds it, where there is room for one.
ZERO_API zero_status zero_train(zero_comm *comm, const zero_train_options *options, zero_error *error);

typedef struct zero_eval_options {
    size_t struct_size;
    const char *model_dir;
    const char *const *data; // (data_count) as in zero_train_options, without weights
    int data_count;
    const char *field, *chat; // likewise
    int64_t seq;        // 0: the model's context
    int threads;
    const char *backend; // likewise
    const char *config_path; // a DeepSpeed file: precision and offload_param are read, what only training reads is not; NULL: none
    const char *dtype;  // "fp32", "bf16", "fp16", "auto"; NULL: the configuration's, or fp32
    int64_t device_memory, host_memory; // bytes of a rank, of all ranks of a machine; 0: the configuration's
    zero_logger logger;
    int ignore_unused;  // likewise
} zero_eval_options;

// tokens: whose loss was measured, prompts not among them; bytes: of the text those tokens cover
typedef struct zero_eval_result { double loss; int64_t windows, tokens, bytes; } zero_eval_result;

// Mean cross-entropy in nats over windows i*seq, i < floor((n-1)/seq), each token counting once. Collective over comm (windows are shared out; the sum is exact).
ZERO_API zero_status zero_eval(zero_comm *comm, const zero_eval_options *options, zero_eval_result *out, zero_error *error);

typedef struct zero_run_options {
    size_t struct_size;
    int ranks;
    const char *const *argv;  // NULL-terminated; argv[0] is looked up in PATH
    const volatile int *stop; // a signal number once the caller wants the ranks to end: it is passed on to them (SIGINT as SIGTERM); may be NULL
    double grace_seconds;     // that they have from then on, before they are killed; 0: 30; less: as long as they take
    const volatile int *notes; // how often SIGUSR1 came: each change is passed on to the ranks, and ends nothing; may be NULL
    int restarts;             // after a rank has died, or a disk or another rank failed it, all ranks are started again, at most so often
    int min_ranks;            // with as many ranks as remain, at least so many; 0: with as many as before
    zero_logger logger;       // of restarts
} zero_run_options;
// Starts argv on `ranks` ranks of this machine and supervises them: if one fails, the others are ended within two seconds.
// *exit_code: of the rank that failed first (128+n for a signal), else 0. The message names rank, cause and step. Once *stop is set, the
// exit codes of ranks that end by themselves are what counts (75: saved); ZERO_ERR_CANCELLED and 128+n where a signal ended them.
ZERO_API zero_status zero_run(const zero_run_options *options, int *exit_code, zero_error *error);

// How often zero_run had started the ranks before it started these: 0 in the first attempt and without a supervisor. Whoever finds more goes on
// from its last checkpoint.
ZERO_API int zero_restart_count(void);
// A name that all ranks and attempts of one zero_run have, and those of no other: what a restart knows its own files by (zero_train_options.job).
// NULL without a supervisor.
ZERO_API const char *zero_run_job(void);

// Ranks of the job that a launcher (zero run, mpirun, srun, torchrun) describes in the environment; 0: there is none.
ZERO_API zero_status zero_launched_ranks(int *ranks, zero_error *error);
// Whether zero_run started this process: then it is the supervisor that reports what ends the job.
ZERO_API int zero_supervised(void);

#ifdef __cplusplus
}
#endif
#endif
