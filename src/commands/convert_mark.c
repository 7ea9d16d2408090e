#include "commands/convert_mark.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/ownership.h"
#include "checkpoint/receipt.h"
#include "checkpoint/run_directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FORMAT "libzero conversion 1"
enum { MOST_MARK = 1 << 24 }; // in bytes

// Returns -1 if it is not a regular file.
static int64_t file_bytes(const char *directory, const char *name)
{
    struct stat info;
    char *path = zr_sprintf(NULL, "%s/%s", directory, name);
    int64_t bytes = path && lstat(path, &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : -1;
    zr_free(path);
    return bytes;
}

// Returns the next entry except "." and ".."; NULL after the last one.
static const char *next_name(DIR *entries)
{
    struct dirent *entry;
    while ((entry = readdir(entries)) &&
           (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")))
        ;
    return entry ? entry->d_name : NULL;
}

static zero_status open_directory(const char *path, DIR **out, zero_error *error)
{
    *out = opendir(path);
    return *out ? ZERO_OK
                : zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot look into \"%s\"", path);
}

zero_status zr_convert_mark_write(const char *directory, zero_error *error)
{
    DIR *entries;
    ZERO_TRY(open_directory(directory, &entries, error));
    json_t *files = json_object();
    for (const char *name; (name = next_name(entries));)
        json_object_set_new(files, name, json_integer(file_bytes(directory, name)));
    closedir(entries);
    json_t *mark = json_pack("{s:s, s:n, s:o}", "format", FORMAT, "weights", "files", files);
    char *text = mark ? json_dumps(mark, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    zero_status status =
        text ? zr_file_write_in(directory, ZR_RECEIPT, text, strlen(text), error)
             : zr_fail(error, ZERO_ERR_MEMORY, "no memory for the receipt of \"%s\"", directory);
    free(text);
    json_decref(mark);
    return status;
}

// `files` are the mark's; NULL: it is a training's model, whose files are known by their names.
static bool is_ours(const char *directory, const char *name, const json_t *files)
{
    int64_t bytes = file_bytes(directory, name);
    const json_t *wrote = json_object_get(files, name);
    bool known =
        files ? wrote && json_integer_value(wrote) == bytes : zr_ownership_is_model_file(name);
    return bytes >= 0 && (known || !strcmp(name, ZR_RECEIPT));
}

static zero_status check_files(const char *directory, const json_t *files, zero_error *error)
{
    DIR *entries;
    zr_buffer others = {0};
    ZERO_TRY(open_directory(directory, &entries, error));
    for (const char *name; (name = next_name(entries));)
        if (!is_ours(directory, name, files))
            zr_buffer_printf(&others, "%s%s", others.length ? ", " : "", name);
    closedir(entries);
    zero_status status = ZERO_OK;
    if (others.length || others.failed)
        status = zr_fail(error, ZERO_ERR_USAGE,
                         "\"%s\" holds more than a model's files as libzero wrote them (%s): it is "
                         "not replaced; remove these by hand, or choose another directory",
                         directory, others.failed ? "?" : others.data);
    zr_buffer_free(&others);
    return status;
}

zero_status zr_convert_mark_check(const char *directory, zero_error *error)
{
    json_t *mark = NULL;
    char *path = zr_sprintf(error, "%s/" ZR_RECEIPT, directory);
    if (!path)
        return ZERO_ERR_MEMORY;
    bool trained = zr_receipt_is_of_training(directory);
    bool loaded = !trained && file_bytes(directory, ZR_RECEIPT) >= 0 &&
                  zr_json_load(path, MOST_MARK, &mark, NULL) == ZERO_OK;
    const char *format = json_string_value(json_object_get(mark, "format"));
    const json_t *files = json_object_get(mark, "files");
    zr_free(path);
    zero_status status;
    if (trained)
        status = check_files(directory, NULL, error);
    else if (loaded && format && !strcmp(format, FORMAT) && json_is_object(files))
        status = check_files(directory, files, error);
    else
        status =
            zr_fail(error, ZERO_ERR_USAGE,
                    "\"%s\" is a model that libzero has not written (no " ZR_RECEIPT
                    " says so): it is not replaced; remove it by hand, or choose another directory",
                    directory);
    json_decref(mark);
    return status;
}
