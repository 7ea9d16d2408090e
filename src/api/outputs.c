#include "api/outputs.h"

#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const entries[] = {"metrics.jsonl", "config.json", "model", "best"}; // that tell a run, in the order of removal

static zero_status join(const char *directory, const char *name, char out[static 4096], zero_error *error)
{
    if (snprintf(out, 4096, "%s/%s", directory, name) >= 4096)
        return zr_fail(error, ZERO_ERR_USAGE, "the path %.200s... is too long", directory);
    return ZERO_OK;
}

// The directory itself, or the nearest above it that exists, must be writable.
static zero_status check_writable(const char *directory, zero_error *error)
{
    char path[4096];
    struct stat info;
    ZERO_TRY(join(directory, "", path, error));
    for (;;) {
        size_t length = strlen(path);
        while (length > 1 && path[length - 1] == '/')
            path[--length] = 0;
        if (stat(path[0] ? path : ".", &info) == 0)
            break;
        if (errno != ENOENT)
            return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot use the directory \"%s\" for outputs", directory);
        char *slash = strrchr(path, '/');
        if (!slash)
            path[0] = 0;
        else
            slash[slash == path] = 0;
    }
    if (!S_ISDIR(info.st_mode))
        return zr_fail(error, ZERO_ERR_IO, "cannot write to \"%s\": \"%s\" is no directory", directory, path);
    if (access(path[0] ? path : ".", W_OK | X_OK))
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot write to \"%s\"", directory);
    return ZERO_OK;
}

zero_status zr_outputs_check(const char *directory, bool overwrite, zero_error *error)
{
    char path[4096];
    for (int i = 0; i < ZR_COUNT(entries) && !overwrite; i++) {
        ZERO_TRY(join(directory, entries[i], path, error));
        if (zr_path_exists(path))
            return zr_fail(error, ZERO_ERR_USAGE, "\"%s\" already holds a run (%s): choose another directory, or --overwrite replaces it", directory, entries[i]);
    }
    return check_writable(directory, error);
}

static zero_status remove_earlier(const char *directory, zero_error *error)
{
    char path[4096];
    for (int i = 0; i < ZR_COUNT(entries); i++) {
        ZERO_TRY(join(directory, entries[i], path, error));
        struct stat info;
        if (lstat(path, &info))
            continue;
        if (S_ISDIR(info.st_mode))
            ZERO_TRY(zr_directory_remove(path, error));
        else if (unlink(path))
            return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot remove \"%s\" of the earlier run", path);
    }
    return ZERO_OK;
}

static zero_status fill(zr_outputs *out, bool overwrite, const char *config_text, zero_error *error)
{
    char path[4096];
    ZERO_TRY(zr_directory_lock(out->directory, &out->lock, error));
    ZERO_TRY(zr_outputs_check(out->directory, overwrite, error)); // another run may have come first
    ZERO_TRY(remove_earlier(out->directory, error));
    ZERO_TRY(join(out->directory, "config.json", path, error));
    ZERO_TRY(zr_file_write_durable(path, config_text, strlen(config_text), error));
    ZERO_TRY(join(out->directory, "metrics.jsonl", path, error));
    return zr_metrics_open(path, &out->metrics, error);
}

zero_status zr_outputs_open(const char *directory, bool overwrite, const char *config_text, zr_outputs *out, zero_error *error)
{
    *out = (zr_outputs){.directory = directory, .lock = -1, .created = !zr_path_exists(directory)};
    ZERO_TRY(zr_directory_create(directory, error));
    zero_status status = fill(out, overwrite, config_text, error);
    if (status != ZERO_OK)
        zr_outputs_close(out, true);
    return status;
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

static zero_status write_config(const char *directory, const zero_gpt2_config *config, zero_error *error)
{
    char path[4096];
    ZERO_TRY(join(directory, "config.json", path, error));
    zr_buffer text = {0};
    zr_gpt2_config_write(config, &text);
    zero_status status = text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of \"%s\"", path)
                                     : zr_file_write_durable(path, text.data, text.length, error);
    zr_buffer_free(&text);
    return status;
}

zero_status zr_outputs_model(const char *directory, const char *name, const zero_gpt2_config *config, const zr_tokenizer *tokenizer, char **path, zero_error *error)
{
    char model[4096];
    ZERO_TRY(join(directory, name, model, error));
    ZERO_TRY(zr_directory_create(model, error));
    ZERO_TRY(write_config(model, config, error));
    ZERO_TRY(zr_tokenizer_save(tokenizer, model, error));
    *path = zr_sprintf(error, "%s/model.safetensors", model);
    return *path ? ZERO_OK : ZERO_ERR_MEMORY;
}
