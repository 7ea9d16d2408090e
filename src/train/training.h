// One training: what the files of train*.c share. The order is that of training.c:
//
//   read (text, tokenizer, model) -> configure -> engine -> outputs -> loop -> save
#ifndef ZR_TRAIN_TRAINING_H
#define ZR_TRAIN_TRAINING_H

#include "train/train_state.h"

// Prepares a training with these options, before anything is read. replay_to: the step at which a
// replay ends; 0: a training.
void zr_train_init(zr_train *train, zero_comm *comm, const zero_train_options *options,
                   int64_t replay_to);
// training.c, also for callers that replay a training. The first does what a rank can do by itself
// and is not collective; the second makes the engine and is collective; the third frees everything.
zero_status zr_train_prepare(zr_train *train, zero_error *error);
zero_status zr_train_make_engine(zr_train *train, zero_error *error);
void zr_train_free(zr_train *train);
// train_names.c. Checks whether the model, the tokenizer and the data that the options name are
// there. Not collective.
zero_status zr_train_check_names(const zr_train *train, zero_error *error);
// train_outputs.c. Checks whether out_dir and the profile's file may be written. Not collective;
// changes nothing.
zero_status zr_train_check_outputs(zr_train *train, zero_error *error);
// Checks the same for the places that the configuration names, once it is resolved. Not collective.
zero_status zr_train_check_places(const zr_train *train, zero_error *error);
// Opens and locks the outputs, and loads the checkpoint of a run that continues. Collective.
zero_status zr_train_open_outputs(zr_train *train, zero_error *error);
// train_inputs.c. Reads text, tokenizer and model. Not collective.
zero_status zr_train_read(zr_train *train, zero_error *error);
// Compares what the ranks have read and configured. Collective.
zero_status zr_train_compare_inputs(zr_train *train, zero_error *error);
// Fills data_hash, once all ranks have read. Collective.
zero_status zr_train_hash_data(zr_train *train, zero_error *error);
void zr_train_release_subject(zr_train_subject *subject);
// train_configure.c. Before anything is read: reads the configuration file, and refuses what is
// wrong in it and in the flags on top of it. Not collective.
zero_status zr_train_check_config(zr_train *train, zero_error *error);
// Resolves the configuration once everything is read, and logs what was chosen. Not collective.
zero_status zr_train_configure(zr_train *train, zero_error *error);
// Returns the options from which the engine is made, without its configuration; their model is NULL
// until it is built.
zero_options zr_train_engine_options(const zr_train *train);
// Chooses where states lie and in how many tiles, if the configuration leaves that to the program;
// resolves the configuration again and reports the choice. Collective, once the threads are chosen.
zero_status zr_train_place(zr_train *train, zero_error *error);
// Writes config_text, for config.json, once everything is chosen. Not collective.
zero_status zr_train_record(zr_train *train, zero_error *error);
// train_start.c. Print the lines before the first step. The last one is collective.
void zr_train_describe_model(const zr_train *train);
void zr_train_describe_runtime(const zero_logger *logger);
zero_status zr_train_describe_run(zr_train *train, zero_error *error);
// train_forecast.c. Predicts a step on rank 0, from what is known of the machine, and prints it, or
// why there is no prediction. Not collective.
void zr_train_foretell(zr_train *train);
// Returns what determines the amounts of tasks, once there is an engine.
zr_task_subject zr_train_task_subject(const zr_train *train);
// train_pipeline.c. Prints the pipeline stages, if there are any. Not collective.
zero_status zr_train_describe_pipeline(const zr_train *train, zero_error *error);
typedef struct zr_train_memory {                    // planned for one rank
    int stage;                                      // of the pipeline; -1: there is none
    int64_t bytes[ZERO_TIER_COUNT][ZERO_MEM_COUNT]; // as of a plan
} zr_train_memory;
// Finds what the rank needs that needs most; without a pipeline, what this rank needs. Collective.
zero_status zr_train_find_largest(const zr_train *train, zr_train_memory *out, zero_error *error);
// train_sample_text.c. Returns whether samples are requested, and can be made.
bool zr_train_makes_samples(const zr_train *train);
// Logs why none can be made, if they are requested. Not collective.
void zr_train_warn_left_out_samples(const zr_train *train);
// Checks, once there is an engine, that a sample's memory fits. Not collective.
zero_status zr_train_sample_check(const zr_train_subject *subject, zero_engine *engine,
                                  zero_error *error);
// Logs a sample of what the model writes after a step. Collective, between steps.
zero_status zr_train_sample(zr_train *train, int64_t step, zero_error *error);
// Predicts, on rank 0, the seconds of all samples so far; 0: too little is known. Not collective.
double zr_train_predict_samples(const zr_train *train, const zr_rate_book *book);
// train_loop.c. Makes all steps. Collective.
zero_status zr_train_loop(zr_train *train, zero_error *error);
// Passes an event to the caller on rank 0, and returns whether the caller wants the run to end.
// Returns 0 on other ranks.
int zr_train_tell(const zr_train *train, const zero_event *event);
// train_reference.c. Computes or reads what the model gives to each answer of preferences, if their
// loss compares with that. Collective, before the first step and before a checkpoint is loaded.
zero_status zr_train_make_reference(zr_train *train, zero_error *error);
// train_inputs.c. Hashes the weights of the model that the run begins with. Collective.
zero_status zr_train_hash_model(zr_train *train, uint64_t *out, zero_error *error);
// train_bad_steps.c. Refuses a step whose loss is not finite, and warns of what else went wrong.
// last: the gradients of this step are still there. Collective.
zero_status zr_train_check_step(zr_train *train, const zero_step_info *info, bool last,
                                zero_error *error);
