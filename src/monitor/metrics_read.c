#include "monitor/metrics.h"

#include "base/file.h"
#include "checkpoint/run_directory.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

zero_status zr_metrics_reader_open(const char *run, zr_metrics_reader *out, zero_error *error)
{
    *out = (zr_metrics_reader){.path = zr_sprintf(error, "%s/" ZR_METRICS_FILE, run),
                               .text = zr_alloc(ZR_METRICS_MOST_LINE + 1, error)};
    if (!out->path || !out->text)
        return ZERO_ERR_MEMORY;
    int fd;
    ZERO_TRY(zr_file_open(out->path, &fd, error));
    out->file = fdopen(fd, "r");
    if (out->file)
        return ZERO_OK;
    zero_status status = zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot read \"%s\"", out->path);
    close(fd);
    return status;
}

static zero_status cannot_read(const zr_metrics_reader *r, zero_error *error)
{
    return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot read \"%s\"", r->path);
}

// Goes back to where the line begins that is not there as a whole, and forgets that the file ended,
// because its writer may go on.
static zero_status rewind_unfinished_line(zr_metrics_reader *r, zero_error *error)
{
    r->line--;
    return fseeko(r->file, r->read, SEEK_SET) ? cannot_read(r, error) : ZERO_OK;
}

zero_status zr_metrics_reader_next(zr_metrics_reader *r, json_t **out, zero_error *error)
{
    *out = NULL;
    r->line++;
    if (!fgets(r->text, ZR_METRICS_MOST_LINE + 1, r->file))
        return ferror(r->file) ? cannot_read(r, error) : rewind_unfinished_line(r, error);
    size_t length = strlen(r->text);
    bool whole = length && r->text[length - 1] == '\n';
    if (!whole && feof(r->file))
        return rewind_unfinished_line(r, error);
    if (!whole && length == ZR_METRICS_MOST_LINE)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\", line %lld: more than %d bytes", r->path,
                       (long long)r->line, ZR_METRICS_MOST_LINE);
    *out = whole ? json_loadb(r->text, length, 0, NULL) : NULL; // not whole: it has a zero byte
    r->read += (off_t)length;
    if (json_is_object(*out))
        return ZERO_OK;
    json_decref(*out);
    *out = NULL;
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\", line %lld: no object", r->path,
                   (long long)r->line);
}

void zr_metrics_reader_close(zr_metrics_reader *reader)
{
    if (reader->file)
        fclose(reader->file);
    zr_free(reader->path);
    zr_free(reader->text);
    *reader = (zr_metrics_reader){0};
}
