#include "checkpoint/ownership.h"

#include "base/alloc.h"
#include "base/file.h"
#include "formats/manifest.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/receipt.h"
#include "checkpoint/run_record.h"
#include "model/lora_peft.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 256 }; // in bytes

const char *const zr_run_entries[ZR_RUN_ENTRIES] = {
    [ZR_RUN_CHECKPOINTS] = ZR_CHECKPOINTS, [ZR_RUN_MODEL] = ZR_LAST_MODEL,
    [ZR_RUN_BEST] = ZR_BEST_MODEL,         [ZR_RUN_EMA] = ZR_EMA_MODEL,
    [ZR_RUN_TIMES] = ZR_TIMES_FILE,        [ZR_RUN_ADAPTER] = ZR_RUN_ADAPTER_DIRECTORY,
    [ZR_RUN_METRICS] = ZR_METRICS_FILE,    [ZR_RUN_CONFIG] = ZR_RUN_CONFIG_FILE};

static bool starts_with(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static bool has_stem_and_ending(const char *text, const char *with)
{
    size_t length = strlen(text), tail = strlen(with);
    return length > tail && !strcmp(text + length - tail, with);
}

// ---- names --------------------------------------------------------------------------------------

static bool is_receipt(const char *name) { return !strcmp(name, ZR_RECEIPT); }

static bool is_of_a_model(const char *name)
{
    bool shard = starts_with(name, "model-") && strstr(name, "-of-") &&
                 has_stem_and_ending(name, ".safetensors");
    return shard || !strcmp(name, ZR_MODEL_WEIGHTS) || !strcmp(name, ZR_MODEL_INDEX) ||
           !strcmp(name, ZR_ADAPTER_CONFIG) || !strcmp(name, ZR_ADAPTER_WEIGHTS) ||
           !strcmp(name, ZR_LABELS_FILE) || is_receipt(name) || zr_model_file_is_copied(name);
}

bool zr_ownership_is_model_file(const char *name)
{
    return is_of_a_model(name) || zr_durable_is_left_over(name, is_of_a_model);
}

// Makes directory/name; false if that is too long.
static bool join_own_path(char out[static ZR_OWN_PATH], const char *directory, const char *name)
{
    return snprintf(out, ZR_OWN_PATH, "%s/%s", directory, name) < ZR_OWN_PATH;
}

static bool is_latest(const char *name) { return !strcmp(name, ZR_LATEST); }

// The end of the name of a replaced checkpoint, on file systems where replacing takes two renames.
#define EARLIER ".tmp.earlier"

// Parses ".step-00000100.tmp", or the same with EARLIER: names that a killed save leaves.
static bool is_hidden_step(const char *name, const char *end, int64_t *step)
{
    char stem[ZR_CHECKPOINT_NAME_BYTES];
    if (name[0] != '.' || !has_stem_and_ending(name, end) ||
        strlen(name) - strlen(end) > sizeof stem)
        return false;
    snprintf(stem, sizeof stem, "%.*s", (int)(strlen(name) - strlen(end) - 1), name + 1);
    return zr_checkpoint_step(stem, step);
}

static bool is_hidden_checkpoint(const char *name)
{
    int64_t step;
    return is_hidden_step(name, ".tmp", &step) || is_hidden_step(name, EARLIER, &step);
}

static bool is_among_checkpoints(const char *name)
{
    int64_t step;
    return zr_checkpoint_step(name, &step) || is_latest(name) || is_hidden_checkpoint(name) ||
           zr_durable_is_left_over(name, is_latest);
}

static bool is_in_a_run(const char *name)
{
    return !strcmp(name, ZR_METRICS_FILE) || !strcmp(name, ZR_TIMES_FILE) ||
           !strcmp(name, ZR_RUN_CONFIG_FILE);
}

// ---- content written by a run -------------------------------------------------------------------

static bool is_metrics(const char *path)
{
    char head[HEAD];
    return zr_path_is_file(path) &&
           (!zr_file_head(path, head, sizeof head) || starts_with(head, "{\"step\":"));
}

// times.json is a list whose first object names the step before it (predict/run_times.h).
static bool is_step_times(const char *path)
{
    char head[HEAD];
    if (!zr_path_is_file(path))
        return false;
    size_t length = zr_file_head(path, head, sizeof head);
    return !length || (head[0] == '[' && strstr(head, "\"first_step\":"));
}

// A lock is empty or holds the name of a job like "67f0.3b9a.1c" (launch/run_ranks.c).
static bool is_lock(const char *path)
{
    char head[HEAD];
    return zr_path_is_file(path) &&
           !head[strspn((zr_file_head(path, head, sizeof head), head), "0123456789abcdef.")];
}

static bool is_begun_receipt(const char *name) { return zr_durable_is_left_over(name, is_receipt); }

// The receipt is the first file that a run writes there. Before it the directory is empty, except
// for a temporary file of a killed write.
static bool is_run_model(const char *path)
{
    char others[ZR_OWN_PATH];
    return zr_path_is_directory(path) &&
           (zr_receipt_is_of_training(path) ||
            !zr_directory_others(path, is_begun_receipt, others, sizeof others));
}

// A link may lead to another disk. If it leads into a run, the model there belongs to that run.
static bool leads_into_a_run(const char *path)
{
    char *target = zr_path_is_link(path) ? realpath(path, NULL) : NULL,
         *parent = target ? zr_path_parent(target, NULL) : NULL;
    bool found = parent && zr_is_run(parent);
    zr_free(parent);
    free(target);
    return found;
}

// DeepSpeed's folders have a `latest`, too, but it names another kind of checkpoint. A damaged
// `latest` next to our checkpoints is ours.
static bool has_a_latest_of_ours(const char *run, const char *checkpoints)
{
    char head[HEAD], path[ZR_OWN_PATH];
    zr_checkpoints found = {0};
    if (!join_own_path(path, checkpoints, ZR_LATEST) || !zr_path_exists(path) ||
        (zr_file_head(path, head, sizeof head) && starts_with(head, "step-")))
        return true;
    bool has = zr_checkpoints_list(run, &found, NULL) == ZERO_OK && found.count;
    zr_checkpoints_free(&found);
    return has;
}

static bool is_model_entry(int entry)
{
    return entry == ZR_RUN_MODEL || entry == ZR_RUN_ADAPTER || entry == ZR_RUN_BEST ||
           entry == ZR_RUN_EMA;
}

static bool is_entry(const char *run, int entry, const char *path)
{
    switch (entry) {
    case ZR_RUN_METRICS: return is_metrics(path);
    case ZR_RUN_TIMES: return is_step_times(path);
    case ZR_RUN_CONFIG: return zr_run_config_is_at(path);
    case ZR_RUN_CHECKPOINTS: return zr_path_is_directory(path) && has_a_latest_of_ours(run, path);
    case ZR_RUN_MODEL:
    case ZR_RUN_ADAPTER:
    case ZR_RUN_EMA:
    case ZR_RUN_BEST: return is_run_model(path) && !leads_into_a_run(path);
    default: return is_lock(path);
    }
}

// Writes the path of an entry in `folder` that libzero did not write.
static bool find_foreign_entry(const char *folder, bool (*are_own)(const char *name),
                               char foreign[static ZR_OWN_PATH])
{
    char names[ZR_OWN_PATH];
    if (!zr_directory_others(folder, are_own, names, sizeof names))
        return false;
    snprintf(foreign, ZR_OWN_PATH, "%.2000s/%.2000s", folder, names);
    return true;
}

static bool find_foreign_in_checkpoints(const char *folder, char foreign[static ZR_OWN_PATH])
{
    DIR *entries = opendir(folder);
    bool found = find_foreign_entry(folder, is_among_checkpoints, foreign);
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        char path[ZR_OWN_PATH];
        int64_t step;
        if (zr_checkpoint_step(entry->d_name, &step) || is_hidden_checkpoint(entry->d_name))
            found = !join_own_path(path, folder, entry->d_name) ||
                    find_foreign_entry(path, zr_is_checkpoint_file, foreign);
    }
    if (entries)
        closedir(entries);
    return found;
}

