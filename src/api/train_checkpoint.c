// The checkpoints of a training: when, where, how many, and which one a run goes on from.
//
//   OUT/checkpoints/step-00000100/    whole or absent (checkpoint/states.h)
//   OUT/checkpoints/latest            "step-00000100 1a2b3c4d": a name and its checksum; a hint, the directories themselves count
#include "api/checkpoint.h"
#include "api/run_directory.h"
#include "api/train.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "comm/agree.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONFIG = 1 << 24 }; // bytes
static const double LEAST_TO_END = 60; // seconds: before a scheduler's end, beside what steps and saves have taken so far

static char *path_of(const char *out_dir, const char *name, zero_error *error)
{
    return zr_sprintf(error, "%s/" ZR_CHECKPOINTS "%s%s", out_dir, *name ? "/" : "", name);
}

static bool is_left_over(const char *name)
{
    return !strncmp(name, ".step-", 6) || !strncmp(name, "latest.tmp.", 11);
}

// Rank 0, under the run's lock: what a save that was killed has left.
static zero_status sweep(const char *folder, zero_error *error)
{
    DIR *directory = opendir(folder);
    zero_status status = ZERO_OK;
    for (struct dirent *entry; directory && status == ZERO_OK && (entry = readdir(directory));) {
        if (!is_left_over(entry->d_name))
            continue;
        char *path = zr_sprintf(error, "%s/%s", folder, entry->d_name);
        if (!path)
            status = ZERO_ERR_MEMORY;
        else if (unlink(path)) // a directory
            status = zr_directory_remove(path, error);
        zr_free(path);
    }
    if (directory)
        closedir(directory);
    return status;
}

// Rank 0: the newest that is whole; *out NULL where there is none.
static zero_status find_newest(const zr_train *train, const char *folder, char **out, zero_error *error)
{
    int64_t steps[ZR_MOST_CHECKPOINTS];
    zero_status status = ZERO_OK;
    *out = NULL;
    int count = zr_list_checkpoints(folder, steps);
    for (int i = 0; i < count && !*out && status == ZERO_OK; i++) {
        char *path = zr_sprintf(error, "%s/" ZR_CHECKPOINT_NAME, folder, (long long)steps[i]);
        if (path && zr_checkpoint_is_whole(path)) {
            *out = path;
            break;
        }
        status = path ? ZERO_OK : ZERO_ERR_MEMORY;
        zr_log(&train->logger, ZERO_LOG_WARNING, "the checkpoint \"%s\" is passed over: it is not whole", path ? path : folder);
        zr_free(path);
    }
    return status;
}

