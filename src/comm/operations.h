// What the files of this room share about operations: no rank's failure leaves another one waiting,
// and operations are carried out in the same way on any thread.
#ifndef ZR_COMM_OPERATIONS_H
#define ZR_COMM_OPERATIONS_H

#include "base/blocks.h"
#include "base/recorder.h"
#include "base/traffic.h"
#include "comm/comm_ops.h"
#include "compute/compute.h"
#include "compute/tree_sum.h"

#include <stdio.h>

// An error object for a caller that passes none, so that the other ranks still get the message.
#define ZR_OR_OWN_ERROR(error) ((error) ? (error) : &(zero_error){0})

// Aborts the job if `status` is a failure, so that no other rank waits for this one. Returns
// status.
static inline zero_status zr_comm_abort_on_failure(zero_comm *comm, zero_status status,
                                                   const zero_error *error)
{
    if (status != ZERO_OK)
        comm->job->ops->abort(comm->job, error->message);
    return status;
}

// Writes how a message of this rank begins: "rank 3, reduce_scatter of h.3, step 5", or, in a
// group, "rank 3, reduce_scatter of h.3 (data group of 2), step 5". slot may be NULL.
static inline void zr_comm_where(const zero_comm *comm, const char *doing, const char *slot,
                                 char *out, size_t size)
{
    char group[64] = "";
    if (comm->group)
        snprintf(group, sizeof group, " (%s group of %d)", comm->group, comm->size);
    snprintf(out, size, "rank %d, %s%s%s%s, step %lld", zr_comm_job_rank(comm, comm->rank), doing,
             slot ? " of " : "", slot ? slot : "", group, (long long)comm->job->step);
}

// Returns what a group's communicator has in all implementations, which add their own.
static inline zero_comm zr_comm_of_group(zero_comm *job, const zr_comm_group *group)
{
    return (zero_comm){.job = job,
                       .group = group->name,
                       .members = group->members,
                       .rank = group->rank,
                       .size = group->size,
                       .timeout = job->timeout,
                       .threads = job->threads,
                       .backend = job->backend};
}

// Counts a message of the current pass, of `elems` elements (channels: bytes). bytes: those
// that this rank fetched or, in a channel, sent; network: those that came from other machines.
static inline void zr_comm_count(zero_comm *comm, zero_comm_op op, int slot, int64_t elems,
                                 int64_t bytes, int64_t network)
{
    comm->message_hash = zr_message_fold(comm->message_hash, op, slot, elems);
    comm->message_count++;
    comm->traffic.calls[op]++;
    comm->traffic.bytes[op] += bytes;
    comm->traffic.network[op] += network;
}

// Returns the bytes of elements of an operand, whole blocks of them where there are blocks.
static inline int64_t zr_operand_bytes(const zr_handle *handle, int64_t elems)
{
    return handle->bits ? zr_block_bytes(handle->bits, elems)
                        : elems * (int64_t)zero_dtype_bytes(handle->dtype);
}

static inline int64_t zr_handle_shard_bytes(const zr_handle *handle)
{
    return zr_operand_bytes(handle, handle->shard_elems);
}

// Returns the bytes from one shard to the next in the window. Those of an all-gather are widened.
static inline int64_t zr_handle_stride(const zr_handle *handle)
{
    return handle->op == ZERO_COMM_all_gather
               ? handle->shard_elems * (int64_t)zero_dtype_bytes(handle->dtype)
               : zr_handle_shard_bytes(handle);
}

// Runs an operation on shards: on the queue of the communicator, if it has one, else at once.
static inline void zr_comm_run(zero_comm *comm, zr_op op)
{
    zr_queue host = {.backend = comm->backend, .threads = ZR_MAX(comm->threads, 1)};
    zr_run(comm->queue ? comm->queue : &host, op);
}

// Puts the own shard to its place, from where it is sent or read at once:
// by the queue that made it.
static inline void zr_comm_put_own(zero_comm *comm, void *place, const void *own, int64_t bytes)
{
    const zr_op op = zr_op_copy(&(zr_bytes){bytes}, own, place);
    if (comm->compute)
        zr_run(comm->compute, op);
    else
        zr_comm_run(comm, op);
}

// Returns whether operands are sealed by the comm thread, once their queue has made them.
static inline bool zr_comm_seals_late(const zero_comm *comm)
{
    return comm->compute && comm->queue != comm->compute;
}
// Ends what the comm thread does, and the queues of a far device, before memory is released that
// they, and peers, may still use: also after a failure.
void zr_comm_end_work(zero_comm *comm);
// Closes the queue of a communicator on a far device.
void zr_comm_leave_queue(zero_comm *comm);

// Reserves and releases a region of a window: of the queue's device, where there is a queue.
zero_status zr_comm_region_create(zero_comm *comm, int64_t bytes, char **out, zero_error *error);
void zr_comm_region_destroy(zero_comm *comm, char *at, int64_t bytes);

static inline void zr_comm_copy(zero_comm *comm, void *to, const void *from, int64_t bytes)
{
    if (bytes > 0) // a shard without elements may have no address
        zr_comm_run(comm, zr_op_copy(&(zr_bytes){.bytes = bytes, .streams = true}, from, to));
}

// Returns whether the ranks of a machine map one region. If they cannot, each rank has a region of
// its own for a machine window.
static inline bool zr_window_is_shared_by_machine(const zr_window *window)
{
    return window->kind == ZR_WINDOW_MACHINE && window->comm->machine_ranks > 1;
}

// Puts a shard, in the form in which it travels, to its place in the window. Codes may lie at the
// end of that place.
static inline void zr_handle_put(const zr_handle *handle, void *place, const void *shard)
{
    zero_comm *comm = handle->window->comm;
    if (handle->bits)
        zr_widen_blocks(handle->bits, shard, handle->shard_elems, handle->dtype, place,
                        comm->threads);
    else
        zr_comm_copy(comm, place, shard, zr_handle_shard_bytes(handle));
}

// Sums the sources of a reduce-scatter, or `count` elements of each.
static inline void zr_handle_sum(const zr_handle *handle, const zr_sum_target *to,
                                 const void *const *source, int ranks, int64_t count)
{
    const zr_tree tree = {.dtype = handle->dtype,
                          .source_bits = handle->bits,
                          .ranks = ranks,
                          .count = count,
                          .to = *to};
    zr_comm_run(handle->window->comm, zr_op_tree_sum(&tree, source, to->data));
}

// Carries out what was started, on either thread.
static inline zero_status zr_comm_carry_out(zr_handle *handle, zero_error *error)
{
    const zr_comm_ops *ops = handle->window->comm->ops;
    return handle->op == ZERO_COMM_all_gather
               ? ops->all_gather_wait(handle, error)
               : ops->reduce_scatter_wait(handle, &handle->to, error);
}

// Returns where a wait inside of an operation is recorded: nowhere under a comm thread, because
// that is another thread than the recorder's.
static inline zr_recorder *zr_wait_recorder(const zero_comm *comm)
{
    return comm->comm_thread ? NULL : comm->recorder;
}

#endif