bool zr_ownership_is_foreign(const char *directory, int entry, bool within,
                             char foreign[static ZR_OWN_PATH])
{
    char path[ZR_OWN_PATH];
    if (!join_own_path(path, directory, entry < 0 ? ZR_LOCK_FILE : zr_run_entries[entry]) ||
        !zr_path_exists(path))
        return false;
    memcpy(foreign, path, sizeof path);
    if (!is_entry(directory, entry, path))
        return true;
    if (within && entry == ZR_RUN_CHECKPOINTS)
        return find_foreign_in_checkpoints(path, foreign);
    return within && is_model_entry(entry) &&
           find_foreign_entry(path, zr_ownership_is_model_file, foreign);
}

// ---- remains of killed writes -------------------------------------------------------------------

static zero_status sweep_folder(const char *folder, bool (*is_known)(const char *name),
                                zero_error *error)
{
    DIR *directory = opendir(folder);
    zero_status status = ZERO_OK;
    for (struct dirent *entry; directory && status == ZERO_OK && (entry = readdir(directory));) {
        bool hidden = is_known == is_latest && is_hidden_checkpoint(entry->d_name);
        if (!hidden && !zr_durable_is_left_over(entry->d_name, is_known))
            continue;
        char *path = zr_sprintf(error, "%s/%s", folder, entry->d_name);
        if (!path)
            status = ZERO_ERR_MEMORY;
        else if (unlink(path)) // it is a directory
            status = zr_directory_remove(path, error);
        zr_free(path);
    }
    if (directory)
        closedir(directory);
    return status;
}

