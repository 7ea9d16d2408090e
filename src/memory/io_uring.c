// Lanes of io_uring: each has one thread and one ring, with queue_depth transfers under way.
//
//   take ──> ready ──> ring ──> moved ──> sums ──> end_transfer
//              ^                  │         ^
//              └── again <────────┘         └── of a write: as soon as it is in the ring;
//                                               of a read: compared before it ends
//
// The disk comes first: a round of a lane fills the ring, submits, reaps, and computes one
// checksum. It waits only if there is neither a checksum to compute nor a transfer to repeat.
// So checksums overlap with transfers.
//
// Invariant: `in_flight` transfers are in the ring (submitted or not); `held` transfers were taken
// and have not ended. A read of the eventfd `wake` is always in the ring too; through it
// zr_io_start ends a lane's wait. A transfer is in at most one list, so a write that has to be
// repeated is summed before that.
//
// If the kernel refuses io_uring_enter for good, the lane is broken: its transfers fail, and those
// that the kernel holds are reaped without io_uring_enter.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "memory/io_internal.h"

#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LONGEST_PART ((size_t)1 << 30) // of a registered buffer
#define MOST_PARTS 1024
#define FIRST_PAUSE 5e-5 // seconds, when the kernel takes nothing; doubles
#define LONGEST_PAUSE 5e-3

typedef struct lane {
    zr_io *io;
    struct io_uring ring;
    pthread_t thread;
    int wake;       // eventfd
    uint64_t woken; // where the ring reads `wake` to
    bool asleep;    // under the engine's lock: there was nothing to take, zr_io_start must wake it
    bool opened, running, files_registered;
    int in_flight, held;
    int batch; // transfers that may still begin before all in flight have ended
    zr_io_list ready, again, sums;
    int broken;               // an errno: io_uring_enter no longer works
    double vain_since, pause; // seconds; pause 0: the kernel took what it was last given
} lane;

typedef struct ring_lanes {
    lane *lanes; // (count)
    int count;
    struct iovec *parts; // (part_count) of the buffers, as they are registered
    int part_count;      // 0: no buffer is registered
} ring_lanes;

// Returns the registered part in which a transfer lies, or -1.
static int find_part(const lane *lane, const char *data, int64_t bytes)
{
    const ring_lanes *all = lane->io->lanes;
    for (int i = 0; i < all->part_count; i++) {
        const char *base = all->parts[i].iov_base;
        if (data >= base && data + bytes <= base + all->parts[i].iov_len)
            return i;
    }
    return -1;
}

static void arm_wake(lane *lane)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&lane->ring);
    io_uring_prep_read(sqe, lane->wake, &lane->woken, sizeof lane->woken, 0);
    io_uring_sqe_set_data(sqe, NULL);
}

static void queue_transfer(lane *lane, zr_io_transfer *transfer, int64_t bytes)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&lane->ring);
    char *data = transfer->data + transfer->done;
    int64_t offset = transfer->offset + transfer->done;
    int part = find_part(lane, data, bytes),
        file = lane->files_registered ? transfer->file : transfer->fd;
    if (transfer->write && part >= 0)
        io_uring_prep_write_fixed(sqe, file, data, (unsigned)bytes, (uint64_t)offset, part);
    else if (transfer->write)
        io_uring_prep_write(sqe, file, data, (unsigned)bytes, (uint64_t)offset);
    else if (part >= 0)
        io_uring_prep_read_fixed(sqe, file, data, (unsigned)bytes, (uint64_t)offset, part);
    else
        io_uring_prep_read(sqe, file, data, (unsigned)bytes, (uint64_t)offset);
    if (lane->files_registered)
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data(sqe, transfer);
}

static void end_transfer(lane *lane, zr_io_transfer *transfer)
{
    lane->held--;
    pthread_mutex_lock(&lane->io->lock);
    zr_io_end(lane->io, transfer);
    pthread_mutex_unlock(&lane->io->lock);
}

