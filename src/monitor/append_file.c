// Appends whole entries to a file. Called by the files that monitors write.
#define _GNU_SOURCE
#include "monitor/append_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

zero_status zr_append_file_open(const char *path, int flags, zr_append_file *out, zero_error *error)
{
    *out = (zr_append_file){.fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666)};
    int reason = errno;
    zero_status status = ZERO_OK;
    if (out->fd < 0 || (out->length = lseek(out->fd, 0, SEEK_END)) < 0)
        status = zr_fail_errno(error, ZERO_ERR_IO, out->fd < 0 ? reason : errno,
                               "cannot open \"%s\" to write to it", path);
    else if (!(out->path = zr_strdup(path, error)))
        status = ZERO_ERR_MEMORY;
    if (status != ZERO_OK)
        zr_append_file_close(out);
    errno = reason;
    return status;
}

static zero_status write_all_bytes(zr_append_file *tail, const char *bytes, size_t count,
                                   zero_error *error)
{
    for (size_t done = 0; done < count;) {
        ssize_t wrote = write(tail->fd, bytes + done, count - done);
        if (wrote < 0 && errno != EINTR)
            return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot write to \"%s\"", tail->path);
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    tail->length += (int64_t)count;
    return ZERO_OK;
}

zero_status zr_append_file_write(zr_append_file *tail, zr_buffer *entries, zero_error *error)
{
    zero_status status =
        entries->failed
            ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for what goes to \"%s\"", tail->path)
            : write_all_bytes(tail, entries->data, entries->length, error);
    if (status != ZERO_OK && ftruncate(tail->fd, tail->length))
        zr_error_prefix(error, "half an entry stays at the end"); // it cannot be removed
    entries->length = 0;
    entries->failed = false;
    return status;
}

void zr_append_file_close(zr_append_file *tail)
{
    if (tail->fd >= 0)
        close(tail->fd);
    zr_free(tail->path);
    *tail = (zr_append_file){.fd = -1};
}
