#include "train/outputs.h"

#include "base/clock.h"
#include "base/file.h"
#include "chat/chat.h"
#include "checkpoint/ownership.h"
#include "checkpoint/adapter_directory.h"
#include "checkpoint/receipt.h"
#include "checkpoint/run_directory.h"
#include "model/architecture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_SECONDS 5.0
#define SHOWN_SECONDS 3.0
enum { MOST_JOB = 256 }; // bytes

static zero_status join_path(const char *directory, const char *name, char out[static 4096],
                             zero_error *error)
{
    if (snprintf(out, 4096, "%s/%s", directory, name) >= 4096)
        return zr_fail(error, ZERO_ERR_USAGE, "the path %.200s... is too long", directory);
    return ZERO_OK;
}

// Checks that the directory, or its nearest ancestor that exists, can be written to.
static zero_status check_writable(const char *directory, zero_error *error)
{
    char path[4096];
    struct stat info;
    ZERO_TRY(join_path(directory, "", path, error));
    for (;;) {
        size_t length = strlen(path);
        while (length > 1 && path[length - 1] == '/')
            path[--length] = 0;
        if (stat(path[0] ? path : ".", &info) == 0)
            break;
        if (errno != ENOENT)
            return zr_fail_errno(error, ZERO_ERR_IO, errno,
                                 "cannot use the directory \"%s\" for outputs", directory);
        char *slash = strrchr(path, '/');
        if (!slash)
            path[0] = 0;
        else
            slash[slash == path] = 0;
    }
    if (!S_ISDIR(info.st_mode))
        return zr_fail(error, ZERO_ERR_IO, "cannot write to \"%s\": \"%s\" is no directory",
                       directory, path);
    if (access(path[0] ? path : ".", W_OK | X_OK))
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot write to \"%s\"", directory);
    return ZERO_OK;
}

// Checks one of the run's names. A run that continues may have foreign files among its own, which
// stay; a run that would be removed may not, because they would be removed with it.
static zero_status check_entry(const zr_outputs_place *place, int entry, zero_error *error)
{
    char path[4096], foreign[ZR_OWN_PATH];
    bool goes_on = place->way == ZR_OUTPUTS_GO_ON;
    if (zr_ownership_is_foreign(place->directory, entry, !goes_on, foreign))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "\"%s\" is there, which no run of libzero has written: it is not replaced; "
                       "choose another directory (--out)",
                       foreign);
    if (entry < 0 || (goes_on && !place->loses))
        return ZERO_OK;
    ZERO_TRY(join_path(place->directory, zr_run_entries[entry], path, error));
    return zr_input_paths_protect(&place->reads, path, error);
}

static bool is_empty_name(const char *name) { return !name[0]; }

// An empty folder is allowed: it may have been made, or linked to another disk, for the coming run.
static bool is_empty_folder(const char *path)
{
    char names[1024];
    return zr_path_is_directory(path) &&
           !zr_directory_others(path, is_empty_name, names, sizeof names);
}

// Says what an earlier run has left, and what can be done about it.
static zero_status refuse_earlier(const char *directory, zero_error *error)
{
    char path[4096], held[256] = "";
    size_t used = 0;
    zr_checkpoints saved = {0};
    for (int entry = 0; entry < ZR_RUN_ENTRIES; entry++) {
        ZERO_TRY(join_path(directory, zr_run_entries[entry], path, error));
        if (zr_path_exists(path) && !is_empty_folder(path) && used < sizeof held)
            used += (size_t)snprintf(held + used, sizeof held - used, "%s%s", used ? ", " : "",
                                     zr_run_entries[entry]);
    }
    char goes_on[96] = "";
    if (zr_checkpoints_list(directory, &saved, NULL) == ZERO_OK && saved.count)
        snprintf(goes_on, sizeof goes_on, "--resume continues it from step %lld, ",
                 (long long)saved.steps[0]);
    zr_checkpoints_free(&saved);
    return zr_fail(error, ZERO_ERR_USAGE,
                   "\"%s\" already holds a run (%s): %s--overwrite replaces it, another --out "
                   "leaves it as it is",
                   directory, held, goes_on);
}

