// Durable writes: after a crash at any system call the path holds either the old content or the new
// one, never a part of either.
//
//   open: path.tmp.PID.N  ->  the caller writes  ->  commit: fsync, close, rename,
//                                                    fsync of the directory
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define NAME_TRIES 1000

// Opens a name that nobody uses. It steps over temporaries that a dead process of this PID left.
static zero_status open_temporary(zr_durable *file, zero_error *error)
{
    for (int n = 0; n < NAME_TRIES; n++) {
        char *name = zr_sprintf(error, "%s.tmp.%ld.%d", file->path, (long)getpid(), n);
        if (!name)
            return ZERO_ERR_MEMORY;
        file->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0) {
            file->temporary = name;
            return ZERO_OK;
        }
        int reason = errno;
        zr_free(name);
        if (reason != EEXIST && reason != EINTR)
            return zr_fail_errno(error, ZERO_ERR_IO, reason, "cannot write \"%s\"", file->path);
    }
    return zr_fail(error, ZERO_ERR_IO,
                   "cannot write \"%s\": there are %d temporary files of its name next to it",
                   file->path, NAME_TRIES);
}

zero_status zr_durable_open(const char *path, zr_durable *out, zero_error *error)
{
    *out = (zr_durable){.fd = -1, .path = zr_strdup(path, error)};
    if (!out->path)
        return ZERO_ERR_MEMORY;
    zero_status status = open_temporary(out, error);
    if (status != ZERO_OK)
        zr_durable_discard(out);
    return status;
}

static zero_status flush_and_close(zr_durable *file, zero_error *error)
{
    int fd = file->fd;
    file->fd = -1;
    int reason = fsync(fd) ? errno : 0;
    if (close(fd) && !reason && errno != EINTR)
        reason = errno;
    return reason ? zr_fail_errno(error, ZERO_ERR_IO, reason, "cannot bring \"%s\" to the disk",
                                  file->path)
                  : ZERO_OK;
}

zero_status zr_durable_commit(zr_durable *file, zero_error *error)
{
    char *directory = zr_path_parent(file->path, error);
    zero_status status = directory ? flush_and_close(file, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && rename(file->temporary, file->path))
        status = zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot rename \"%s\" to \"%s\"",
                               file->temporary, file->path);
    if (status == ZERO_OK) {
        zr_free(file->temporary); // it is `path` now: nothing is left to remove
        file->temporary = NULL;
        status = zr_directory_sync(directory, error);
    }
    zr_free(directory);
    zr_durable_discard(file);
    return status;
}

void zr_durable_discard(zr_durable *file)
{
    if (file->fd >= 0)
        close(file->fd);
    if (file->temporary)
        unlink(file->temporary);
    zr_free(file->temporary);
    zr_free(file->path);
    *file = (zr_durable){.fd = -1};
}

bool zr_durable_is_left_over(const char *name, bool (*is_known)(const char *name))
{
    char stem[256];
    const char *at = strstr(name, ".tmp.");
    if (!at || at - name >= (ptrdiff_t)sizeof stem || !isdigit((unsigned char)at[5]))
        return false;
    snprintf(stem, sizeof stem, "%.*s", (int)(at - name), name);
    at += 5;
    at += strspn(at, "0123456789");
    return at[0] == '.' && isdigit((unsigned char)at[1]) && !at[1 + strspn(at + 1, "0123456789")] &&
           is_known(stem);
}

zero_status zr_file_write_durable(const char *path, const void *data, size_t length,
                                  zero_error *error)
{
    zr_durable file;
    ZERO_TRY(zr_durable_open(path, &file, error));
    zero_status status = zr_file_pwrite(file.fd, data, length, 0, path, error);
    if (status == ZERO_OK)
        return zr_durable_commit(&file, error);
    zr_durable_discard(&file);
    return status;
}

zero_status zr_file_write_in(const char *directory, const char *name, const void *data,
                             size_t length, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/%s", directory, name);
    zero_status status = path ? zr_file_write_durable(path, data, length, error) : ZERO_ERR_MEMORY;
    zr_free(path);
    return status;
}

zero_status zr_file_write_text(const char *path, zr_buffer *text, zero_error *error)
{
    zero_status status =
        text->failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of \"%s\"", path)
                     : zr_file_write_durable(path, text->data, text->length, error);
    zr_buffer_free(text);
    return status;
}

zero_status zr_file_write_text_in(const char *directory, const char *name, zr_buffer *text,
                                  zero_error *error)
{
    zero_status status = text->failed
                             ? zr_fail(error, ZERO_ERR_MEMORY,
                                       "no memory for the text of \"%s/%s\"", directory, name)
                             : zr_file_write_in(directory, name, text->data, text->length, error);
    zr_buffer_free(text);
    return status;
}
