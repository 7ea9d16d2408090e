// Whole reads, and positioned transfers that continue after every short one. Durable writes are in
// durable.c.
#define _GNU_SOURCE
#include "base/file.h"
#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of_special_file(mode_t mode)
{
    return S_ISDIR(mode)    ? "directory"
           : S_ISFIFO(mode) ? "named pipe"
           : S_ISSOCK(mode) ? "socket"
                            : "device";
}

// stream: a person has named the path, so it may be a pipe or a terminal, and the open may wait for
// it.
static zero_status open_for_reading(const char *path, bool stream, int *fd, struct stat *info,
                                    zero_error *error)
{
    // Without O_NONBLOCK a pipe that nobody writes to would never open.
    *fd = open(path, O_RDONLY | O_CLOEXEC | (stream ? 0 : O_NONBLOCK));
    int reason = errno;
    if (*fd < 0 && reason == ENXIO && !stat(path, info) && !S_ISREG(info->st_mode))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is a %s, where a file is needed", path,
                       kind_of_special_file(info->st_mode));
    if (*fd < 0)
        return zr_fail_errno(error, ZERO_ERR_IO, reason, "cannot open \"%s\"", path);
    zero_status status = ZERO_OK;
    if (fstat(*fd, info))
        status = zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot look at \"%s\"", path);
    else if (stream ? S_ISDIR(info->st_mode) : !S_ISREG(info->st_mode))
        status = zr_fail(error, ZERO_ERR_DATA, "\"%s\" is a %s, where a file is needed", path,
                         kind_of_special_file(info->st_mode));
    if (status != ZERO_OK)
        close(*fd);
    return status;
}

zero_status zr_file_open(const char *path, int *fd, zero_error *error)
{
    struct stat info;
    zero_status status = open_for_reading(path, false, fd, &info, error);
    if (status != ZERO_OK)
        *fd = -1;
    return status;
}

static zero_status too_large(const char *path, size_t limit, const struct stat *info,
                             zero_error *error)
{
    if (S_ISREG(info->st_mode))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has %lld bytes, more than the %zu that are read here", path,
                       (long long)info->st_size, limit);
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has more than the %zu bytes that are read here",
                   path, limit);
}

// Reads to the end, whatever size stat reports: for pipes and files in /proc that is 0.
static zero_status read_until_end(int fd, const char *path, size_t limit, const struct stat *info,
                                  zr_buffer *out, zero_error *error)
{
    char *chunk = zr_alloc(1 << 16, error);
    if (!chunk)
        return ZERO_ERR_MEMORY;
    zero_status status = ZERO_OK;
    while (status == ZERO_OK && !out->failed) {
        ssize_t got = read(fd, chunk, 1 << 16);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            status = zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot read \"%s\"", path);
        else if (got > 0 && (size_t)got > limit - out->length)
            status = too_large(path, limit, info, error);
        else if (got > 0)
            zr_buffer_append(out, chunk, (size_t)got);
    }
    zr_free(chunk);
    if (out->failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory to read \"%s\": %zu bytes so far", path,
                         out->length);
    return status;
}

static zero_status read_whole(const char *path, bool stream, size_t limit, char **data,
                              size_t *length, zero_error *error)
{
    int fd;
    struct stat info;
    ZERO_TRY(open_for_reading(path, stream, &fd, &info, error));
    zr_buffer buffer = {0};
    zr_buffer_append(&buffer, "", 0); // an empty file gives an empty string, not NULL
    bool large = S_ISREG(info.st_mode) && (uint64_t)info.st_size > limit;
    zero_status status = large ? too_large(path, limit, &info, error)
                               : read_until_end(fd, path, limit, &info, &buffer, error);
    close(fd);
    if (status != ZERO_OK) {
        zr_buffer_free(&buffer);
        return status;
    }
    *data = buffer.data;
    *length = buffer.length;
    return ZERO_OK;
}

zero_status zr_file_read(const char *path, size_t limit, char **data, size_t *length,
                         zero_error *error)
{
    return read_whole(path, false, limit, data, length, error);
}

zero_status zr_file_read_stream(const char *path, size_t limit, char **data, size_t *length,
                                zero_error *error)
{
    return read_whole(path, true, limit, data, length, error);
}

zero_status zr_file_pread(int fd, void *data, size_t bytes, int64_t offset, const char *path,
                          zero_error *error)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, (char *)data + done, bytes - done, offset + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return zr_fail_errno(error, ZERO_ERR_IO, errno,
                                 "cannot read %zu bytes at %lld of \"%s\"", bytes,
                                 (long long)offset, path);
        if (got == 0)
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s\" ends at byte %lld, where %zu bytes from %lld are needed", path,
                           (long long)offset + (long long)done, bytes, (long long)offset);
        done += (size_t)got;
    }
    return ZERO_OK;
}

zero_status zr_file_pwrite(int fd, const void *data, size_t bytes, int64_t offset, const char *path,
                           zero_error *error)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t put = pwrite(fd, (const char *)data + done, bytes - done, offset + (int64_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return zr_fail_errno(error, ZERO_ERR_IO, put < 0 ? errno : ENOSPC,
                                 "cannot write %zu bytes at %lld of \"%s\"", bytes,
                                 (long long)offset, path);
        done += (size_t)put;
    }
    return ZERO_OK;
}

zero_status zr_file_reserve(int fd, int64_t bytes, const char *path, zero_error *error)
{
    int result;
    do
        result = fallocate(fd, 0, 0, bytes);
    while (result && errno == EINTR);
    if (result && errno == EOPNOTSUPP)
        result = ftruncate(fd, bytes);
    return result ? zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot reserve %lld bytes for \"%s\"",
                                  (long long)bytes, path)
                  : ZERO_OK;
}

zero_status zr_file_map_open(int fd, size_t length, const char *path, zr_mapped_file *out,
                             zero_error *error)
{
    void *data = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
    *out = (zr_mapped_file){0};
    if (data == MAP_FAILED)
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot map the %zu bytes of \"%s\"",
                             length, path);
    *out = (zr_mapped_file){.data = data, .length = length, .on_disk = true};
    return ZERO_OK;
}

zero_status zr_file_map(const char *path, zr_mapped_file *out, zero_error *error)
{
    int fd;
    struct stat info;
    *out = (zr_mapped_file){0};
    ZERO_TRY(open_for_reading(path, false, &fd, &info, error));
    zero_status status =
        info.st_size > 0 ? zr_file_map_open(fd, (size_t)info.st_size, path, out, error) : ZERO_OK;
    close(fd);
    return status;
}

void zr_file_release(const zr_mapped_file *file, size_t first, size_t end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    // A page is mapped together with its neighbours, up to a large page of them, so some that were
    // released before are here again.
    first = ZR_ROUND_UP(first - ZR_MIN(first, 2 * ZR_LARGE_PAGE), page);
    end = ZR_MIN(end, file->length) / page * page;
    if (file->on_disk && first < end)
        (void)madvise((char *)file->data + first, end - first, MADV_DONTNEED);
}

void zr_file_unmap(zr_mapped_file *file)
{
    if (file->data)
        munmap((void *)file->data, file->length);
    *file = (zr_mapped_file){0};
}
