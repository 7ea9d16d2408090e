// The checkpoints of a training while it runs: when, where, how many.
//
//   OUT/checkpoints/step-00000100/    whole or absent (checkpoint/states.h)
//   OUT/checkpoints/latest            "step-00000100 1a2b3c4d": a name and its checksum; a hint, the directories themselves count
#include "api/checkpoint.h"
#include "api/run_directory.h"
#include "api/train.h"
#include "base/clock.h"
#include "base/file.h"
#include "comm/agree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const double LEAST_TO_END = 60; // seconds: before a scheduler's end, beside what steps and saves have taken so far

// Rank 0: the newest `keep` that are whole stay, the one just written among them. Newer ones than that are damaged: it was resumed before them.
static zero_status prune(const zr_train *train, zero_error *error)
{
    const char *run = train->options->out_dir;
    zr_checkpoints found;
    ZERO_TRY(zr_checkpoints_list(run, &found, error));
    zero_status status = ZERO_OK;
    int64_t kept = 0;
    for (int i = 0; i < found.count && train->options->keep > 0 && status == ZERO_OK; i++) {
        int64_t step = found.steps[i];
        if (step > train->saved_step)
            continue;
        if (kept < train->options->keep) {
            kept += step == train->saved_step || zr_checkpoint_is_whole(run, step);
            continue;
        }
        char *path = zr_checkpoint_path(run, step, error);
        status = path ? zr_directory_discard(path, error) : ZERO_ERR_MEMORY;
        zr_free(path);
    }
    zr_checkpoints_free(&found);
    return status;
}

static json_t *describe(const zr_train *train)
{
    json_t *facts = json_pack("{s:s, s:I, s:I, s:I, s:I}", "data", train->data_hash, "seq", (json_int_t)train->seq, "lines", (json_int_t)zr_metrics_lines(train->outputs.metrics), "micro_batch",
                              (json_int_t)zr_engine_config(train->engine)->micro_batch, "ranks", (json_int_t)train->comm->size);
    if (facts && train->first_step)
        json_object_set_new(facts, "resumed_from", json_integer(train->first_step));
    if (facts && train->owed)
        json_object_set_new(facts, "owed", json_true());
    if (facts && isfinite(train->best))
        json_object_set_new(facts, "best", json_real(train->best));
    return facts;
}

// Where the communicator itself has failed there is no run to go on with.
static bool is_fatal(zero_status status)
{
    return status == ZERO_ERR_PEER || status == ZERO_ERR_TIMEOUT || status == ZERO_ERR_INTERNAL;
}

// A checkpoint that cannot be written is told, and harms nothing: the next one is tried when its time has come.
static zero_status settle(const zr_train *train, zero_status status, const zero_error *error)
{
    if (status == ZERO_OK || is_fatal(status))
        return status;
    zr_log(&train->logger, ZERO_LOG_ERROR, "step %lld is not saved, the run goes on: %s", (long long)train->saving_step, error->message);
    return ZERO_OK;
}

static zero_status prepare(const zr_train *train, char **path, json_t **more, zero_error *error)
{
    *path = zr_checkpoint_path(train->options->out_dir, train->saving_step, error);
    zero_status status = *path ? ZERO_OK : ZERO_ERR_MEMORY;
    *more = json_pack("{s:o}", "train", describe(train));
    if (status == ZERO_OK && !*more)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the state of \"%s\"", *path);
    if (status == ZERO_OK && train->comm->rank == 0)
        status = zr_checkpoints_make(train->options->out_dir, error);
    return status;
}

zero_status zr_train_begin_checkpoint(zr_train *train, int64_t step, zero_error *error)
{
    char *path = NULL;
    json_t *more = NULL;
    ZERO_TRY(zr_train_end_checkpoint(train, error));
    train->saved_at = zr_clock_seconds();
    train->saving_step = step;
    zero_status status = zr_comm_agree(train->comm, prepare(train, &path, &more, error), error);
    if (status == ZERO_OK)
        status = zr_checkpoint_begin(train->engine, path, json_incref(more), &train->saving, error);
    json_decref(more);
    zr_free(path);
    return settle(train, status, error);
}

// A checkpoint that is there stays there if this fails.
void zr_train_announce_checkpoint(const zr_train *train)
{
    zero_error error = {0};
    zero_status status = zr_write_latest(train->options->out_dir, train->saved_step, &error);
    if (status == ZERO_OK)
        status = prune(train, &error);
    if (status != ZERO_OK)
        zr_log(&train->logger, ZERO_LOG_ERROR, "step %lld is saved, but: %s", (long long)train->saved_step, error.message);
}

static zero_status end_checkpoint(zr_train *train, zero_error *error)
{
    zero_checkpoint *saving = train->saving;
    train->saving = NULL;
    ZERO_TRY(zero_end_checkpoint(saving, error));
    train->saved_step = train->saving_step;
    train->longest_save = fmax(train->longest_save, zr_clock_seconds() - train->saved_at);
    if (train->comm->rank == 0)
        zr_train_announce_checkpoint(train);
    return ZERO_OK;
}

zero_status zr_train_end_checkpoint(zr_train *train, zero_error *error)
{
    return train->saving ? settle(train, end_checkpoint(train, error), error) : ZERO_OK;
}

bool zr_train_wants_checkpoint(const zr_train *train, int64_t step)
{
    const zero_train_options *options = train->options;
    bool by_steps = options->save_every > 0 && step % options->save_every == 0;
    bool by_time = options->save_seconds > 0 && zr_clock_seconds() - train->saved_at >= options->save_seconds;
    return !options->dry_run && (by_steps || by_time);
}

bool zr_train_is_out_of_time(const zr_train *train)
{
    double needed = LEAST_TO_END + 2 * train->longest_step + 2 * train->longest_save;
    return train->options->end_by > 0 && (double)time(NULL) + needed >= train->options->end_by;
}

zero_status zr_train_save_and_stop(zr_train *train, int64_t step, bool owed, zero_error *error)
{
    const zero_train_options *options = train->options;
    if (options->dry_run)
        return zr_fail(error, ZERO_ERR_CANCELLED, "ended as asked after step %lld; a dry run keeps nothing", (long long)step);
    train->owed = owed;
    ZERO_TRY(zr_train_begin_checkpoint(train, step, error));
    ZERO_TRY(zr_train_end_checkpoint(train, error));
    if (train->saved_step != step)
        return zr_fail(error, ZERO_ERR_IO, "ended as asked after step %lld of %lld, but this step could not be saved; the last one that was: %lld", (long long)step,
                       (long long)train->steps, (long long)train->saved_step);
    return zr_fail(error, ZERO_ERR_STOPPED, "ended as asked after step %lld of %lld; saved in \"%s/" ZR_CHECKPOINTS "/" ZR_CHECKPOINT_NAME "\"", (long long)step, (long long)train->steps,
                   options->out_dir, (long long)step);
}
