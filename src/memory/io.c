// The engine: its options, its queue of requests, and the waits for them. One array lists the kinds
// of lanes.
//
// Invariant, under the lock: the queue holds, in the order in which they were started, the requests
// with extents that have not begun; every request that was started and not yet waited for has
// `started` set.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "memory/io_internal.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST_DEPTH 4096
#define MOST_LANES 64
#define MOST_BLOCK ((int64_t)1 << 30)

static const zr_io_ops *const implementations[] = {
// The first one that is not refused runs.
#ifdef ZR_IO_URING
    &zr_io_uring,
#endif
    &zr_io_threads,
};

int zr_io_transfers_of_a_lane(const zr_io_options *options)
{
    return 2 * options->queue_depth; // under way, and as many with checksums being computed
}

// Starts a thread without signals, so that these stay with the threads that the program made.
int zr_io_start_thread(pthread_t *thread, void *(*serve)(void *), void *argument)
{
    sigset_t before;
    zr_thread_block_signals(&before);
    int reason = pthread_create(thread, NULL, serve, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reason;
}

static zero_status check_io_options(const zr_io_options *options, zero_error *error)
{
    if (options->block < ZR_IO_ALIGN || options->block > MOST_BLOCK || options->block % ZR_IO_ALIGN)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a block of %lld bytes: it is a multiple of %d, %lld at most",
                       (long long)options->block, ZR_IO_ALIGN, (long long)MOST_BLOCK);
    if (options->queue_depth < 1 || options->queue_depth > MOST_DEPTH)
        return zr_fail(error, ZERO_ERR_USAGE, "a queue depth of %d: there are 1 to %d transfers",
                       options->queue_depth, MOST_DEPTH);
    if (options->lanes < 1 || options->lanes > MOST_LANES)
        return zr_fail(error, ZERO_ERR_USAGE, "%d lanes: there are 1 to %d", options->lanes,
                       MOST_LANES);
    if (!(options->timeout >= 0))
        return zr_fail(error, ZERO_ERR_USAGE, "a timeout of %g seconds: it is 0 for none, or above",
                       options->timeout);
    return ZERO_OK;
}

static void free_io(zr_io *io)
{
    pthread_cond_destroy(&io->work);
    pthread_cond_destroy(&io->ended);
    pthread_mutex_destroy(&io->lock);
    zr_free((void *)io->options.scratches);
    zr_free((void *)io->options.buffers);
    zr_free(io->files);
    zr_free(io->transfers);
    zr_free(io);
}

static void list_files(zr_io *io)
{
    for (int i = 0; i < io->options.scratch_count; i++) {
        const zr_scratch *scratch = io->options.scratches[i];
        memcpy(io->files + io->file_count, scratch->fds,
               (size_t)scratch->count * sizeof *io->files);
        io->file_count += scratch->count;
    }
}

static zr_io *allocate_io(const zr_io_options *options, zero_error *error)
{
    zr_io *io = zr_alloc(sizeof *io, error);
    if (!io)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&io->lock, NULL);
    pthread_cond_init(&io->work, NULL);
    pthread_cond_init(&io->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    size_t scratch_bytes = (size_t)options->scratch_count * sizeof *options->scratches;
    size_t buffer_bytes = (size_t)options->buffer_count * sizeof *options->buffers;
    io->options = *options;
    io->transfer_count = options->lanes * zr_io_transfers_of_a_lane(options);
    void *scratches = zr_alloc(scratch_bytes, error), *buffers = zr_alloc(buffer_bytes, error);
    io->options.scratches = scratches;
    io->options.buffers = buffers;
    io->files =
        zr_alloc((size_t)options->scratch_count * ZR_SCRATCH_MOST_FILES * sizeof *io->files, error);
    io->transfers = zr_alloc((size_t)io->transfer_count * sizeof *io->transfers, error);
    if (!scratches || !buffers || !io->files || !io->transfers) {
        free_io(io);
        return NULL;
    }
    if (scratch_bytes)
        memcpy(scratches, options->scratches, scratch_bytes);
    if (buffer_bytes)
        memcpy(buffers, options->buffers, buffer_bytes);
    list_files(io);
    for (int i = 0; i < io->transfer_count; i++)
        zr_io_push(&io->free, &io->transfers[i]);
    return io;
}

