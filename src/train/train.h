// One training, between the files of train*.c. The order is that of train.c:
//
//   read (text, tokenizer, model) -> configure -> engine -> outputs -> loop -> save
#ifndef ZR_TRAIN_TRAIN_H
#define ZR_TRAIN_TRAIN_H

#include "config/config.h"
#include "corpus/corpus.h"
#include "files/run_record.h"
#include "infer/reading.h"
#include "observe/observe.h"
#include "setup/threads.h"
#include "train/outputs.h"
#include <zero/tools.h>

typedef struct zr_train {
    zero_comm *comm;
    const zero_train_options *options;
    struct { zero_train_options options; char *model_dir, *tokenizer; } own; // zero_train's: what it was given, with the model's and tokenizer's own directories
    zero_logger logger;         // silent on ranks above 0
    // what is trained, on what
    zr_corpus *corpus, *val_corpus; // val_corpus only where --val names a file
    char data_hash[17];         // of the streams of tokens to train and to evaluate on, and of the tokenizer, in hexadecimal; from zr_train_hash_data on
    zr_chat chat;               // how messages are written
    zr_reading_progress reading;
    zr_tokenizer *tokenizer;
    zr_lm_config model_config;  // of the model
    char *generation;           // generation_config.json of the model that is trained further, for the one that is written; NULL: none
    zr_lm_shape shape;          // what follows from it
    zero_model *model;
    int64_t parameters;
    zr_dataset data, val;       // val.count 0: nothing is held out
    bool val_is_tenth;
    // how
    int64_t seq, steps, seed;
    char *file_text;            // of the configuration file, NULL: none
    size_t file_length;
    zr_config *config;          // resolved; the engine's from train_engine on
    char *config_text;          // the same, as JSON, with what else the run was made with
    zr_threads threads;
    zero_engine *engine;
    zr_observation *observed;   // the engine's; NULL: nothing is asked for
    zr_step_range profiled;     // steps of --profile; first 0: none
    zr_outputs_place place;     // rank 0: where it writes, and what it may not replace there
    zr_outputs outputs;         // rank 0
    bool has_checkpoint;        // rank 0: out_dir has one that is whole
    bool resume;                // what lies in out_dir: it goes on with that; fixed by zr_train_foresee, the same on every rank
    zr_run_before before;       // of what it goes on from
    bool keeps_weight_decay;    // that value holds here, as the configuration gives none: what goes on from this run keeps it, too
    int64_t replay_to;          // a replay ends after so many steps, and keeps nothing; 0: it is a training
    // while it runs
    int64_t first_step;         // steps that were made before this run: of the checkpoint that it goes on from
    int64_t first_lines;        // of metrics.jsonl, then
    bool owed;                  // what comes behind the first step (evaluation, sample) has not been done; of a save: of the step that is saved
    bool metrics_failed;        // it has been told that lines are missing
    int64_t saved_step;         // of the newest checkpoint
    int64_t saving_step;        // of the one that is being written, or was last
    int64_t left_step;          // of the last older one that stayed because its folder holds something else; 0: none, and none was told
    zero_checkpoint *saving;    // NULL: none is being written
    double saved_at;            // seconds of zr_clock_seconds, when the last one was begun
    double longest_save, longest_step; // seconds
    char best_failure[ZERO_MESSAGE_BYTES]; // why the best model could not be written last, "": it could
    double best;                // lowest loss over the held-out text; INFINITY: none yet
    int64_t best_windows;       // that an evaluation which decides over it reads; 0: unknown
    double last_eval;           // at the end, over the whole of it
    char eval_text[48];         // what the evaluations between steps read: "132 windows", "all of the held-out text"; "": none was made
} zr_train;

