#include "api/run_directory.h"

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "checkpoint/manifest.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

int zr_list_checkpoints(const char *folder, int64_t steps[static ZR_MOST_CHECKPOINTS])
{
    DIR *directory = opendir(folder);
    int count = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory)) && count < ZR_MOST_CHECKPOINTS;) {
        char again[ZR_CHECKPOINT_NAME_BYTES];
        long long step;
        if (sscanf(entry->d_name, "step-%lld", &step) != 1)
            continue;
        snprintf(again, sizeof again, ZR_CHECKPOINT_NAME, step);
        if (!strcmp(again, entry->d_name))
            steps[count++] = step;
    }
    if (directory)
        closedir(directory);
    qsort(steps, (size_t)count, sizeof *steps, newest_first);
    return count;
}

bool zr_checkpoint_is_whole(const char *path)
{
    zr_manifest manifest;
    bool whole = zr_manifest_read(path, &manifest, NULL) == ZERO_OK;
    if (whole)
        zr_manifest_free(&manifest);
    return whole;
}

zero_status zr_write_latest(const char *folder, int64_t step, zero_error *error)
{
    char name[ZR_CHECKPOINT_NAME_BYTES], line[2 * ZR_CHECKPOINT_NAME_BYTES];
    char *path = zr_sprintf(error, "%s/latest", folder);
    snprintf(name, sizeof name, ZR_CHECKPOINT_NAME, (long long)step);
    int length = snprintf(line, sizeof line, "%s %08x\n", name, (unsigned)zr_crc32c(0, name, strlen(name)));
    zero_status status = path ? zr_file_write_durable(path, line, (size_t)length, error) : ZERO_ERR_MEMORY;
    zr_free(path);
    return status;
}

static bool has(const char *directory, const char *name)
{
    char *path = zr_sprintf(NULL, "%s/%s", directory, name);
    bool there = path && zr_path_exists(path);
    zr_free(path);
    return there;
}

static bool is_model(const char *directory)
{
    return has(directory, "model.safetensors") || has(directory, "model.safetensors.index.json");
}

zero_status zr_run_newest(const char *path, char **out, zero_error *error)
{
    int64_t steps[ZR_MOST_CHECKPOINTS];
    char *folder = zr_sprintf(error, "%s/" ZR_CHECKPOINTS, path), *model = zr_sprintf(error, "%s/model", path);
    int count = folder ? zr_list_checkpoints(folder, steps) : 0;
    zero_status status = folder && model ? ZERO_OK : ZERO_ERR_MEMORY;
    *out = NULL;
    for (int i = 0; i < count && !*out && status == ZERO_OK; i++) {
        *out = zr_sprintf(error, "%s/" ZR_CHECKPOINT_NAME, folder, (long long)steps[i]);
        status = *out ? ZERO_OK : ZERO_ERR_MEMORY;
        if (*out && !zr_checkpoint_is_whole(*out)) {
            zr_free(*out);
            *out = NULL;
        }
    }
    if (status == ZERO_OK && !*out && !is_model(path) && is_model(model)) {
        *out = model;
        model = NULL;
    }
    zr_free(folder);
    zr_free(model);
    return status;
}

zero_status zr_find_model_files(const char *path, char **out, zero_error *error)
{
    static const char *const places[] = {"", "/../../model", "/../../best"};
    *out = NULL;
    for (int i = 0; i < ZR_COUNT(places); i++) {
        char *directory = zr_sprintf(error, "%s%s", path, places[i]);
        if (!directory)
            return ZERO_ERR_MEMORY;
        if (has(directory, "config.json")) {
            *out = directory;
            return ZERO_OK;
        }
        zr_free(directory);
    }
    return ZERO_OK;
}
