// One training, between the files of train*.c. The order is that of training.c:
//
//   read (text, tokenizer, model) -> configure -> engine -> outputs -> loop -> save
#ifndef ZR_TRAIN_TRAINING_H
#define ZR_TRAIN_TRAINING_H

#include "train/train_parts.h"

// A training of these options, of which nothing has been read. replay_to: 0, or where a replay
// ends.
void zr_train_init(zr_train *train, zero_comm *comm, const zero_train_options *options,
                   int64_t replay_to);
// training.c, for callers that replay a training: what a rank can find out by itself, not
// collective; then the engine, collective; and the end of all.
zero_status zr_train_prepare(zr_train *train, zero_error *error);
zero_status zr_train_make_engine(zr_train *train, zero_error *error);
void zr_train_free(zr_train *train);
// train_outputs.c. Not collective, changes nothing: whether out_dir and the profile's file may be
// written. Collective: opens and locks them, and where the run goes on, loads what it goes on from.
zero_status zr_train_check_outputs(zr_train *train, zero_error *error);
// the same of what the configuration asks for, once it is there
zero_status zr_train_check_places(const zr_train *train, zero_error *error);
zero_status zr_train_open_outputs(zr_train *train, zero_error *error);
// train_read.c, not collective but for the second and the third
zero_status zr_train_read(zr_train *train, zero_error *error);
// collective, once all have read and configured
zero_status zr_train_compare_inputs(zr_train *train, zero_error *error);
// collective, once all have read: fills data_hash
zero_status zr_train_hash_data(zr_train *train, zero_error *error);
void zr_train_release_subject(zr_train_subject *subject);
// train_configure.c, not collective. Before anything is read: takes the configuration file, and
// refuses what is wrong with it and with the flags over it.
zero_status zr_train_check_config(zr_train *train, zero_error *error);
// Once all is read. Logs what was chosen.
zero_status zr_train_configure(zr_train *train, zero_error *error);
// What the engine is made by, without its configuration; the model in it is NULL until it is built.
zero_options zr_train_engine_options(const zr_train *train);
// Collective, once the threads are chosen: where the configuration leaves it to the program, what
// lies where and in how many tiles; resolves it anew and says it.
zero_status zr_train_place(zr_train *train, zero_error *error);
// The same file, once all is chosen: config_text, for config.json. Not collective.
zero_status zr_train_record(zr_train *train, zero_error *error);
// train_start.c: the lines before the first step
void zr_train_describe_model(const zr_train *train);
void zr_train_describe_runtime(const zero_logger *logger);
void zr_train_describe_run(const zr_train *train);
// train_sample.c. Not collective: whether the memory that samples take fits, once the engine is
// there.
zero_status zr_train_sample_check(const zr_train_subject *subject, zero_engine *engine,
                                  zero_error *error);
// Appends a sample of what the model writes now, drawn with this seed; the same text on every rank.
// Collective, between steps.
zero_status zr_train_sample(const zr_train_subject *subject, zero_engine *engine, int64_t seed,
                            zr_buffer *out, zero_error *error);
// train_loop.c. Collective: all steps. Rank 0's caller is told of an event: what it answers,
// whether it wants the end; 0 on other ranks.
zero_status zr_train_loop(zr_train *train, zero_error *error);
int zr_train_tell(const zr_train *train, const zero_event *event);
// train_profile.c. Not collective: which steps; whether it replaces nothing but a profile, and
// whether it can be written (rank 0). Collective: all ranks' records into it.
zr_step_range zr_train_profile_steps(const zr_train *train);
zero_status zr_train_profile_check(const zr_train *train, zero_error *error);
zero_status zr_train_profile_try(const zr_train *train, zero_error *error);
zero_status zr_train_profile_write(const zr_train *train, zero_error *error);
// train_resume.c, collective. Before anything is made: fills resume, before. Under the lock: the
// newest checkpoint, where there is any.
zero_status zr_train_foresee(zr_train_asked *asked, zero_comm *comm, zero_error *error);
zero_status zr_train_resume(zr_train *train, zero_error *error);
// train_checkpoint.c. Collective: a checkpoint after that many steps begins to be written, beside
// the next one; its end, where one is under way (both report one that fails, which harms nothing).
// Not collective, by rank 0's clock: whether one is due; whether options->end_by is so near that
// the run must save and end.
// Rank 0: saved_step is what `latest` names and what older ones give way to.
void zr_train_announce_checkpoint(zr_train *train);
zero_status zr_train_begin_checkpoint(zr_train *train, int64_t step, zero_error *error);
zero_status zr_train_end_checkpoint(zr_train *train, zero_error *error);
bool zr_train_wants_checkpoint(const zr_train *train, int64_t step);
bool zr_train_is_out_of_time(const zr_train *train);
// Collective. After the last step, before a delayed update is finished and anything is evaluated,
// so that a longer run goes on from it to the bits of a straight one: a checkpoint where the disk
// has room for it, or where one was due.
zero_status zr_train_save_last(zr_train *train, int64_t step, bool due, zero_error *error);
// Collective, once the last model could not be written (status, error): a checkpoint where there is
// none of the last step; the error says what to do.
zero_status zr_train_rescue(zr_train *train, zero_status status, zero_error *error);
// the communicator itself has failed: there is no run to go on with
bool zr_train_is_fatal(zero_status status);
// Collective: a checkpoint, and ZERO_ERR_STOPPED with a message that says where it lies. owed: what
// comes after the step has not been done.
zero_status zr_train_save_and_stop(zr_train *train, int64_t step, bool owed, zero_error *error);
// The path that this backend's arithmetic takes: "avx2", ... NULL: of the backend that is taken
// where none is named.
const char *zr_train_instructions(const char *backend);
// train_save.c, collective: writes directory/name; rank 0's failure is everyone's
zero_status zr_train_save_model(zr_train *train, const char *name, zero_error *error);

#endif