static const char *way_to_the_disk(const zr_io_options *options)
{
    int direct = 0, cached = 0;
    for (int i = 0; i < options->scratch_count; i++) {
        const zr_scratch *scratch = options->scratches[i];
        direct += scratch->count && scratch->direct;
        cached += scratch->count && !scratch->direct;
    }
    if (direct && cached)
        return ", O_DIRECT in part";
    return direct ? ", O_DIRECT" : cached ? ", page cache" : "";
}

static void describe_engine(zr_io *io, const char *refused_name, int refused)
{
    char why[100] = "", reason[64];
    if (refused)
        snprintf(why, sizeof why, " (%s: %s)", refused_name,
                 strerror_r(refused, reason, sizeof reason));
    else if (!io->options.threads_only && ZR_COUNT(implementations) == 1)
        snprintf(why, sizeof why, " (no io_uring in this build)");
    snprintf(io->description, sizeof io->description, "%s%s%s%s", io->kind, why,
             way_to_the_disk(&io->options), io->extras);
}

static void stop_lanes(zr_io *io)
{
    pthread_mutex_lock(&io->lock);
    atomic_store(&io->ending, true);
    while (io->first) {
        zr_io_request *request = io->first;
        if (request->status == ZERO_OK) {
            request->status = ZERO_ERR_CANCELLED;
            snprintf(request->message, sizeof request->message, "%s: the run ended before",
                     request->write ? "writing" : "reading");
        }
        zr_io_abandon(io, request);
    }
    if (io->ops && io->lanes)
        io->ops->wake(io);
    pthread_mutex_unlock(&io->lock);
    if (io->ops)
        io->ops->destroy(io);
    atomic_store(&io->ending, false);
}

static zero_status open_lanes(zr_io *io, zero_error *error)
{
    int refused = 0;
    const char *refused_name = "";
    int first = io->options.threads_only ? ZR_COUNT(implementations) - 1 : 0;
    for (int i = first; i < ZR_COUNT(implementations); i++) {
        int reason = 0;
        io->ops = implementations[i];
        zero_status status = io->ops->create(io, &reason, error);
        if (status == ZERO_OK) {
            describe_engine(io, refused_name, refused);
            return ZERO_OK;
        }
        stop_lanes(io);
        if (!reason)
            return status;
        refused = reason;
        refused_name = io->ops->name;
    }
    return ZERO_ERR_INTERNAL;
}

zero_status zr_io_create(const zr_io_options *options, zr_io **out, zero_error *error)
{
    *out = NULL;
    ZERO_TRY(check_io_options(options, error));
    zr_io *io = allocate_io(options, error);
    if (!io)
        return ZERO_ERR_MEMORY;
    zero_status status = open_lanes(io, error);
    if (status != ZERO_OK) {
        free_io(io);
        return status;
    }
    *out = io;
    return ZERO_OK;
}

void zr_io_destroy(zr_io *io)
{
    if (!io)
        return;
    stop_lanes(io);
    free_io(io);
}

const char *zr_io_description(const zr_io *io) { return io->description; }

static bool knows_scratch(const zr_io *io, const zr_scratch *scratch)
{
    for (int i = 0; i < io->options.scratch_count; i++)
        if (io->options.scratches[i] == scratch)
            return true;
    return false;
}

static zero_status check_request(const zr_io *io, const zr_io_request *request, zero_error *error)
{
    const char *what = request->write ? "writing" : "reading";
    const zr_io_extents *extents = request->extents;
    if (request->started)
        return zr_fail(error, ZERO_ERR_INTERNAL, "%s: the request is under way", what);
    if (request->begin < 0 || request->count < 0 ||
        request->begin > extents->count - request->count)
        return zr_fail(error, ZERO_ERR_INTERNAL, "%s %d extents from %d of a vector that has %d",
                       what, request->count, request->begin, extents->count);
    if (request->count && !knows_scratch(io, extents->scratch))
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "%s: the vector lies in a scratch that the engine was not created with",
                       what);
    if ((uintptr_t)request->buffer % ZR_IO_ALIGN || (request->count && !request->buffer))
        return zr_fail(error, ZERO_ERR_INTERNAL, "%s: the buffer %p is not aligned to %d bytes",
                       what, (void *)request->buffer, ZR_IO_ALIGN);
    return ZERO_OK;
}

