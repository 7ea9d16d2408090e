// Reads, writes and updates a scratch file, sub-group after sub-group, through three buffers. The
// updates are those of engine/group_walk.c, without the arithmetic:
//
//   buffer 0   read 0 | write 0 ............ | read 3
//   buffer 1          | read 1 | write 1 ............
//   buffer 2                   | read 2 | write 2 ...
//
// Invariant: group g travels through buffer g % BUFFERS, to and from sub-group g % groups of the
// scratch. The data written is random, because some disks compress.
#define _GNU_SOURCE
#include "predict/disk.h"

#include "base/clock.h"
#include "base/numbers.h"
#include "base/random.h"
#include "memory/arena.h"
#include "memory/io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/vfs.h>

enum { BUFFERS = 3, LEAST_GROUPS = 4 };
// What a sub-group of 1,048,576 elements moves: 2 + 4 + 4 + 4 bytes each, rounded up.
#define GROUP_BYTES ((int64_t)16 << 20)
#define TIMEOUT 60.0
#define LEAST_BLOCK ((int64_t)ZR_IO_ALIGN)

typedef struct track { // of the measurement
    zr_scratch scratch;
    zr_io *io;
    zr_io_extents extents;
    zr_arena buffers; // (BUFFERS, group)
    zr_io_request requests[BUFFERS];
    int64_t group, groups; // bytes of one; how many fit into the scratch
    int64_t next;          // the group that the next round begins with
} track;

static zero_status start_group_transfer(track *t, int64_t g, bool write, zero_error *error)
{
    zr_io_request *request = &t->requests[g % BUFFERS];
    *request = (zr_io_request){
        .write = write, .extents = &t->extents, .buffer = t->buffers.base + g % BUFFERS * t->group};
    ZERO_TRY(zr_io_extents_find(&t->extents, g % t->groups * t->group, t->group, &request->begin,
                                &request->count, error));
    return zr_io_start(t->io, request, error);
}

static zero_status wait_for_group(track *t, int64_t g, zero_error *error)
{
    return zr_io_wait(t->io, &t->requests[g % BUFFERS], error);
}

static zero_status start_group_read(track *t, int64_t g, zero_error *error)
{
    ZERO_TRY(wait_for_group(t, g, error));
    return start_group_transfer(t, g, false, error);
}

static zero_status start_group_write(track *t, int64_t g, zero_error *error)
{
    ZERO_TRY(wait_for_group(t, g, error));
    return start_group_transfer(t, g, true, error);
}

// Requires that the read of group g has begun.
static zero_status update_group(track *t, int64_t g, zero_error *error)
{
    ZERO_TRY(wait_for_group(t, g, error));
    ZERO_TRY(start_group_read(t, g + 1, error));
    return start_group_transfer(t, g, true, error);
}

typedef zero_status (*group_fn)(track *t, int64_t g, zero_error *error);

// Works on groups for `seconds`, and at least `least` of them. *rate: bytes per second, read and
// written together.
static zero_status time_round(track *t, group_fn work, double seconds, int64_t least, double *rate,
                              zero_error *error)
{
    zr_io_counts before = zr_io_counted(t->io);
    double start = zr_clock_seconds();
    int64_t first = t->next, g = first;
    if (work == update_group)
        ZERO_TRY(start_group_read(t, g, error));
    for (; g - first < least || zr_clock_seconds() - start < seconds; g++)
        ZERO_TRY(work(t, g, error));
    for (int i = 0; i < BUFFERS; i++)
        ZERO_TRY(wait_for_group(t, g + i, error));
    zr_io_counts after = zr_io_counted(t->io);
    *rate = (double)(after.read - before.read + after.written - before.written) /
            (zr_clock_seconds() - start);
    t->next = g;
    return ZERO_OK;
}

static zr_disk_rate summarize_rates(double *rates, int count)
{
    double median = zr_median(rates, count);
    return (zr_disk_rate){.median = median, .least = rates[0], .most = rates[count - 1]};
}

// Runs the three kinds of round in turn, so that changes of the disk's speed affect all three.
static zero_status measure_in_turn(track *t, const zr_disk_options *options, zr_disk *out,
                                   zero_error *error)
{
    static const group_fn works[] = {start_group_read, start_group_write, update_group};
    zr_disk_rate *const results[] = {&out->read, &out->write, &out->mix};
    double rates[ZR_COUNT(works)][ZR_DISK_MOST_ROUNDS], ignored;
    // What was never written is read without a transfer, so write everything first.
    ZERO_TRY(time_round(t, start_group_write, 0, t->groups, &ignored, error));
    for (int i = 0; i < options->rounds; i++)
        for (int v = 0; v < ZR_COUNT(works); v++)
            ZERO_TRY(time_round(t, works[v], options->seconds, BUFFERS, &rates[v][i], error));
    for (int v = 0; v < ZR_COUNT(works); v++)
        *results[v] = summarize_rates(rates[v], options->rounds);
    return ZERO_OK;
}

static void fill_buffers(const zr_arena *buffers)
{
    for (size_t at = 0; at + sizeof(zr_philox) <= buffers->bytes; at += sizeof(zr_philox)) {
        zr_philox drawn = zr_philox4x32(1337, 0, at);
        memcpy(buffers->base + at, &drawn, sizeof drawn);
    }
}

