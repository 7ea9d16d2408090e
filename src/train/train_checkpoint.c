// The checkpoints of a training while it runs: when, where and how many.
//
//   OUT/checkpoints/step-00000100/    whole or absent (checkpoint/states.h)
//   OUT/checkpoints/latest            "step-00000100 1a2b3c4d": a name and its checksum. It is a
//                                     hint; the directories themselves count.
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/run_record.h"
#include "checkpoint/training_checkpoint.h"
#include "comm/agreement.h"
#include "formats/manifest.h"
#include "predict/run_tasks.h"
#include "train/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

// Seconds to leave before a scheduler's end, in addition to what steps and saves have taken so far.
static const double LEAST_TO_END = 60;

static void warn_of_foreign_files(zr_train_saves *saves, int64_t step, const char *path,
                                  const char *others, const zero_logger *logger)
{
    if (!saves->left_step)
        zr_log(logger, ZERO_LOG_WARNING,
               "\"%s\" is not removed, although newer checkpoints are there (--keep): it holds %s, "
               "which is of no checkpoint; this is logged once",
               path, others);
    saves->left_step = step;
}

// Removes an older checkpoint, unless its folder also has other files. Rank 0 calls it.
static zero_status remove_older(zr_train *train, int64_t step, zero_error *error)
{
    char others[1024];
    zero_status status = ZERO_OK;
    char *path = zr_checkpoint_path(train->asked.options->out_dir, step, error);
    if (!path)
        return ZERO_ERR_MEMORY;
    if (zr_directory_others(path, zr_is_checkpoint_file, others, sizeof others))
        warn_of_foreign_files(&train->run.saves, step, path, others, &train->logger);
    else
        status = zr_directory_discard(path, error);
    zr_free(path);
    return status;
}

// Keeps the newest `keep` whole checkpoints, including the one just written. Checkpoints of later
// steps are damaged, because the run resumed before them; they are left alone. Rank 0 calls it.
static zero_status remove_all_but_newest(zr_train *train, const zr_checkpoints *found,
                                         zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    int64_t newest = train->run.saves.saved_step, kept = 0;
    for (int i = 0; i < found->count; i++) {
        int64_t step = found->steps[i];
        if (step > newest)
            continue;
        if (kept >= options->keep)
            ZERO_TRY(remove_older(train, step, error));
        else
            kept += step == newest || zr_checkpoint_is_whole(options->out_dir, step);
    }
    return ZERO_OK;
}

static zero_status prune_checkpoints(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    zr_checkpoints found;
    ZERO_TRY(zr_checkpoints_list(options->out_dir, &found, error));
    zero_status status = options->keep > 0 ? remove_all_but_newest(train, &found, error) : ZERO_OK;
    zr_checkpoints_free(&found);
    return status;
}

static zr_run_state make_run_state(const zr_train *train)
{
    const zr_config *config = zr_engine_config(train->run.engine);
    return (zr_run_state){
        .data_hash = train->subject.data_hash,
        .base_hash = train->subject.base_hash,
        .seq = train->resolved.seq,
        .lines = zr_metrics_lines(train->run.outputs.metrics),
        .micro_batch = config->micro_batch,
        .ranks = train->comm->size,
        .tensor = config->tensor,
        .stages = config->pipeline.stages,
        .resumed_from = train->run.first_step,
        .owed = train->run.owed,
        .keeps_weight_decay = train->resolved.keeps_weight_decay,
        .best = train->run.evals.best,
        .best_windows = train->run.evals.best_windows,
    };
}

// A run cannot go on if the communicator itself has failed.
bool zr_train_is_fatal(zero_status status)
{
    return status == ZERO_ERR_PEER || status == ZERO_ERR_TIMEOUT || status == ZERO_ERR_INTERNAL;
}

// Reports a checkpoint that cannot be written; training goes on, and the next one is tried when it
// is due.
static zero_status tolerate_failed_save(const zr_train *train, zero_status status,
                                        const zero_error *error)
{
    if (status == ZERO_OK || zr_train_is_fatal(status))
        return status;
    const char *then = train->run.saves.saving_step == train->resolved.steps
                           ? "the run cannot be extended from its end"
                           : "training continues";
    zr_log(&train->logger, ZERO_LOG_ERROR, "step %lld was not saved, %s: %s",
           (long long)train->run.saves.saving_step, then, error->message);
    return ZERO_OK;
}