// Sets the loss of a step without any target, for which the engine returns 0, to NaN, and counts
// the step.
void zr_train_mark_idle_step(zr_train *train, zero_step_info *info);
// Warns how many of these steps, which this start made, were idle.
void zr_train_warn_idle(const zr_train *train, int64_t steps);
// train_times.c. Makes what the run measures of itself, before the engine is observed. Not
// collective.
zero_status zr_train_measure(zr_train *train, zero_error *error);
// Counts an evaluation of `windows` windows. Not collective.
void zr_train_count_evaluation(zr_train *train, int64_t windows);
// Says what the run has taken, next to what was predicted, writes it into out_dir and, unless
// options->no_learn, into the user's book of rates. Collective, once everything is saved.
zero_status zr_train_tell_times(zr_train *train, zero_error *error);
// train_profile.c. Returns the steps to record. Not collective.
zr_step_range zr_train_profile_steps(const zr_train *train);
// Checks that --profile replaces nothing but a profile. Not collective.
zero_status zr_train_profile_check(const zr_train *train, zero_error *error);
// Checks on rank 0 that the profile can be written. Not collective.
zero_status zr_train_profile_try(const zr_train *train, zero_error *error);
// Writes all ranks' records into the profile. Collective.
zero_status zr_train_profile_write(const zr_train *train, zero_error *error);
// train_resume.c. Fills `resume` and `before`, before anything is made. Collective.
zero_status zr_train_foresee(zr_train_asked *asked, zero_comm *comm, zero_error *error);
// Loads the newest checkpoint, if there is one; the lock is held. Collective.
zero_status zr_train_resume(zr_train *train, zero_error *error);
// train_checkpoint.c. Makes the checkpoint of saved_step the one that `latest` names, and removes
// the older ones beyond --keep. Rank 0 calls it.
void zr_train_announce_checkpoint(zr_train *train);
// Begins to write a checkpoint of this step, which overlaps the next step. Collective. This and the
// next function only report a checkpoint that fails, since the run is not harmed.
zero_status zr_train_begin_checkpoint(zr_train *train, int64_t step, zero_error *error);
// Ends the checkpoint that is being written, if there is one. Collective.
zero_status zr_train_end_checkpoint(zr_train *train, zero_error *error);
// Returns whether a checkpoint is due, by rank 0's clock. Not collective.
bool zr_train_wants_checkpoint(const zr_train *train, int64_t step);
// Returns whether options->end_by is so near, by rank 0's clock, that the run must save and end.
bool zr_train_is_out_of_time(const zr_train *train);
// Saves a checkpoint after the last step, if the disk has room for it or if one was due. It comes
// before a delayed update is finished and anything is evaluated, so that a longer run can continue
// from it with the bits of an uninterrupted one. Collective.
zero_status zr_train_save_last(zr_train *train, int64_t step, bool due, zero_error *error);
// Saves a checkpoint of the last step if there is none, after the last model could not be written
// (status, error). The error that it returns says what to do. Collective.
zero_status zr_train_rescue(zr_train *train, zero_status status, zero_error *error);
// Returns whether the communicator itself has failed, so that the run cannot go on.
bool zr_train_is_fatal(zero_status status);
// Saves a checkpoint and returns ZERO_ERR_STOPPED with a message that says where it is. `owed`
// means that what comes after the step has not been done. Collective.
zero_status zr_train_save_and_stop(zr_train *train, int64_t step, bool owed, zero_error *error);
// train_save.c. Writes directory/name; a failure of rank 0 is a failure of all. Collective.
zero_status zr_train_save_model(zr_train *train, const char *name, zero_error *error);
// Returns the name of the directory of the last model, or of the last adapter.
const char *zr_train_last_model(const zr_train *train);
// Rank 0: writes the files that go with the weights.
zero_status zr_train_write_model_files(const zr_train *train, const char *name, zero_error *error);

// time_left.c: how long a training still takes.
typedef struct zr_train_between {     // what comes between steps
    int64_t eval_every, eval_batches; // steps; micro-batches of all ranks that are read, 0: all
} zr_train_between;
// Returns the seconds that the run still takes after `step`, at the pace of its steps, with all
// that comes between them and after them. Rank 0 calls it.
double zr_train_seconds_left(const zr_train *train, const zr_train_between *between, int64_t step);
// Log on rank 0 how long the whole run takes: the first before the first step, as predicted; the
// second once after the first steps, if that was unknown or is off.
void zr_train_tell_length(zr_train *train, const zr_train_between *between);
void zr_train_correct_length(zr_train *train, const zr_train_between *between, int64_t step);

#endif
