// Allocates windows collectively. Rank 0 makes room; each rank commits its own part, so that its
// pages lie on its own NUMA node and are zeroed in parallel, and maps the whole. After each of the
// two steps all ranks agree, so that all succeed or all fail, with the reason of the first rank
// that had one.
#define _GNU_SOURCE
#include "comm/local_window.h"

#include "base/alloc.h"
#include "comm/local_far_window.h"
#include "comm/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

// Bytes of the slot words, from one region to the next, and of everything.
typedef struct shape {
    int64_t words, stride, bytes;
} shape;

// What the host reads and writes itself, words and shared windows, lies in its memory on every
// device.
static bool is_far(const zr_window *window)
{
    return window->comm->queue && window->kind == ZR_WINDOW_SYMMETRIC;
}

static zero_status reserve_far_region(zr_window *window, zero_error *error)
{
    int64_t bytes[ZERO_MAX_RANKS];
    for (int r = 0; r < window->comm->size; r++)
        bytes[r] = window->bytes;
    zr_local_window *mine = window->impl;
    return zr_far_regions_reserve(window->comm, mine->entry, bytes, &mine->far, error);
}

static zero_status measure_window(const zr_window *window, shape *out, zero_error *error)
{
    int ranks = window->comm->size;
    bool one = window->kind != ZR_WINDOW_SYMMETRIC;
    int64_t regions = one ? 1 : ranks;
    if (window->bytes > (INT64_MAX >> 1) / regions - (1 << 30))
        return zr_fail(error, ZERO_ERR_MEMORY,
                       "a window of %lld bytes on %d ranks is more than can be addressed",
                       (long long)window->bytes, ranks);
    int64_t region = is_far(window) ? 0 : ZR_ROUND_UP(window->bytes, ZR_PAGE);
    out->words =
        ZR_ROUND_UP((int64_t)sizeof(zr_slot_words) * ZR_MAX(window->slots, 1) * ranks, ZR_PAGE);
    out->stride = one ? 0 : region;
    out->bytes = out->words + region * regions;
    return ZERO_OK;
}

// Exchanges the ranks' status and the windows they request, as the largest and the smallest of
// each. *entry becomes rank 0's.
static zero_status agree_on_window(zr_window *window, zero_status status, const zero_error *own,
                                   int *entry, zero_error *error)
{
    zero_comm *comm = window->comm;
    zr_local *local = comm->impl;
    int64_t extremes[] = {status != ZERO_OK ? comm->size - comm->rank : 0,
                          comm->rank == 0 ? *entry : 0,
                          window->bytes,
                          -window->bytes,
                          window->slots,
                          -window->slots,
                          window->kind,
                          -(int64_t)window->kind};
    snprintf(local->record->note, sizeof local->record->note, "%s",
             status != ZERO_OK ? own->message : "");
    ZERO_TRY(
        zr_local_all_reduce_small(comm, extremes, ZR_COUNT(extremes), ZERO_I64, ZR_MAX, error));
    *entry = (int)extremes[1];
    for (int i = 2; i < ZR_COUNT(extremes); i += 2)
        if (extremes[i] != -extremes[i + 1])
            return zr_fail(
                error, ZERO_ERR_INTERNAL,
                "the ranks ask for different windows: bytes %lld to %lld, slots %lld to %lld",
                (long long)-extremes[3], (long long)extremes[2], (long long)-extremes[5],
                (long long)extremes[4]);
    if (extremes[0] == 0)
        return ZERO_OK;
    int first = zr_comm_job_rank(comm, comm->size - (int)extremes[0]);
    return zr_fail(error, ZERO_ERR_MEMORY, "rank %d: %s", first,
                   local->control->records[first].note);
}