static zero_status open_track(track *t, const zr_disk_options *options, const zr_disk *disk,
                              zr_ledger *ledger, zero_error *error)
{
    const zr_scratch *scratches[] = {&t->scratch};
    t->group = disk->group;
    t->groups = disk->scratch / disk->group;
    ZERO_TRY(zr_arena_on_host(ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                              (size_t)(BUFFERS * t->group), &t->buffers, error));
    fill_buffers(&t->buffers);
    ZERO_TRY(zr_scratch_create(&options->directory, 1, disk->scratch, options->block, "zero-bench",
                               NULL, &t->scratch, error));
    ZERO_TRY(zr_io_extents_create(&t->scratch, 0, disk->scratch, NULL, 0, options->block,
                                  &t->extents, error));
    const zr_io_buffer buffers[] = {{t->buffers.base, t->buffers.bytes}};
    const zr_io_options io = {.block = options->block,
                              .queue_depth = options->depth,
                              .lanes = 1,
                              .overlap_events = true,
                              .timeout = TIMEOUT,
                              .scratches = scratches,
                              .scratch_count = 1,
                              .buffers = buffers,
                              .buffer_count = 1};
    return zr_io_create(&io, &t->io, error);
}

static void close_track(track *t)
{
    zr_io_destroy(t->io); // first, because pending transfers use the buffers
    zr_io_extents_destroy(&t->extents);
    zr_scratch_destroy(&t->scratch);
    zr_arena_destroy(&t->buffers);
}

static void describe_why_cached(int fd, char *out, size_t size)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0)
        snprintf(out, size, "its transfers fail");
    else
        snprintf(out, size, "%s", strerror(errno));
}

static void name_kind(int64_t number, char *out, size_t size)
{
    static const struct {
        int64_t number;
        const char *name;
    } kinds[] = {{EXT4_SUPER_MAGIC, "ext4"},   {XFS_SUPER_MAGIC, "xfs"},
                 {BTRFS_SUPER_MAGIC, "btrfs"}, {F2FS_SUPER_MAGIC, "f2fs"},
                 {TMPFS_MAGIC, "tmpfs"},       {OVERLAYFS_SUPER_MAGIC, "overlay"},
                 {NFS_SUPER_MAGIC, "nfs"},     {FUSE_SUPER_MAGIC, "fuse"},
                 {0x2fc12fc1, "zfs"},          {0x0bd00bd0, "lustre"}};
    snprintf(out, size, "0x%llx", (unsigned long long)number);
    for (int i = 0; i < ZR_COUNT(kinds); i++)
        if (kinds[i].number == number)
            snprintf(out, size, "%s", kinds[i].name);
}

zero_status zr_disk_look(const char *directory, zr_disk *out, zero_error *error)
{
    struct statfs info;
    *out = (zr_disk){0};
    if (statfs(directory, &info))
        return zr_fail_errno(error, ZERO_ERR_USAGE, errno, "cannot look at the directory \"%s\"",
                             directory);
    name_kind((int64_t)info.f_type, out->kind, sizeof out->kind);
    out->available = (int64_t)((uint64_t)info.f_bavail * (uint64_t)info.f_frsize);
    return ZERO_OK;
}

// Chooses sub-groups large enough for `depth` transfers in flight, and a scratch of several of
// them.
static zero_status choose_sizes(const zr_disk_options *options, zr_disk *out, zero_error *error)
{
    int64_t bytes = ZR_MIN(options->bytes, out->available / 2), most = bytes / LEAST_GROUPS;
    if (options->block < LEAST_BLOCK || options->block % LEAST_BLOCK)
        return zr_fail(error, ZERO_ERR_USAGE, "a block of %lld bytes: it is a multiple of %lld",
                       (long long)options->block, (long long)LEAST_BLOCK);
    out->group = ZR_MIN(ZR_MAX(GROUP_BYTES, options->block * options->depth), most) /
                 options->block * options->block;
    if (!out->group)
        return zr_fail(error, options->bytes > bytes ? ZERO_ERR_IO : ZERO_ERR_USAGE,
                       "no measuring in \"%s\" with %lld bytes: %d blocks of %lld are needed (%lld "
                       "are free, half may be used)",
                       options->directory, (long long)bytes, LEAST_GROUPS,
                       (long long)options->block, (long long)out->available);
    out->scratch = bytes / out->group * out->group;
    return ZERO_OK;
}

zero_status zr_disk_measure(const zr_disk_options *options, zr_disk *out, zero_error *error)
{
    zr_ledger ledger = {0};
    track t = {0};
    ZERO_TRY(zr_disk_look(options->directory, out, error));
    ZERO_TRY(choose_sizes(options, out, error));
    zero_status status = open_track(&t, options, out, &ledger, error);
    if (status == ZERO_OK) {
        out->direct = t.scratch.direct;
        snprintf(out->engine, sizeof out->engine, "%s", zr_io_description(t.io));
        status = measure_in_turn(&t, options, out, error);
    }
    if (status == ZERO_OK && !out->direct)
        describe_why_cached(t.scratch.fds[0], out->refused, sizeof out->refused);
    close_track(&t);
    return status;
}