static int64_t integer_in(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

// Samples of a step, of a micro-batch, and ranks: of the checkpoint, or of a run that ended before its first one (its config.json).
static void read_batch(const char *checkpoint, const char *config, int64_t facts[3])
{
    zr_manifest manifest;
    json_t *root = NULL;
    if (checkpoint && zr_manifest_read(checkpoint, &manifest, NULL) == ZERO_OK) {
        const json_t *more = json_object_get(manifest.state, "train");
        facts[0] = integer_in(manifest.state, "train_batch_size");
        facts[1] = integer_in(more, "micro_batch");
        facts[2] = integer_in(more, "ranks");
        zr_manifest_free(&manifest);
    } else if (!checkpoint && zr_path_exists(config) && zr_json_load(config, MOST_CONFIG, &root, NULL) == ZERO_OK) {
        facts[0] = integer_in(root, "train_batch_size");
        facts[1] = integer_in(root, "train_micro_batch_size_per_gpu");
        facts[2] = integer_in(json_object_get(json_object_get(root, "libzero"), "run"), "ranks");
        json_decref(root);
    }
}

// Rank 0, before the lock: another run may still be writing, so nothing is removed, and nothing said.
static zero_status look_ahead(const zr_train *train, int64_t facts[3], zero_error *error)
{
    const zr_train silent = {.options = train->options};
    char *folder = path_of(train->options->out_dir, "", error), *config = zr_sprintf(error, "%s/config.json", train->options->out_dir), *path = NULL;
    zero_status status = folder && config ? find_newest(&silent, folder, &path, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        read_batch(path, config, facts);
    zr_free(path);
    zr_free(config);
    zr_free(folder);
    return status;
}

zero_status zr_train_foresee(zr_train *train, zero_error *error)
{
    int64_t facts[3] = {0};
    zero_status status = ZERO_OK;
    if (!train->options->resume || train->options->dry_run)
        return ZERO_OK;
    if (train->comm->rank == 0)
        status = look_ahead(train, facts, error);
    ZERO_TRY(zr_comm_agree(train->comm, status, error));
    ZERO_TRY(zr_comm_broadcast(train->comm, facts, sizeof facts, 0, error));
    train->before.batch = facts[0];
    train->before.micro_batch = facts[1];
    train->before.ranks = facts[2];
    return ZERO_OK;
}

// Rank 0, under the lock: what a save that was killed has left goes.
static zero_status find_under_lock(const zr_train *train, char **out, zero_error *error)
{
    char *folder = path_of(train->options->out_dir, "", error);
    *out = NULL;
    zero_status status = folder ? sweep(folder, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = find_newest(train, folder, out, error);
    zr_free(folder);
    return status;
}

// Rank 0: the newest `keep` stay.
static zero_status prune(const zr_train *train, const char *folder, zero_error *error)
{
    int64_t steps[ZR_MOST_CHECKPOINTS];
    int count = zr_list_checkpoints(folder, steps);
    for (int i = (int)train->options->keep; i < count && train->options->keep > 0; i++) {
        char *path = zr_sprintf(error, "%s/" ZR_CHECKPOINT_NAME, folder, (long long)steps[i]);
        zero_status status = path ? zr_directory_remove(path, error) : ZERO_ERR_MEMORY;
        zr_free(path);
        ZERO_TRY(status);
    }
    return ZERO_OK;
}

// config.json of the model, for whoever makes one of the checkpoint.
static json_t *describe_model(const zr_train *train)
{
    zr_buffer text = {0};
    zr_lm_config_write(&train->model_config, &text);
    json_t *config = text.failed ? NULL : json_loadb(text.data, text.length, 0, NULL);
    zr_buffer_free(&text);
    return config ? config : json_null();
}

static json_t *describe(const zr_train *train)
{
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)zr_train_data_hash(train));
    json_t *facts = json_pack("{s:s, s:I, s:I, s:I, s:I}", "data", hash, "seq", (json_int_t)train->seq, "lines", (json_int_t)zr_metrics_lines(train->outputs.metrics), "micro_batch",
                              (json_int_t)zr_engine_config(train->engine)->micro_batch, "ranks", (json_int_t)train->comm->size);
    if (facts && train->first_step)
        json_object_set_new(facts, "resumed_from", json_integer(train->first_step));
    if (facts && isfinite(train->best))
        json_object_set_new(facts, "best", json_real(train->best));
    return facts;
}

static zero_status make_folder(const zr_train *train, char **folder, zero_error *error)
{
    *folder = path_of(train->options->out_dir, "", error);
    if (!*folder)
        return ZERO_ERR_MEMORY;
    return train->comm->rank == 0 ? zr_directory_create(*folder, error) : ZERO_OK;
}

// Where the communicator itself has failed there is no run to go on with.
static bool is_fatal(zero_status status)
{
    return status == ZERO_ERR_PEER || status == ZERO_ERR_TIMEOUT || status == ZERO_ERR_INTERNAL;
}

// A checkpoint that cannot be written is told, and harms nothing: the next one is tried when its time has come.
static zero_status settle(zr_train *train, zero_status status, zero_error *error)
{
    if (status == ZERO_OK || is_fatal(status))
        return status;
    zr_log(&train->logger, ZERO_LOG_WARNING, "step %lld is not saved, the run goes on: %s", (long long)train->saving_step, error->message);
    return ZERO_OK;
}

zero_status zr_train_begin_checkpoint(zr_train *train, int64_t step, zero_error *error)
{
    char *folder = NULL, *path = NULL;
    ZERO_TRY(zr_train_end_checkpoint(train, error));
    train->saved_at = zr_clock_seconds();
    train->saving_step = step;
    zero_status status = make_folder(train, &folder, error);
    if (status == ZERO_OK && !(path = zr_sprintf(error, "%s/" ZR_CHECKPOINT_NAME, folder, (long long)step)))
        status = ZERO_ERR_MEMORY;
    status = zr_comm_agree(train->comm, status, error);
    if (status == ZERO_OK)
        status = zr_checkpoint_begin(train->engine, path, json_pack("{s:o, s:o}", "train", describe(train), "model_config", describe_model(train)), &train->saving, error);
    zr_free(path);
    zr_free(folder);
    return settle(train, status, error);
}

// Rank 0: what follows from a checkpoint that is there.
static zero_status announce(const zr_train *train, zero_error *error)
{
    char *folder = path_of(train->options->out_dir, "", error);
    zero_status status = folder ? zr_write_latest(folder, train->saving_step, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = prune(train, folder, error);
    zr_free(folder);
    return status;
}

static zero_status end_checkpoint(zr_train *train, zero_error *error)
{
    zero_checkpoint *saving = train->saving;
    train->saving = NULL;
    ZERO_TRY(zero_end_checkpoint(saving, error));
    train->saved_step = train->saving_step;
    train->longest_save = fmax(train->longest_save, zr_clock_seconds() - train->saved_at);
    return zr_comm_agree(train->comm, train->comm->rank == 0 ? announce(train, error) : ZERO_OK, error);
}

zero_status zr_train_end_checkpoint(zr_train *train, zero_error *error)
{
    return train->saving ? settle(train, end_checkpoint(train, error), error) : ZERO_OK;
}

static zero_status read_facts(zr_train *train, const char *path, json_t *state, zero_error *error)
{
    const json_t *facts = json_object_get(state, "train"), *best = json_object_get(facts, "best");
    int64_t seq = integer_in(facts, "seq"), seed = integer_in(state, "seed");
    if (!facts) // of another program: it has no order of the data, ours begins at its step
        return ZERO_OK;
    if (seq != train->seq || seed != train->seed)
        return zr_fail(error, ZERO_ERR_CONFIG, "the checkpoint \"%s\" is of windows of %lld tokens and seed %lld, this run has %lld and %lld: it would read other text from here on", path,
                       (long long)seq, (long long)seed, (long long)train->seq, (long long)train->seed);
    const char *data = json_string_value(json_object_get(facts, "data"));
    char now[20];
    snprintf(now, sizeof now, "%016llx", (unsigned long long)zr_train_data_hash(train));
    if (data && strcmp(data, now))
        return zr_fail(error, ZERO_ERR_CONFIG, "the checkpoint \"%s\" was made with text (and a tokenizer) whose hash is %s, that of this run is %s: it would go on with other text", path, data, now);
    train->first_lines = integer_in(facts, "lines");
    train->best = json_is_number(best) ? json_number_value(best) : INFINITY;
    return ZERO_OK;
}

// The path that rank 0 has found, on every rank; "" where there is none.
static zero_status share_path(const zr_train *train, const char *found, char out[4096], zero_error *error)
{
    memset(out, 0, 4096);
    if (found)
        snprintf(out, 4096, "%s", found);
    return zr_comm_broadcast(train->comm, out, 4096, 0, error);
}

zero_status zr_train_resume(zr_train *train, zero_error *error)
{
    char *found = NULL, path[4096];
    json_t *state = NULL;
    int64_t none;
    zero_status status = train->comm->rank == 0 ? find_under_lock(train, &found, error) : ZERO_OK;
    status = zr_comm_agree(train->comm, status, error);
    if (status == ZERO_OK)
        status = share_path(train, found, path, error);
    zr_free(found);
    ZERO_TRY(status);
    if (!path[0]) {
        zr_log(&train->logger, ZERO_LOG_INFO, "resume   there is no checkpoint yet: from the start");
        return ZERO_OK;
    }
    ZERO_TRY(zr_checkpoint_load(train->engine, path, &state, error));
    status = zr_comm_agree(train->comm, read_facts(train, path, state, error), error);
    json_decref(state);
    zero_position(train->engine, &train->first_step, &none);
    if (status == ZERO_OK)
        zr_log(&train->logger, ZERO_LOG_INFO, "resume   from step %lld of \"%s\"", (long long)train->first_step, path);
    train->saved_step = train->first_step;
    return status;
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

zero_status zr_train_save_and_stop(zr_train *train, int64_t step, zero_error *error)
{
    const zero_train_options *options = train->options;
    if (options->dry_run)
        return zr_fail(error, ZERO_ERR_CANCELLED, "ended as asked after step %lld; a dry run keeps nothing", (long long)step);
    ZERO_TRY(zr_train_begin_checkpoint(train, step, error));
    ZERO_TRY(zr_train_end_checkpoint(train, error));
    if (train->saved_step != step)
        return zr_fail(error, ZERO_ERR_IO, "ended as asked after step %lld of %lld, but this step could not be saved; the last one that was: %lld", (long long)step,
                       (long long)train->steps, (long long)train->saved_step);
    return zr_fail(error, ZERO_ERR_STOPPED, "ended as asked after step %lld of %lld; saved in \"%s/" ZR_CHECKPOINTS "/" ZR_CHECKPOINT_NAME "\"", (long long)step, (long long)train->steps,
                   options->out_dir, (long long)step);
}