static void checksum_transfer(lane *lane, zr_io_transfer *transfer)
{
    zr_io_sum(lane->io, transfer);
    transfer->summed = true;
}

// Takes in a transfer's result. A failure ends the transfer at once, so that no more of its request
// begins.
static void record_result(lane *lane, zr_io_transfer *transfer, int64_t result)
{
    lane->in_flight--;
    transfer->moved = zr_io_moved(lane->io, transfer, result);
    bool failed = transfer->status != ZERO_OK,
         unsummed_write = transfer->write && !transfer->summed;
    if (unsummed_write && (failed || !transfer->moved))
        zr_io_remove(&lane->sums, transfer);
    if (unsummed_write && !transfer->moved)
        checksum_transfer(lane, transfer);
    if (!transfer->moved)
        zr_io_push(&lane->again, transfer);
    else if (failed || transfer->summed)
        end_transfer(lane, transfer);
    else if (!transfer->write)
        zr_io_push(&lane->sums, transfer);
}

static void checksum_next(lane *lane)
{
    zr_io_transfer *transfer = zr_io_pop(&lane->sums);
    if (!transfer)
        return;
    checksum_transfer(lane, transfer);
    if (transfer->moved)
        end_transfer(lane, transfer);
}

static void break_lane(lane *lane, int reason)
{
    if (lane->broken)
        return;
    lane->broken = reason;
    const struct io_uring_sq *sq = &lane->ring.sq;
    for (unsigned at = *sq->khead; at != sq->sqe_tail; at++) { // the kernel has not taken these
        zr_io_transfer *transfer =
            (zr_io_transfer *)(uintptr_t)sq->sqes[at & *sq->kring_mask].user_data;
        if (transfer)
            record_result(lane, transfer, -reason);
    }
}

static int submit_ring(lane *lane, bool wait)
{
    const zr_io_faults *faults = lane->io->options.faults;
    int reason = faults && faults->enter ? faults->enter(faults->user) : 0;
    return reason ? -reason : io_uring_submit_and_wait(&lane->ring, wait);
}

static bool is_patient(const lane *lane, double now)
{
    double timeout = lane->io->options.timeout;
    bool too_long = timeout > 0 && now - lane->vain_since > timeout / 2;
    return !atomic_load(&lane->io->ending) && !too_long;
}

// If the kernel is short of a resource, the lane tries again after growing pauses; if the kernel
// refuses for good, the lane is broken.
static void handle_refusal(lane *lane, int reason)
{
    double now = zr_clock_seconds();
    bool refused = reason != EAGAIN && reason != EBUSY;
    if (!(lane->pause > 0)) {
        lane->vain_since = now;
        lane->pause = FIRST_PAUSE;
    }
    if (refused || !is_patient(lane, now)) {
        break_lane(lane, refused ? reason : EBUSY);
    } else if (!io_uring_cq_ready(&lane->ring)) {
        zr_sleep_seconds(lane->pause);
        lane->pause = ZR_MIN(2 * lane->pause, LONGEST_PAUSE);
    }
}

// Submits what is prepared, and waits for a result if `wait`.
static void submit_or_recover(lane *lane, bool wait)
{
    if (lane->broken || (!wait && !io_uring_sq_ready(&lane->ring)))
        return;
    int result = submit_ring(lane, wait);
    if (result >= 0 || result == -EINTR)
        lane->pause = 0;
    else
        handle_refusal(lane, -result);
}

static bool may_begin(lane *lane)
{
    const zr_io_options *options = &lane->io->options;
    if (lane->in_flight == 0)
        lane->batch = options->queue_depth;
    return lane->in_flight < options->queue_depth && (options->overlap_events || lane->batch > 0);
}

