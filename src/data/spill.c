#define _GNU_SOURCE
#include "data/spill.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ROOM ((size_t)1 << 18) // bytes

struct zr_spill {
    int fd;
    int64_t written; // bytes in the file
    char *what, *directory;
    char *room; // (ROOM) bytes that are not yet in the file; NULL: the writing has ended
    size_t used;
    atomic_int failed; // errno of the first read that failed; 0: none
};

static const char *choose_directory(void)
{
    const char *named = getenv("TMPDIR");
    if (named && *named)
        return named;
    return access("/var/tmp", W_OK | X_OK) ? "/tmp" : "/var/tmp";
}

static zero_status make_spill(const char *what, const char *directory, zr_spill **out,
                              zero_error *error)
{
    zr_spill *spill = zr_alloc(sizeof *spill, error);
    *out = NULL;
    if (!spill)
        return ZERO_ERR_MEMORY;
    spill->fd = -1;
    spill->what = zr_strdup(what, error);
    spill->directory = zr_strdup(directory, error);
    if (!spill->what || !spill->directory) {
        zr_spill_destroy(spill);
        return ZERO_ERR_MEMORY;
    }
    *out = spill;
    return ZERO_OK;
}

// Messages call the file by its directory, because it has no name of its own.
static zero_status open_spill(zr_spill *spill, zero_error *error)
{
    char *prefix = zr_sprintf(error, "%s/zero-%ld", spill->directory, (long)getpid()), *name;
    if (!prefix)
        return ZERO_ERR_MEMORY;
    int reason = zr_file_open_unnamed(spill->directory, prefix, 0, &name, &spill->fd);
    zr_free(prefix);
    zr_free(name);
    if (!reason)
        return ZERO_OK;
    spill->fd = -1;
    if (reason == ENOMEM)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory to open a file for them",
                       spill->what);
    return zr_fail_errno(error, ZERO_ERR_USAGE, reason,
                         "%s: there are too many bytes for memory, and no file for them can be "
                         "made in \"%s\" (TMPDIR names another directory)",
                         spill->what, spill->directory);
}

zero_status zr_spill_create(const char *what, zr_spill **out, zero_error *error)
{
    ZERO_TRY(make_spill(what, choose_directory(), out, error));
    (*out)->room = zr_alloc(ROOM, error);
    zero_status status = (*out)->room ? open_spill(*out, error) : ZERO_ERR_MEMORY;
    if (status != ZERO_OK) {
        zr_spill_destroy(*out);
        *out = NULL;
    }
    return status;
}

void zr_spill_destroy(zr_spill *spill)
{
    if (!spill)
        return;
    if (spill->fd >= 0)
        close(spill->fd);
    zr_free(spill->what);
    zr_free(spill->directory);
    zr_free(spill->room);
    zr_free(spill);
}

static zero_status refuse_write(const zr_spill *spill, int reason, zero_error *error)
{
    struct statvfs info;
    int64_t available =
        statvfs(spill->directory, &info) ? 0 : (int64_t)((uint64_t)info.f_bavail * info.f_frsize);
    return zr_fail_errno(error, ZERO_ERR_IO, reason,
                         "%s: no room in \"%s\" after %lld bytes, where %lld are free (TMPDIR "
                         "names another directory)",
                         spill->what, spill->directory, (long long)spill->written,
                         (long long)available);
}

static zero_status write_room(zr_spill *spill, zero_error *error)
{
    for (size_t done = 0; done < spill->used;) {
        ssize_t put = pwrite(spill->fd, spill->room + done, spill->used - done, spill->written);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return refuse_write(spill, put < 0 ? errno : ENOSPC, error);
        done += (size_t)put;
        spill->written += put;
    }
    spill->used = 0;
    return ZERO_OK;
}

zero_status zr_spill_append(zr_spill *spill, const void *data, size_t bytes, zero_error *error)
{
    for (size_t done = 0, part; done < bytes; done += part) {
        part = ZR_MIN(bytes - done, ROOM - spill->used);
        memcpy(spill->room + spill->used, (const char *)data + done, part);
        spill->used += part;
        if (spill->used == ROOM)
            ZERO_TRY(write_room(spill, error));
    }
    return ZERO_OK;
}

int64_t zr_spill_bytes(const zr_spill *spill) { return spill->written + (int64_t)spill->used; }

zero_status zr_spill_finish(zr_spill *spill, zero_error *error)
{
    ZERO_TRY(write_room(spill, error));
    zr_free(spill->room);
    spill->room = NULL;
    return ZERO_OK;
}

void zr_spill_read(zr_spill *spill, int64_t at, void *out, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(spill->fd, (char *)out + done, bytes - done, at + (int64_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            int none = 0;
            atomic_compare_exchange_strong(&spill->failed, &none, got < 0 ? errno : EIO);
            memset((char *)out + done, 0, bytes - done);
            return;
        }
        done += (size_t)got;
    }
}

zero_status zr_spill_check(const zr_spill *spill, zero_error *error)
{
    int reason = atomic_load(&spill->failed);
    return reason
               ? zr_fail_errno(error, ZERO_ERR_IO, reason, "%s: cannot read them back from \"%s\"",
                               spill->what, spill->directory)
               : ZERO_OK;
}

zero_status zr_spill_map(const zr_spill *spill, zr_mapped_file *out, zero_error *error)
{
    return zr_file_map_open(spill->fd, (size_t)spill->written, spill->directory, out, error);
}

zr_spill_place zr_spill_place_of(const zr_spill *spill)
{
    struct stat info = {0};
    (void)fstat(spill->fd, &info);
    return (zr_spill_place){.process = getpid(),
                            .fd = spill->fd,
                            .device = (int64_t)info.st_dev,
                            .inode = (int64_t)info.st_ino};
}

// In a container of its own, a process of that number is another one.
static bool is_at(const zr_spill_place *place, int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
           (int64_t)info.st_dev == place->device && (int64_t)info.st_ino == place->inode;
}

zero_status zr_spill_open_at(const zr_spill_place *place, const char *what, zr_spill **out,
                             zero_error *error)
{
    char path[64];
    zr_spill *spill;
    *out = NULL;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)place->process,
             (long long)place->fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ZERO_OK;
    if (!is_at(place, fd)) {
        close(fd);
        return ZERO_OK;
    }
    zero_status status = make_spill(what, choose_directory(), &spill, error);
    if (status != ZERO_OK) {
        close(fd);
        return status;
    }
    spill->fd = fd;
    *out = spill;
    return ZERO_OK;
}