static zero_status extend_memfd(zr_window *window, const shape *shape, zr_window_entry *entry,
                                zero_error *error)
{
    zr_local *local = window->comm->impl;
    ZERO_TRY(zr_region_check(shape->bytes, error));
    if (local->memfd < 0) {
        entry->base = mmap(NULL, (size_t)shape->bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (entry->base == MAP_FAILED)
            return zr_fail_errno(error, ZERO_ERR_MEMORY, errno, "mapping %lld bytes for a window",
                                 (long long)shape->bytes);
    }
    entry->offset = atomic_fetch_add(&local->control->end, shape->bytes);
    atomic_store(&entry->regions, NULL);
    atomic_store(&entry->entered, 0);
    atomic_store(&entry->users, window->comm->size + 1);
    return ZERO_OK;
}

// Finds this rank's part of the mapping: its region, or the N-th part of the shared one. Rank 0's
// part also holds the words.
static void find_part(const zr_window *window, const shape *shape, int64_t *offset, int64_t *bytes)
{
    int rank = window->comm->rank, ranks = window->comm->size;
    int64_t step = shape->stride
                       ? shape->stride
                       : ZR_ROUND_UP((shape->bytes - shape->words + ranks - 1) / ranks, ZR_PAGE);
    int64_t first = ZR_MIN(shape->words + rank * step, shape->bytes),
            last = ZR_MIN(first + step, shape->bytes);
    *offset = rank == 0 ? 0 : first;
    *bytes = last - *offset;
}

static zero_status map_window(zr_window *window, const shape *shape, zr_window_entry *entry,
                              zero_error *error)
{
    zr_local *local = window->comm->impl;
    zr_local_window *mine = window->impl;
    int64_t offset, bytes;
    find_part(window, shape, &offset, &bytes);
    if (local->memfd >= 0) {
        ZERO_TRY(zr_local_commit(local->memfd, entry->offset + offset, bytes, error));
        void *base = mmap(NULL, (size_t)shape->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                          local->memfd, entry->offset);
        if (base == MAP_FAILED)
            return zr_fail_errno(error, ZERO_ERR_MEMORY, errno, "mapping %lld bytes for a window",
                                 (long long)shape->bytes);
        mine->base = base;
    } else {
        mine->base = entry->base;
    }
    mine->mapped = shape->bytes;
    mine->stride = shape->stride;
    mine->words = (zr_slot_words *)mine->base;
    mine->data = mine->base + shape->words;
    return zr_region_touch(mine->base + offset, bytes, error);
}

// Takes `ranks` ranks, which leave a window or will not enter it, off its users. With the last one
// it releases the regions of all ranks and the pages; processes punch a hole, because others may
// still map later windows of the memfd.
static void leave_entry(zero_comm *comm, zr_window_entry *entry, int32_t ranks, int64_t bytes)
{
    const zr_local *local = comm->impl;
    if (atomic_fetch_sub(&entry->users, ranks) != ranks + 1)
        return;
    zr_far_regions_release(comm, atomic_load(&entry->regions));
    if (local->memfd >= 0)
        fallocate(local->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, entry->offset, bytes);
    else
        munmap(entry->base, (size_t)bytes);
    atomic_store(&entry->users, 0);
}

// A rank that is late finds that another one has given up the window that they agreed on.
static bool enter(zr_window_entry *entry) { return atomic_fetch_add(&entry->entered, 1) >= 0; }

// Gives up: who has not entered will not come.
static void close_entry(zero_comm *comm, zr_window_entry *entry, int64_t bytes)
{
    int32_t entered = atomic_exchange(&entry->entered, INT32_MIN / 2);
    if (entered >= 0 && entered < comm->size)
        leave_entry(comm, entry, comm->size - entered, bytes);
}

// Runs on rank 0: finds an entry that no window uses.
static zero_status find_entry(zr_area *area, int *out, zero_error *error)
{
    *out = 0;
    while (*out < ZR_WINDOWS && atomic_load(&area->windows[*out].users) != 0)
        ++*out;
    if (*out < ZR_WINDOWS)
        return ZERO_OK;
    *out = 0;
    return zr_fail(error, ZERO_ERR_MEMORY, "more than %d windows are alive", ZR_WINDOWS);
}

// This rank's own part before the first agreement.
static zero_status prepare_window(zr_window *window, shape *shape, zr_local_window **mine,
                                  int *entry, zero_error *error)
{
    zr_area *area = ((zr_local *)window->comm->impl)->area;
    ZERO_TRY(measure_window(window, shape, error));
    *mine = zr_alloc(sizeof **mine + sizeof(*mine)->sequence[0] * (size_t)window->slots, error);
    if (!*mine)
        return ZERO_ERR_MEMORY;
    (*mine)->mapped = shape->bytes;
    if (window->comm->rank != 0)
        return ZERO_OK;
    ZERO_TRY(find_entry(area, entry, error));
    return extend_memfd(window, shape, &area->windows[*entry], error);
}

zero_status zr_local_window_create(zero_comm *comm, zr_window *window, zero_error *error)
{
    zr_local *local = comm->impl;
    zero_error own = {0};
    shape shape = {0};
    zr_local_window *mine = NULL;
    int place = 0;
    zero_status prepared = prepare_window(window, &shape, &mine, &place, &own);
    zero_status status = agree_on_window(window, prepared, &own, &place, error);
    zr_window_entry *entry = &local->area->windows[place];
    if (status != ZERO_OK)
        goto undo_prepare;
    if (!enter(entry)) {
        // Its failure may have come between the words of this agreement, too.
        status = zr_fail(&own, ZERO_ERR_PEER, "another rank gave up this window");
        status = agree_on_window(window, status, &own, &place, error);
        goto undo_alloc;
    }
    mine->entry = entry;
    window->impl = mine;
    status = map_window(window, &shape, entry, &own);
    if (status == ZERO_OK && is_far(window))
        status = reserve_far_region(window, &own);
    status = agree_on_window(window, status, &own, &place, error);
    if (status == ZERO_OK && is_far(window))
        status = zr_far_regions_attach(mine->far, error);
    if (status != ZERO_OK)
        goto undo_map;
    window->mine = zr_local_region(window, comm->rank);
    return ZERO_OK;
undo_map:
    close_entry(comm, entry, shape.bytes);
    zr_local_window_destroy(window);
    window->impl = NULL;
    return status;
undo_prepare:
    if (comm->rank == 0 && prepared == ZERO_OK)
        close_entry(comm, entry, shape.bytes);
undo_alloc:
    zr_free(mine);
    return status;
}

void zr_local_window_destroy(zr_window *window)
{
    zr_local_window *mine = window->impl;
    const zr_local *local = window->comm->impl;
    zr_far_regions_detach(mine->far);
    if (local->memfd >= 0 && mine->base)
        munmap(mine->base, (size_t)mine->mapped);
    leave_entry(window->comm, mine->entry, 1, mine->mapped);
    zr_free(mine->far);
    zr_free(mine);
}