static zr_io_transfer *next_transfer(lane *lane)
{
    if (!may_begin(lane))
        return NULL;
    zr_io_transfer *transfer = zr_io_pop(&lane->ready);
    if (transfer || lane->held == zr_io_transfers_of_a_lane(&lane->io->options))
        return transfer;
    pthread_mutex_lock(&lane->io->lock);
    transfer = zr_io_take(lane->io);
    lane->asleep = !transfer;
    pthread_mutex_unlock(&lane->io->lock);
    if (!transfer)
        return NULL;
    lane->held++;
    if (transfer->write)
        zr_io_push(&lane->sums, transfer);
    return transfer;
}

// Fills the ring. Transfers to ask for again come before new ones, once a round.
static void fill_ring(lane *lane)
{
    for (zr_io_transfer *transfer; (transfer = zr_io_pop(&lane->again));)
        zr_io_push(&lane->ready, transfer);
    for (zr_io_transfer *transfer; (transfer = next_transfer(lane));) {
        lane->in_flight++;
        lane->batch--;
        int64_t bytes = lane->broken ? -lane->broken : zr_io_next_bytes(lane->io, transfer);
        if (bytes <= 0)
            record_result(lane, transfer, bytes);
        else
            queue_transfer(lane, transfer, bytes);
        if (lane->io->options.single_submit)
            submit_or_recover(lane, false);
    }
}

static void reap_completions(lane *lane)
{
    struct io_uring_cqe *cqe = NULL;
    while (io_uring_peek_cqe(&lane->ring, &cqe) == 0) {
        zr_io_transfer *transfer = io_uring_cqe_get_data(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&lane->ring, cqe);
        if (transfer)
            record_result(lane, transfer, result);
        else if (result < 0 && result != -EINTR && result != -EAGAIN)
            break_lane(lane, -result);
        else if (!lane->broken && !atomic_load(&lane->io->ending))
            arm_wake(lane);
    }
}

// Waits for a broken lane, which cannot wait in the kernel.
static void wait_broken(lane *lane)
{
    if (lane->in_flight) {
        zr_sleep_seconds(LONGEST_PAUSE);
        return;
    }
    pthread_mutex_lock(&lane->io->lock);
    while (lane->asleep && !atomic_load(&lane->io->ending))
        pthread_cond_wait(&lane->io->work, &lane->io->lock);
    pthread_mutex_unlock(&lane->io->lock);
}

static void *serve_lane(void *argument)
{
    lane *self = argument;
    arm_wake(self);
    while (!atomic_load(&self->io->ending) || self->held) {
        fill_ring(self);
        bool idle = !self->sums.first && !self->again.first;
        if (idle && self->broken)
            wait_broken(self);
        else
            submit_or_recover(self, idle);
        reap_completions(self);
        checksum_next(self);
    }
    return NULL;
}

// Returns an errno, or 0.
static int open_ring(lane *lane)
{
    const zr_io_options *options = &lane->io->options;
    const zr_io_faults *faults = options->faults;
    int reason = faults && faults->setup ? faults->setup(faults->user) : 0;
    // One entry is for the read of `wake`.
    if (!reason)
        reason = -io_uring_queue_init((unsigned)options->queue_depth + 2, &lane->ring, 0);
    if (reason)
        return reason;
    lane->opened = true;
    // This feature came with the plain reads and writes that are used here.
    if (!(lane->ring.features & IORING_FEAT_RW_CUR_POS))
        return ENOSYS;
    lane->wake = eventfd(0, EFD_CLOEXEC);
    if (lane->wake < 0)
        return errno;
    lane->files_registered =
        lane->io->file_count &&
        !io_uring_register_files(&lane->ring, lane->io->files, (unsigned)lane->io->file_count);
    return 0;
}

static zero_status cut_buffers(zr_io *io, ring_lanes *all, zero_error *error)
{
    all->parts = zr_alloc(MOST_PARTS * sizeof *all->parts, error);
    if (!all->parts)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < io->options.buffer_count; i++) {
        char *base = io->options.buffers[i].base;
        size_t left = io->options.buffers[i].bytes;
        for (size_t bytes; left && all->part_count < MOST_PARTS; base += bytes, left -= bytes) {
            bytes = ZR_MIN(left, LONGEST_PART);
            all->parts[all->part_count++] = (struct iovec){.iov_base = base, .iov_len = bytes};
        }
    }
    return ZERO_OK;
}