// Renames a checkpoint back, if the save that was replacing it was killed between its two renames.
static zero_status restore_earlier_checkpoint(const char *checkpoints, const char *name,
                                              const char *path, zero_error *error)
{
    char earlier[ZR_OWN_PATH];
    if (zr_path_exists(path) || !join_own_path(earlier, checkpoints, name) ||
        !zr_checkpoint_is_intact(earlier))
        return ZERO_OK;
    if (rename(earlier, path))
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot rename \"%s\" to \"%s\"", earlier,
                             path);
    return zr_directory_sync(checkpoints, error);
}

static zero_status restore_earlier_checkpoints(const char *run, zero_error *error)
{
    char checkpoints[ZR_OWN_PATH];
    DIR *entries = join_own_path(checkpoints, run, ZR_CHECKPOINTS) ? opendir(checkpoints) : NULL;
    zero_status status = ZERO_OK;
    int64_t step;
    for (struct dirent *entry; entries && status == ZERO_OK && (entry = readdir(entries));) {
        if (!is_hidden_step(entry->d_name, EARLIER, &step))
            continue;
        char *path = zr_checkpoint_path(run, step, error);
        status = path ? restore_earlier_checkpoint(checkpoints, entry->d_name, path, error)
                      : ZERO_ERR_MEMORY;
        zr_free(path);
    }
    if (entries)
        closedir(entries);
    return status;
}

zero_status zr_ownership_sweep(const char *run, zero_error *error)
{
    static const struct {
        const char *folder;
        bool (*is_known)(const char *name);
    } rows[] = {{".", is_in_a_run},
                {ZR_CHECKPOINTS, is_latest},
                {ZR_LAST_MODEL, is_of_a_model},
                {ZR_RUN_ADAPTER_DIRECTORY, is_of_a_model},
                {ZR_BEST_MODEL, is_of_a_model},
                {ZR_EMA_MODEL, is_of_a_model}};
    zero_status status = restore_earlier_checkpoints(run, error);
    for (int i = 0; i < ZR_COUNT(rows) && status == ZERO_OK; i++) {
        char *folder = zr_sprintf(error, "%s/%s", run, rows[i].folder);
        status = folder ? sweep_folder(folder, rows[i].is_known, error) : ZERO_ERR_MEMORY;
        zr_free(folder);
    }
    return status;
}

// ---- single files -------------------------------------------------------------------------------

zero_status zr_ownership_check_file(const char *path, const char *what,
                                    bool (*is_own)(const char *path), const zr_input_paths *reads,
                                    zero_error *error)
{
    struct stat info;
    ZERO_TRY(zr_input_paths_protect(reads, path, error));
    if (!zr_path_exists(path) ||
        (zr_path_is_file(path) && ((stat(path, &info) == 0 && info.st_size == 0) || is_own(path))))
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_USAGE,
        "\"%s\" exists, and is no %s that libzero wrote: it is not replaced; choose another name",
        path, what);
}

zero_status zr_ownership_check_outside(const char *run, const char *path, bool is_file,
                                       const char *what, zero_error *error)
{
    char own[ZR_OWN_PATH];
    if (path && is_file && zr_path_would_lie_in(run, path))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s \"%s\" is a file, and the directory \"%s\" of the run is to be there: "
                       "choose another place for it",
                       what, path, run);
    for (int entry = -1; path && entry < ZR_RUN_ENTRIES; entry++)
        if (join_own_path(own, run, entry < 0 ? ZR_LOCK_FILE : zr_run_entries[entry]) &&
            zr_path_would_lie_in(path, own))
            return zr_fail(error, ZERO_ERR_USAGE,
                           "%s \"%s\" would be written over or into \"%s\", which is the run's "
                           "own: choose another place for it",
                           what, path, own);
    return ZERO_OK;
}
