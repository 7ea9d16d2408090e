// Scratch files: created without a name that others could find, and with their final size.
//
// Invariant: fds[0..count) are open and names[0..count) are set, also in a scratch that is still
// being created.
#define _GNU_SOURCE
#include "memory/scratch.h"
#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

// Returns how many bytes of the space lie in a file.
static int64_t bytes_in_file(const zr_scratch *scratch, int file)
{
    int64_t round = scratch->stripe * scratch->count,
            rest = scratch->bytes % round - file * scratch->stripe;
    return scratch->bytes / round * scratch->stripe + ZR_MIN(ZR_MAX(rest, 0), scratch->stripe);
}

static zero_status refuse_directory(const char *directory, int reason, zero_error *error)
{
    bool chosen_wrongly = reason == ENOENT || reason == ENOTDIR || reason == EACCES ||
                          reason == EPERM || reason == EROFS;
    return zr_fail_errno(error, chosen_wrongly ? ZERO_ERR_USAGE : ZERO_ERR_IO, reason,
                         "cannot make a scratch file in \"%s\"", directory);
}

static zero_status refuse_space(const char *directory, int64_t bytes, int64_t available,
                                zero_error *error)
{
    return zr_fail(error, ZERO_ERR_IO,
                   "no room for scratch space in \"%s\": %lld bytes are wanted, %lld are free",
                   directory, (long long)bytes, (long long)available);
}

static zero_status find_space(const char *directory, int64_t *available, zero_error *error)
{
    struct statvfs info;
    if (statvfs(directory, &info))
        return refuse_directory(directory, errno, error);
    *available = (int64_t)((uint64_t)info.f_bavail * info.f_frsize);
    return ZERO_OK;
}

static zero_status open_file(zr_scratch *scratch, const char *directory, const char *label,
                             zero_error *error)
{
    int file = scratch->count, fd;
    char *prefix = zr_sprintf(error, "%s/%s.%ld", directory, label, (long)getpid()), *name;
    if (!prefix)
        return ZERO_ERR_MEMORY;
    int reason = zr_file_open_unnamed(directory, prefix, file, &name, &fd);
    zr_free(prefix);
    if (reason == ENOMEM)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for a scratch file in \"%s\"", directory);
    if (reason)
        return refuse_directory(directory, reason, error);
    scratch->fds[file] = fd;
    scratch->names[file] = name;
    scratch->count++;
    return ZERO_OK;
}

// Returns an errno, or 0. Where the file system cannot preallocate, the file has its length but is
// sparse.
static int preallocate_file(int fd, int64_t bytes, const zr_io_faults *faults)
{
    int reason = faults && faults->allocate ? faults->allocate(faults->user, bytes) : 0;
    while (!reason && fallocate(fd, 0, 0, bytes)) {
        if (errno == EINTR)
            continue;
        reason = errno;
    }
    if (reason == EOPNOTSUPP || reason == ENOSYS)
        reason = ftruncate(fd, bytes) ? errno : 0;
    return reason;
}

// Switches to O_DIRECT if a trial shows that it works: some file systems accept the flag and then
// fail the transfer.
static bool try_direct(int fd)
{
    _Alignas(ZR_IO_ALIGN) char page[ZR_IO_ALIGN] = {0};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT))
        return false;
    if (pwrite(fd, page, sizeof page, 0) == sizeof page &&
        pread(fd, page, sizeof page, 0) == sizeof page)
        return true;
    (void)fcntl(fd, F_SETFL, flags);
    return false;
}

static zero_status add_file(zr_scratch *scratch, const char *directory, int64_t bytes,
                            const char *label, const zr_io_faults *faults, zero_error *error)
{
    int64_t available = 0;
    ZERO_TRY(find_space(directory, &available, error));
    if (bytes > available)
        return refuse_space(directory, bytes, available, error);
    ZERO_TRY(open_file(scratch, directory, label, error));
    if (!bytes)
        return ZERO_OK;
    int fd = scratch->fds[scratch->count - 1], reason = preallocate_file(fd, bytes, faults);
    if (reason == ENOSPC || reason == EDQUOT) {
        ZERO_TRY(find_space(directory, &available, error));
        return refuse_space(directory, bytes, available, error);
    }
    if (reason)
        return zr_fail_errno(error, ZERO_ERR_IO, reason,
                             "cannot reserve %lld bytes of scratch space in \"%s\"",
                             (long long)bytes, directory);
    scratch->direct = try_direct(fd) && scratch->direct;
    return ZERO_OK;
}

static zero_status check_sizes(int count, int64_t bytes, int64_t stripe, zero_error *error)
{
    if (bytes < 0 || stripe < ZR_IO_ALIGN || stripe % ZR_IO_ALIGN)
        return zr_fail(
            error, ZERO_ERR_INTERNAL,
            "scratch space of %lld bytes in stripes of %lld: a stripe is a multiple of %d bytes",
            (long long)bytes, (long long)stripe, ZR_IO_ALIGN);
    if (bytes && (count < 1 || count > ZR_SCRATCH_MOST_FILES))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "scratch space in %d directories: there can be 1 to %d", count,
                       ZR_SCRATCH_MOST_FILES);
    return ZERO_OK;
}

zero_status zr_scratch_create(const char *const *directories, int count, int64_t bytes,
                              int64_t stripe, const char *label, const zr_io_faults *faults,
                              zr_scratch *out, zero_error *error)
{
    *out = (zr_scratch){0};
    ZERO_TRY(check_sizes(count, bytes, stripe, error));
    zr_scratch whole = {.count = bytes ? count : 0,
                        .bytes = ZR_ROUND_UP(bytes, (int64_t)ZR_IO_ALIGN),
                        .stripe = stripe,
                        .direct = true};
    zr_scratch made = {.bytes = whole.bytes, .stripe = stripe, .direct = true};
    for (int i = 0; i < whole.count; i++) {
        zero_status status =
            add_file(&made, directories[i], bytes_in_file(&whole, i), label, faults, error);
        if (status != ZERO_OK) {
            zr_scratch_destroy(&made);
            return status;
        }
    }
    *out = made;
    return ZERO_OK;
}

void zr_scratch_destroy(zr_scratch *scratch)
{
    for (int i = 0; i < scratch->count; i++) {
        close(scratch->fds[i]);
        zr_free(scratch->names[i]);
    }
    *scratch = (zr_scratch){0};
}

int zr_scratch_find(const zr_scratch *scratch, int64_t place, int64_t *offset)
{
    int64_t stripe = place / scratch->stripe;
    *offset = stripe / scratch->count * scratch->stripe + place % scratch->stripe;
    return (int)(stripe % scratch->count);
}