// Registers the buffers with all rings; if one refuses, with no ring.
static void register_buffers(zr_io *io, ring_lanes *all)
{
    int reason = 0, done = 0;
    char text[64];
    if (!all->part_count)
        return;
    while (!reason && done < all->count)
        reason = -io_uring_register_buffers(&all->lanes[done++].ring, all->parts,
                                            (unsigned)all->part_count);
    if (!reason) {
        snprintf(io->extras, sizeof io->extras, ", registered buffers");
        return;
    }
    for (int i = 0; i < done - 1; i++)
        io_uring_unregister_buffers(&all->lanes[i].ring);
    all->part_count = 0;
    snprintf(io->extras, sizeof io->extras, ", buffers not registered (%s)",
             strerror_r(reason, text, sizeof text));
}

static zero_status create_lanes(zr_io *io, int *refused, zero_error *error)
{
    ring_lanes *all = zr_alloc(sizeof *all, error);
    *refused = 0;
    io->lanes = all;
    if (!all)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(cut_buffers(io, all, error));
    all->lanes = zr_alloc((size_t)io->options.lanes * sizeof *all->lanes, error);
    if (!all->lanes)
        return ZERO_ERR_MEMORY;
    for (; all->count < io->options.lanes; all->count++) {
        lane *lane = &all->lanes[all->count];
        lane->io = io;
        lane->wake = -1;
        *refused = open_ring(lane);
        if (*refused) {
            all->count++;
            return zr_fail_errno(error, ZERO_ERR_UNSUPPORTED, *refused, "cannot open an io_uring");
        }
    }
    register_buffers(io, all);
    for (int i = 0; i < all->count; i++) {
        int reason = zr_io_start_thread(&all->lanes[i].thread, serve_lane, &all->lanes[i]);
        if (reason)
            return zr_fail_errno(error, ZERO_ERR_MEMORY, reason,
                                 "cannot start the thread of lane %d of %d", i + 1, all->count);
        all->lanes[i].running = true;
    }
    snprintf(io->kind, sizeof io->kind, "io_uring");
    return ZERO_OK;
}

static void wake_lanes(zr_io *io)
{
    ring_lanes *all = io->lanes;
    for (int i = 0; i < all->count; i++) {
        lane *lane = &all->lanes[i];
        if (!lane->asleep && !atomic_load(&io->ending))
            continue;
        lane->asleep = false;
        (void)eventfd_write(lane->wake, 1);
    }
    pthread_cond_broadcast(&io->work);
}

// Closes a ring. Registrations are undone first, because the kernel cleans up a closed ring later,
// and until then files keep their space.
static void close_ring(lane *lane, bool buffers_registered)
{
    if (lane->opened && lane->files_registered)
        io_uring_unregister_files(&lane->ring);
    if (lane->opened && buffers_registered)
        io_uring_unregister_buffers(&lane->ring);
    if (lane->opened)
        io_uring_queue_exit(&lane->ring);
    if (lane->wake >= 0)
        close(lane->wake);
}

static void destroy_lanes(zr_io *io)
{
    ring_lanes *all = io->lanes;
    if (!all)
        return;
    for (int i = 0; i < all->count; i++)
        if (all->lanes[i].running)
            pthread_join(all->lanes[i].thread, NULL);
    for (int i = 0; i < all->count; i++)
        close_ring(&all->lanes[i], all->part_count > 0);
    zr_free(all->parts);
    zr_free(all->lanes);
    zr_free(all);
    io->lanes = NULL;
}

const zr_io_ops zr_io_uring = {
    .name = "io_uring",
    .create = create_lanes,
    .wake = wake_lanes,
    .destroy = destroy_lanes,
};