// For the fault `overwrite_buffer`: writes all ones, which are a number in no dtype.
static void overwrite_buffer(const zr_io *io, const zr_io_request *request)
{
    const int64_t *bounds = request->extents->bounds;
    if (!request->write && request->count && io->options.faults && io->options.faults->overwrite)
        memset(request->buffer, 0xff,
               (size_t)(bounds[request->begin + request->count] - bounds[request->begin]));
}

zero_status zr_io_start(zr_io *io, zr_io_request *request, zero_error *error)
{
    ZERO_TRY(check_request(io, request, error));
    overwrite_buffer(io, request);
    request->started = true;
    request->next = request->begin;
    request->unfinished = request->count;
    request->status = ZERO_OK;
    request->later = NULL;
    request->began = request->ended = zr_clock_nanoseconds();
    if (!request->count)
        return ZERO_OK;
    pthread_mutex_lock(&io->lock);
    if (io->first)
        io->last->later = request;
    else
        io->first = request;
    io->last = request;
    io->ops->wake(io);
    pthread_mutex_unlock(&io->lock);
    return ZERO_OK;
}

// Waits until the request ends or the deadline passes. Called with the lock.
static void await_request(zr_io *io, const zr_io_request *request, double deadline)
{
    struct timespec at = {.tv_sec = (time_t)deadline};
    at.tv_nsec = (long)((deadline - (double)at.tv_sec) * 1e9);
    while (request->unfinished && pthread_cond_timedwait(&io->ended, &io->lock, &at) != ETIMEDOUT)
        continue;
}

// Returns the transfer of a request that has been under way for longest; NULL if none has begun.
static const zr_io_transfer *find_oldest(const zr_io *io, const zr_io_request *request)
{
    const zr_io_transfer *oldest = NULL;
    for (int i = 0; i < io->transfer_count; i++) {
        const zr_io_transfer *one = &io->transfers[i];
        if (one->request == request && (!oldest || one->begun < oldest->begun))
            oldest = one;
    }
    return oldest;
}

static zero_status refuse_to_wait(const zr_io *io, const zr_io_request *request, zero_error *error)
{
    const char *what = request->write ? "writing" : "reading";
    const zr_io_transfer *oldest = find_oldest(io, request);
    if (!oldest)
        return zr_fail(
            error, ZERO_ERR_TIMEOUT,
            "%s %d extents: no transfer has ended for %g seconds, and these have not begun", what,
            request->count, io->options.timeout);
    return zr_fail(error, ZERO_ERR_TIMEOUT,
                   "%s %lld bytes at %lld of %s: it has lasted for %.1f seconds, and no other "
                   "transfer has ended for %g",
                   what, (long long)oldest->bytes, (long long)oldest->offset, oldest->name,
                   zr_clock_seconds() - oldest->begun, io->options.timeout);
}

zero_status zr_io_wait(zr_io *io, zr_io_request *request, zero_error *error)
{
    if (!request->started)
        return ZERO_OK;
    zero_status status = ZERO_OK;
    double limit = io->options.timeout, begun = zr_clock_seconds();
    pthread_mutex_lock(&io->lock);
    while (request->unfinished && status == ZERO_OK) {
        double since = ZR_MAX(begun, io->ended_at);
        if (limit > 0 && zr_clock_seconds() >= since + limit)
            status = refuse_to_wait(io, request, error);
        else if (limit > 0)
            await_request(io, request, since + limit);
        else
            pthread_cond_wait(&io->ended, &io->lock);
    }
    if (!request->unfinished) {
        request->started = false;
        status = request->status;
    }
    pthread_mutex_unlock(&io->lock);
    if (status != ZERO_OK && !request->started)
        return zr_fail(error, status, "%s", request->message);
    return status;
}

zr_io_counts zr_io_counted(const zr_io *io)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&io->lock;
    pthread_mutex_lock(lock);
    zr_io_counts counts = io->counts;
    pthread_mutex_unlock(lock);
    return counts;
}