static zero_status prepare_checkpoint(const zr_train *train, char **path, json_t **more,
                                      zero_error *error)
{
    const zr_run_state state = make_run_state(train);
    *path = zr_checkpoint_path(train->asked.options->out_dir, train->run.saves.saving_step, error);
    zero_status status = *path ? ZERO_OK : ZERO_ERR_MEMORY;
    *more = zr_run_state_pack(&state);
    if (status == ZERO_OK && !*more)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the state of \"%s\"", *path);
    if (status == ZERO_OK && train->comm->rank == 0)
        status = zr_checkpoints_make(train->asked.options->out_dir, error);
    return status;
}

static zr_task saving_task(const zr_train *train)
{
    return train->run.saves.at_once ? ZR_TASK_CHECKPOINT : ZR_TASK_OVERLAPPED;
}

static zero_status begin_checkpoint(zr_train *train, int64_t step, zero_error *error)
{
    char *path = NULL;
    json_t *more = NULL;
    train->run.saves.saved_at = zr_clock_seconds();
    train->run.saves.saving_step = step;
    zero_status status =
        zr_comm_agree(train->comm, prepare_checkpoint(train, &path, &more, error), error);
    if (status == ZERO_OK)
        status = zr_checkpoint_begin(train->run.engine, path, json_incref(more),
                                     &train->run.saves.saving, error);
    json_decref(more);
    zr_free(path);
    if (status != ZERO_OK)
        zr_run_tasks_count_saving(&train->run.tasks, saving_task(train), status);
    return tolerate_failed_save(train, status, error);
}

zero_status zr_train_begin_checkpoint(zr_train *train, int64_t step, zero_error *error)
{
    ZERO_TRY(zr_train_end_checkpoint(train, error));
    zr_time_part before = zr_run_clock_turn(&train->run.clock, ZR_TIME_SAVING);
    zero_status status = begin_checkpoint(train, step, error);
    zr_run_tasks_end_saving(&train->run.tasks, saving_task(train), &train->run.clock, before);
    return status;
}

// If this fails, existing checkpoints stay.
void zr_train_announce_checkpoint(zr_train *train)
{
    zero_error error = {0};
    zero_status status = zr_checkpoint_write_latest(train->asked.options->out_dir,
                                                    train->run.saves.saved_step, &error);
    if (status == ZERO_OK)
        status = prune_checkpoints(train, &error);
    if (status != ZERO_OK)
        zr_log(&train->logger, ZERO_LOG_ERROR, "step %lld is saved, but: %s",
               (long long)train->run.saves.saved_step, error.message);
}

static zero_status end_checkpoint(zr_train *train, zero_error *error)
{
    zero_checkpoint *saving = train->run.saves.saving;
    train->run.saves.saving = NULL;
    ZERO_TRY(zero_end_checkpoint(saving, error));
    train->run.saves.saved_step = train->run.saves.saving_step;
    train->run.saves.longest =
        fmax(train->run.saves.longest, zr_clock_seconds() - train->run.saves.saved_at);
    if (train->comm->rank == 0)
        zr_train_announce_checkpoint(train);
    return ZERO_OK;
}

zero_status zr_train_end_checkpoint(zr_train *train, zero_error *error)
{
    if (!train->run.saves.saving)
        return ZERO_OK;
    zr_time_part before = zr_run_clock_turn(&train->run.clock, ZR_TIME_SAVING);
    zero_status status = end_checkpoint(train, error);
    zr_run_tasks_count_saving(&train->run.tasks, saving_task(train), status);
    status = tolerate_failed_save(train, status, error);
    zr_run_tasks_end_saving(&train->run.tasks, saving_task(train), &train->run.clock, before);
    return status;
}

bool zr_train_wants_checkpoint(const zr_train *train, int64_t step)
{
    const zero_train_options *options = train->asked.options;
    bool by_steps = options->save_every > 0 && step % options->save_every == 0;
    bool by_time = options->save_seconds > 0 &&
                   zr_clock_seconds() - train->run.saves.saved_at >= options->save_seconds;
    return !options->dry_run && (by_steps || by_time);
}

bool zr_train_is_out_of_time(const zr_train *train)
{
    double needed = LEAST_TO_END + 2 * train->run.longest_step + 2 * train->run.saves.longest;
    return train->asked.options->end_by > 0 &&
           (double)time(NULL) + needed >= train->asked.options->end_by;
}

// Saves now instead of overlapping the next step; a failure is handled as that of any other save.
static zero_status save_now(zr_train *train, int64_t step, bool owed, zero_error *error)
{
    ZERO_TRY(zr_train_end_checkpoint(train, error));
    train->run.owed = owed;
    train->run.saves.at_once = true;
    zero_status status = zr_train_begin_checkpoint(train, step, error);
    if (status == ZERO_OK)
        status = zr_train_end_checkpoint(train, error);
    train->run.saves.at_once = false;
    train->run.owed = false;
    return status;
}