zero_status zr_outputs_check(const zr_outputs_place *place, zero_error *error)
{
    char path[4096];
    for (int entry = -1; entry < ZR_RUN_ENTRIES; entry++)
        ZERO_TRY(check_entry(place, entry, error));
    for (int entry = 0; entry < ZR_RUN_ENTRIES && place->way == ZR_OUTPUTS_NEW; entry++) {
        ZERO_TRY(join_path(place->directory, zr_run_entries[entry], path, error));
        if (zr_path_exists(path) && !is_empty_folder(path))
            return refuse_earlier(place->directory, error);
    }
    return check_writable(place->directory, error);
}

static zero_status remove_earlier(const char *directory, zero_error *error)
{
    char path[4096];
    for (int i = 0; i < ZR_RUN_ENTRIES; i++) {
        ZERO_TRY(join_path(directory, zr_run_entries[i], path, error));
        struct stat info;
        if (lstat(path, &info))
            continue;
        if (S_ISDIR(info.st_mode))
            ZERO_TRY(zr_directory_remove(path, error));
        else if (zr_path_is_directory(path)) // a link to another disk, which stays
            ZERO_TRY(zr_directory_empty(path, error));
        else if (unlink(path))
            return zr_fail_errno(error, ZERO_ERR_IO, errno,
                                 "cannot remove \"%s\" of the earlier run", path);
    }
    return ZERO_OK;
}

// Waits for the lock when a run continues, because a job that was killed and starts again may find
// it still held by its own last process.
static zero_status lock_directory(zr_outputs *out, zr_outputs_way way, zero_error *error)
{
    double end = zr_clock_seconds() + (way == ZR_OUTPUTS_GO_ON ? LOCK_SECONDS : 0);
    for (;;) {
        zero_status status = zr_directory_lock(out->directory, &out->lock, error);
        if (status != ZERO_ERR_USAGE || zr_clock_seconds() >= end)
            return status;
        usleep(50000);
    }
}

static zero_status note_job(const zr_outputs *out, const char *job, zero_error *error)
{
    if (ftruncate(out->lock, 0))
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot write to \"%s/" ZR_LOCK_FILE "\"",
                             out->directory);
    return job ? zr_file_pwrite(out->lock, job, strlen(job), 0, out->directory, error) : ZERO_OK;
}

bool zr_outputs_are_of(const char *directory, const char *job)
{
    char path[4096], *text = NULL;
    size_t length;
    bool same = join_path(directory, ZR_LOCK_FILE, path, NULL) == ZERO_OK && zr_path_exists(path) &&
                zr_file_read(path, MOST_JOB, &text, &length, NULL) == ZERO_OK && !strcmp(text, job);
    zr_free(text);
    return same;
}

static zero_status write_config_file(const zr_outputs *out, const char *config_text,
                                     zero_error *error)
{
    return zr_file_write_in(out->directory, ZR_RUN_CONFIG_FILE, config_text, strlen(config_text),
                            error);
}

// Removes the earlier run before this run's job is noted, so that what is left of it is never taken
// for this run's.
zero_status zr_outputs_begin(zr_outputs *out, const zr_outputs_place *place,
                             const char *config_text, const char *job, zero_error *error)
{
    char path[4096];
    ZERO_TRY(zr_ownership_sweep(out->directory, error));
    if (place->way == ZR_OUTPUTS_GO_ON)
        return note_job(out, job, error);
    ZERO_TRY(remove_earlier(out->directory, error));
    ZERO_TRY(note_job(out, job, error));
    ZERO_TRY(write_config_file(out, config_text, error));
    ZERO_TRY(join_path(out->directory, ZR_METRICS_FILE, path, error));
    return zr_metrics_open(path, 0, &out->metrics, error);
}

// Returns the bytes of the first `lines` whole lines, or of as many as there are; *lines is how
// many.
static size_t end_of_lines(const char *text, size_t length, int64_t *lines)
{
    const char *end = text;
    int64_t count = 0;
    for (const char *line;
         count < *lines && (line = memchr(end, '\n', length - (size_t)(end - text))); count++)
        end = line + 1;
    *lines = count;
    return (size_t)(end - text);
}

