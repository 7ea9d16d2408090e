// Lanes of pread and pwrite: queue_depth threads for each lane, each with one transfer.
#include "base/alloc.h"
#include "memory/io_internal.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_THREADS 256

typedef struct lane { // protected by the engine's lock
    int under_way;
    int batch; // transfers that may still begin before all under way have ended
} lane;

typedef struct lane_thread {
    zr_io *io;
    lane *lane;
    pthread_t thread;
} lane_thread;

typedef struct thread_lanes {
    lane *lanes;          // (lane_count)
    lane_thread *threads; // (count)
    int count;
} thread_lanes;

static zr_io_transfer *take_transfer(zr_io *io, lane *lane)
{
    if (lane->under_way == 0)
        lane->batch = io->options.queue_depth;
    if (!io->options.overlap_events && lane->batch == 0)
        return NULL;
    lane->under_way++; // this comes before the lock may be released
    lane->batch--;
    zr_io_transfer *transfer = zr_io_take(io);
    if (!transfer) {
        lane->under_way--;
        lane->batch++;
    }
    return transfer;
}

static void transfer_whole(zr_io *io, zr_io_transfer *transfer)
{
    int64_t result = 0;
    if (transfer->write)
        zr_io_sum(io, transfer);
    do {
        int64_t bytes = zr_io_next_bytes(io, transfer);
        char *data = transfer->data + transfer->done;
        int64_t offset = transfer->offset + transfer->done;
        if (bytes <= 0)
            result = bytes;
        else if (transfer->write)
            result = pwrite(transfer->fd, data, (size_t)bytes, offset);
        else
            result = pread(transfer->fd, data, (size_t)bytes, offset);
        if (bytes > 0 && result < 0)
            result = -errno;
    } while (!zr_io_moved(io, transfer, result));
    if (!transfer->write && transfer->status == ZERO_OK)
        zr_io_sum(io, transfer);
}

static void *serve_lane(void *argument)
{
    lane_thread *self = argument;
    zr_io *io = self->io;
    pthread_mutex_lock(&io->lock);
    for (;;) {
        zr_io_transfer *transfer = take_transfer(io, self->lane);
        if (!transfer && atomic_load(&io->ending))
            break;
        if (!transfer) {
            pthread_cond_wait(&io->work, &io->lock);
            continue;
        }
        pthread_mutex_unlock(&io->lock);
        transfer_whole(io, transfer);
        pthread_mutex_lock(&io->lock);
        zr_io_end(io, transfer);
        if (--self->lane->under_way == 0 && !io->options.overlap_events)
            pthread_cond_broadcast(&io->work);
    }
    pthread_mutex_unlock(&io->lock);
    return NULL;
}

static zero_status create_lanes(zr_io *io, int *refused, zero_error *error)
{
    int depth = io->options.queue_depth, count = ZR_MIN(io->options.lanes * depth, MOST_THREADS),
        reason = 0;
    thread_lanes *all = zr_alloc(sizeof *all, error);
    *refused = 0;
    io->lanes = all;
    if (!all)
        return ZERO_ERR_MEMORY;
    all->lanes = zr_alloc((size_t)io->options.lanes * sizeof *all->lanes, error);
    all->threads = all->lanes ? zr_alloc((size_t)count * sizeof *all->threads, error) : NULL;
    if (!all->threads)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < count; i++) {
        all->threads[i] = (lane_thread){.io = io, .lane = &all->lanes[i / depth]};
        reason = zr_io_start_thread(&all->threads[i].thread, serve_lane, &all->threads[i]);
        if (reason)
            return zr_fail_errno(error, ZERO_ERR_MEMORY, reason,
                                 "cannot start thread %d of %d for reading and writing", i + 1,
                                 count);
        all->count++;
    }
    snprintf(io->kind, sizeof io->kind, "%d thread%s with pread and pwrite", count,
             count == 1 ? "" : "s");
    return ZERO_OK;
}

static void wake_lanes(zr_io *io) { pthread_cond_broadcast(&io->work); }

static void destroy_lanes(zr_io *io)
{
    thread_lanes *all = io->lanes;
    if (!all)
        return;
    for (int i = 0; i < all->count; i++)
        pthread_join(all->threads[i].thread, NULL);
    zr_free(all->threads);
    zr_free(all->lanes);
    zr_free(all);
    io->lanes = NULL;
}

const zr_io_ops zr_io_threads = {
    .name = "threads",
    .create = create_lanes,
    .wake = wake_lanes,
    .destroy = destroy_lanes,
};