// train.c, for whoever replays a training: what a rank can find out by itself, not collective; then the engine, collective; and the end of all.
zero_status zr_train_prepare(zr_train *train, zero_error *error);
zero_status zr_train_make_engine(zr_train *train, zero_error *error);
void zr_train_free(zr_train *train);
// train_outputs.c. Not collective, changes nothing: whether out_dir and the profile's file may be written. Collective: opens and locks them, and where the
// run goes on, loads what it goes on from.
zero_status zr_train_check_outputs(zr_train *train, zero_error *error);
zero_status zr_train_check_places(const zr_train *train, zero_error *error); // the same of what the configuration asks for, once it is there
zero_status zr_train_open_outputs(zr_train *train, zero_error *error);
// train_read.c, not collective but for the second and the third
zero_status zr_train_read(zr_train *train, zero_error *error);
zero_status zr_train_compare_inputs(zr_train *train, zero_error *error); // collective, once all have read and configured
zero_status zr_train_hash_data(zr_train *train, zero_error *error); // collective, once all have read: fills data_hash
void zr_train_release_data(zr_train *train);
// train_configure.c, not collective. Before anything is read: takes the configuration file, and refuses what is wrong with it and with the flags over it.
zero_status zr_train_check_config(zr_train *train, zero_error *error);
// Once all is read. Logs what was chosen.
zero_status zr_train_configure(zr_train *train, zero_error *error);
// train_keep.c, not collective, before the configuration is resolved: what the run before had and this one does not say. Afterwards: what it
// does not keep, where that changes the training.
// micro_batch: that the program would choose.
zero_status zr_train_keep(const zr_train *train, zr_config *config, int64_t micro_batch, const zero_logger *logger, zero_error *error);
void zr_train_tell_kept(const zr_train *train, const zr_config *config, const zero_logger *logger);
// Collective, once the threads are chosen: where the configuration leaves it to the program, what lies where; resolves it anew and says it.
zero_status zr_train_place(zr_train *train, zero_error *error);
// The same file, once all is chosen: config_text, for config.json. Not collective.
zero_status zr_train_record(zr_train *train, zero_error *error);
// train_start.c: the lines before the first step
void zr_train_describe_model(const zr_train *train);
void zr_train_describe_runtime(const zr_train *train);
void zr_train_describe_run(const zr_train *train);
// train_sample.c. Not collective: whether the memory that samples take fits, once the engine is there.
zero_status zr_train_sample_check(const zr_train *train, zero_error *error);
// Appends a sample of what the model writes after `step` steps; the same text on every rank. Collective, between steps.
zero_status zr_train_sample(const zr_train *train, int64_t step, zr_buffer *out, zero_error *error);
// train_loop.c, collective
zero_status zr_train_loop(zr_train *train, zero_error *error);
// train_profile.c. Not collective: which steps; whether it replaces nothing but a profile, and whether it can be written (rank 0). Collective: all ranks' records into it.
zr_step_range zr_train_profile_steps(const zr_train *train);
zero_status zr_train_profile_check(const zr_train *train, zero_error *error);
zero_status zr_train_profile_try(const zr_train *train, zero_error *error);
zero_status zr_train_profile_write(const zr_train *train, zero_error *error);
// train_resume.c, collective. Before anything is made: fills resume, before. Under the lock: the newest checkpoint, where there is any.
zero_status zr_train_foresee(zr_train *train, zero_error *error);
zero_status zr_train_resume(zr_train *train, zero_error *error);
// train_checkpoint.c. Collective: a checkpoint after that many steps begins to be written, beside the next one; its end, where one is under way
// (both report one that fails, which harms nothing). Not collective, by rank 0's clock: whether one is due; whether options->end_by is so near
// that the run must save and end.
// Rank 0: saved_step is what `latest` names and what older ones give way to.
void zr_train_announce_checkpoint(zr_train *train);
zero_status zr_train_begin_checkpoint(zr_train *train, int64_t step, zero_error *error);
zero_status zr_train_end_checkpoint(zr_train *train, zero_error *error);
bool zr_train_wants_checkpoint(const zr_train *train, int64_t step);
bool zr_train_is_out_of_time(const zr_train *train);
// Collective. After the last step, before a delayed update is finished and anything is evaluated, so that a longer run goes on from it to the bits of a
// straight one: a checkpoint where the disk has room for it, or where one was due.
zero_status zr_train_save_last(zr_train *train, int64_t step, bool due, zero_error *error);
// Collective, once the last model could not be written (status, error): a checkpoint where there is none of the last step; the error says what to do.
zero_status zr_train_rescue(zr_train *train, zero_status status, zero_error *error);
bool zr_train_is_fatal(zero_status status); // the communicator itself has failed: there is no run to go on with
// Collective: a checkpoint, and ZERO_ERR_STOPPED with a message that says where it lies. owed: what comes behind the step has not been done.
zero_status zr_train_save_and_stop(zr_train *train, int64_t step, bool owed, zero_error *error);
const char *zr_train_instructions(const zr_train *train); // the path that its arithmetic takes: "avx2", ...
// train_save.c, collective: writes directory/name; rank 0's failure is everyone's
zero_status zr_train_save_model(zr_train *train, const char *name, zero_error *error);

#endif