zero_status zr_outputs_go_on(zr_outputs *out, const char *config_text, int64_t lines,
                             zero_error *error)
{
    char path[4096], *text = NULL;
    size_t length = 0;
    ZERO_TRY(write_config_file(out, config_text, error));
    ZERO_TRY(join_path(out->directory, ZR_METRICS_FILE, path, error));
    if (zr_path_exists(path))
        ZERO_TRY(zr_file_read(path, SIZE_MAX / 2, &text, &length, error));
    size_t kept = end_of_lines(text ? text : "", length, &lines);
    zr_metrics_sum_steps(text ? text + kept : "", length - kept, &out->lost_steps,
                         &out->lost_milliseconds);
    zero_status status = lines ? zr_file_write_durable(path, text, kept, error) : ZERO_OK;
    zr_free(text);
    return status == ZERO_OK ? zr_metrics_open(path, lines, &out->metrics, error) : status;
}

zero_status zr_outputs_open(const zr_outputs_place *place, zr_outputs *out, zero_error *error)
{
    *out = (zr_outputs){
        .directory = place->directory, .lock = -1, .created = !zr_path_exists(place->directory)};
    ZERO_TRY(zr_directory_create(place->directory, error));
    zero_status status = lock_directory(out, place->way, error);
    if (status == ZERO_OK)
        status = zr_outputs_check(place, error); // again, because another run may have come first
    if (status != ZERO_OK)
        zr_outputs_close(out, true);
    return status;
}

// The name is one that the next start sweeps away, should this run be killed.
zero_status zr_outputs_create_beacon(const char *directory, char name[static ZR_OUTPUTS_BEACON],
                                     zero_error *error)
{
    char path[4096];
    snprintf(name, ZR_OUTPUTS_BEACON, ZR_RUN_CONFIG_FILE ".tmp.%ld.%lld", (long)getpid(),
             (long long)zr_clock_nanoseconds());
    ZERO_TRY(join_path(directory, name, path, error));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot create \"%s\"", path);
    close(fd);
    return ZERO_OK;
}

bool zr_outputs_sees_beacon(const char *directory, const char *name)
{
    double end = zr_clock_seconds() + SHOWN_SECONDS;
    for (;;) {
        // Opening it makes the client compare its cache with the server.
        DIR *fresh = opendir(directory);
        if (fresh)
            closedir(fresh);
        if (zr_path_has(directory, name))
            return true;
        if (zr_clock_seconds() >= end)
            return false;
        usleep(20000);
    }
}

void zr_outputs_remove_beacon(const char *directory, const char *name)
{
    char path[4096];
    if (join_path(directory, name, path, NULL) == ZERO_OK)
        unlink(path);
}

void zr_outputs_close(zr_outputs *outputs, bool discard)
{
    zr_metrics_close(outputs->metrics);
    if (discard && outputs->created && outputs->lock >= 0)
        zr_directory_remove(outputs->directory, NULL);
    if (outputs->lock >= 0)
        close(outputs->lock);
    *outputs = (zr_outputs){.lock = -1};
}

static zero_status write_model_config(const char *directory, const zr_lm_config *config,
                                      zero_error *error)
{
    zr_buffer text = {0};
    zr_lm_config_write(config, &text);
    return zr_file_write_text_in(directory, ZR_MODEL_CONFIG, &text, error);
}

const char *zr_outputs_weights(const zr_lm_config *config)
{
    return config->lora.rank ? ZR_ADAPTER_WEIGHTS : ZR_MODEL_WEIGHTS;
}

// Writes the template, unless the tokenizer's files have it already.
static zero_status write_template(const char *model, const char *template, zero_error *error)
{
    char *there;
    ZERO_TRY(zr_chat_template_in(model, &there, error));
    bool same = there && !strcmp(there, template);
    zr_free(there);
    return same ? ZERO_OK
                : zr_file_write_in(model, ZR_CHAT_TEMPLATE, template, strlen(template), error);
}

zero_status zr_outputs_model(const char *directory, const char *name, const zr_outputs_files *files,
                             zero_error *error)
{
    char model[4096];
    const char *generation = files->generation, *template = files->template;
    ZERO_TRY(join_path(directory, name, model, error));
    ZERO_TRY(zr_directory_create(model, error));
    ZERO_TRY(zr_receipt_begin(model, error));
    ZERO_TRY(files->config->lora.rank
                 ? zr_adapter_write_config(model, files->config, files->base, error)
                 : write_model_config(model, files->config, error));
    ZERO_TRY(zr_tokenizer_save(files->tokenizer, model, error));
    if (generation && !files->config->lora.rank)
        ZERO_TRY(
            zr_file_write_in(model, ZR_GENERATION_CONFIG, generation, strlen(generation), error));
    return template ? write_template(model, template, error) : ZERO_OK;
}