// Returns whether the disk has room for twice the checkpoint, because the models that are written
// after it need room too. Rank 0 calls it.
static bool disk_has_room(const zr_train *train)
{
    const char *out = train->asked.options->out_dir;
    struct statvfs disk;
    char needed[ZR_BYTES_TEXT], available[ZR_BYTES_TEXT];
    int64_t bytes = zr_checkpoint_bytes(zr_engine_plan(train->run.engine));
    if (statvfs(out, &disk))
        return true; // saving will report the reason
    double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    if (free_bytes >= 2 * (double)bytes)
        return true;
    zr_bytes_text((double)bytes, needed);
    zr_bytes_text(free_bytes, available);
    zr_log(&train->logger, ZERO_LOG_WARNING,
           "no checkpoint is written at the end: it takes %s, and the disk of \"%s\" has %s free, "
           "less than twice that; this run cannot be extended",
           needed, out, available);
    return false;
}

zero_status zr_train_save_last(zr_train *train, int64_t step, bool due, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    int64_t wanted = due;
    if (options->dry_run || (options->no_final_checkpoint && !due))
        return ZERO_OK;
    if (!due && train->comm->rank == 0)
        wanted = disk_has_room(train);
    ZERO_TRY(zr_comm_agree_on_largest(train->comm, &wanted, error));
    if (!wanted)
        return ZERO_OK;
    ZERO_TRY(save_now(train, step, true, error));
    if (train->run.saves.saved_step == step)
        zr_log(&train->logger, ZERO_LOG_INFO,
               "saved    %s/" ZR_CHECKPOINTS "/" ZR_CHECKPOINT_NAME
               "; --resume with more --steps trains on from there",
               options->out_dir, (long long)step);
    return ZERO_OK;
}

static zero_status fail_lost_result(const zr_train_saves *saves, zero_status status,
                                    const zero_error *why, zero_error *error)
{
    if (saves->saved_step > 0)
        return zr_fail(
            error, status,
            "the run has ended, but neither its model nor a checkpoint of its end could be "
            "written: %.400s; the newest checkpoint is of step %lld: once there is room, "
            "--resume (without --overwrite) goes on from there",
            why->message, (long long)saves->saved_step);
    return zr_fail(
        error, status,
        "the run has ended, but neither its model nor a checkpoint could be written: %.400s",
        why->message);
}

// The result of a run must not be lost with its model, so a last checkpoint is tried if there is
// none.
zero_status zr_train_rescue(zr_train *train, zero_status status, zero_error *error)
{
    const zr_train_saves *saves = &train->run.saves;
    const char *out = train->asked.options->out_dir;
    int64_t end = train->resolved.steps;
    zero_error why = *error, last = {0};
    if (zr_train_is_fatal(status))
        return status;
    if (saves->saved_step != end && saves->saving_step != end) // otherwise it has been tried
        ZERO_TRY(save_now(train, end, false, &last));
    if (saves->saved_step != end)
        return fail_lost_result(saves, status, &why, error);
    return zr_fail(
        error, status,
        "the run has ended, but its model is not written: %.400s; \"%.200s/" ZR_CHECKPOINTS
        "/" ZR_CHECKPOINT_NAME "\" holds it: once there is room, the same command with --resume "
        "(without --overwrite) writes the model, or zero convert --from %.200s --to DIR",
        why.message, out, (long long)end, out);
}

zero_status zr_train_save_and_stop(zr_train *train, int64_t step, bool owed, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    if (options->dry_run)
        return zr_fail(error, ZERO_ERR_CANCELLED,
                       "ended as asked after step %lld; a dry run keeps nothing", (long long)step);
    if (train->run.saves.saved_step != step) // otherwise it was saved, with what is owed
        ZERO_TRY(save_now(train, step, owed, error));
    if (train->run.saves.saved_step != step)
        return zr_fail(error, ZERO_ERR_IO,
                       "ended as asked after step %lld of %lld, but this step could not be saved; "
                       "the last one that was: %lld",
                       (long long)step, (long long)train->resolved.steps,
                       (long long)train->run.saves.saved_step);
    return zr_fail(error, ZERO_ERR_STOPPED,
                   "ended as asked after step %lld of %lld; saved in \"%s/" ZR_CHECKPOINTS
                   "/" ZR_CHECKPOINT_NAME "\"",
                   (long long)step, (long long)train->resolved.steps, options->out_dir,
                   (long long)step);
}
