// Writes the files of csv_monitor. Called by observe/monitors on rank 0.
#define _GNU_SOURCE
#include "monitor/scalar_files.h"

#include "base/file.h"
#include "base/json.h"
#include "monitor/append_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)1 << 30) // the largest file that is cut back

static const char *const names[ZR_SCALAR_COUNT] = {
#define NAME(name) [ZR_SCALAR_##name] = #name,
    ZR_SCALARS(NAME)
#undef NAME
};

struct zr_csv_files {
    char *directory;
    zr_append_file tails[ZR_SCALAR_COUNT];
    zr_buffer row;
};

// Returns the end of the line, after its newline; NULL if the line has none.
static const char *line_end(const char *text, const char *end)
{
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    return newline ? newline + 1 : NULL;
}

static bool is_header(const char *line, const char *end)
{
    return end - line >= 5 && !memcmp(line, "step,", 5);
}

// Reads the step at the start of a row; false: there is none.
static bool read_step(const char *line, const char *end, int64_t *step)
{
    int64_t value = 0;
    const char *at = line;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *at - '0', &value))
            return false;
    *step = value;
    return at > line && at < end && *at == ',';
}

size_t zr_csv_kept_bytes(const char *text, size_t length, int64_t done)
{
    const char *end = text + length, *kept = text;
    for (const char *line = text, *next; line < end && (next = line_end(line, end)); line = next)
        if (is_header(line, next))
            kept = next;
    for (const char *next; kept < end && (next = line_end(kept, end)); kept = next) {
        int64_t step;
        if (!read_step(kept, next, &step) || step > done)
            break;
    }
    return (size_t)(kept - text);
}

char *zr_csv_files_path(const char *directory, zr_scalar_name name, zero_error *error)
{
    return zr_sprintf(error, "%s/Train_Samples_%s.csv", directory, names[name]);
}

bool zr_csv_files_is_one(const char *path)
{
    int64_t step;
    char head[64];
    size_t length = zr_file_head(path, head, sizeof head);
    return is_header(head, head + length) || read_step(head, head + length, &step) ||
           (length < 5 && !strncmp(head, "step,", length));
}

static zero_status cut_file_back(const char *path, int64_t done, size_t *kept, zero_error *error)
{
    char *text;
    size_t length;
    ZERO_TRY(zr_file_read(path, MOST_BYTES, &text, &length, error));
    *kept = zr_csv_kept_bytes(text, length, done);
    zr_free(text);
    if (*kept < length && truncate(path, (off_t)*kept))
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot cut \"%s\" back to %zu bytes", path,
                             *kept);
    return ZERO_OK;
}

// Continues the files that exist after the rows that are kept. The others are created once there is
// something to write.
static zero_status continue_files(zr_csv_files *files, int64_t done, bool owes, zero_error *error)
{
    for (int name = 0; name < ZR_SCALAR_COUNT; name++) {
        size_t kept = 0;
        char *path = zr_csv_files_path(files->directory, (zr_scalar_name)name, error);
        zero_status status = path ? ZERO_OK : ZERO_ERR_MEMORY;
        if (path && zr_path_exists(path))
            status =
                cut_file_back(path, done - (owes && name == ZR_SCALAR_eval_loss), &kept, error);
        if (status == ZERO_OK && kept)
            status = zr_append_file_open(path, 0, &files->tails[name], error);
        zr_free(path);
        ZERO_TRY(status);
    }
    return ZERO_OK;
}

zero_status zr_csv_files_open(const char *directory, int64_t done, bool owes, zr_csv_files **out,
                              zero_error *error)
{
    *out = NULL;
    zr_csv_files *files = zr_alloc(sizeof *files, error);
    if (!files)
        return ZERO_ERR_MEMORY;
    for (int name = 0; name < ZR_SCALAR_COUNT; name++)
        files->tails[name].fd = -1;
    files->directory = zr_strdup(directory, error);
    zero_status status = files->directory ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && done > 0)
        status = continue_files(files, done, owes, error);
    if (status == ZERO_OK)
        *out = files;
    else
        zr_csv_files_close(files);
    return status;
}

static zero_status create_file_with_header(zr_csv_files *files, int name, zero_error *error)
{
    char *path = zr_csv_files_path(files->directory, (zr_scalar_name)name, error);
    zero_status status =
        path ? zr_append_file_open(path, O_CREAT, &files->tails[name], error) : ZERO_ERR_MEMORY;
    zr_free(path);
    zr_buffer_printf(&files->row, "step,%s\r\n", names[name]);
    return status;
}

// Writes a float as Python does.
static void append_value(zr_buffer *row, double value)
{
    if (isfinite(value))
        zr_json_append_double(row, value);
    else
        zr_buffer_printf(row, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

zero_status zr_csv_files_write(zr_csv_files *files, int64_t samples, const zr_scalar *scalars,
                               int count, zero_error *error)
{
    for (int i = 0; i < count; i++) {
        zr_append_file *tail = &files->tails[scalars[i].name];
        files->row.length = 0;
        if (tail->fd < 0)
            ZERO_TRY(create_file_with_header(files, (int)scalars[i].name, error));
        zr_buffer_printf(&files->row, "%lld,", (long long)samples);
        append_value(&files->row, scalars[i].value);
        zr_buffer_printf(&files->row, "\r\n");
        ZERO_TRY(zr_append_file_write(tail, &files->row, error));
    }
    return ZERO_OK;
}

void zr_csv_files_close(zr_csv_files *files)
{
    if (!files)
        return;
    for (int name = 0; name < ZR_SCALAR_COUNT; name++)
        zr_append_file_close(&files->tails[name]);
    zr_buffer_free(&files->row);
    zr_free(files->directory);
    zr_free(files);
}
