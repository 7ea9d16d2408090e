// Operations on private memory, made of each communicator's send, receive and small all-reduce.
#include "comm/communicator.h"

#include "comm/comm_thread.h"
#include "comm/operations.h"

#include <string.h>

#define CHUNK 8192 // floats that a reduction moves at a time; two chunks lie on the stack

static zero_status refuse_peer(const zero_comm *comm, const char *what, int rank, zero_error *error)
{
    char group[64] = "";
    if (comm->group)
        snprintf(group, sizeof group, " of the %s group of %d", comm->group, comm->size);
    return zr_fail(error, ZERO_ERR_INTERNAL, "rank %d of %d: %s rank %d%s",
                   zr_comm_job_rank(comm, comm->rank), comm->job->size, what, rank, group);
}

static bool is_other(const zero_comm *comm, int rank)
{
    return rank >= 0 && rank < comm->size && rank != comm->rank;
}

zero_status zr_comm_send(zero_comm *comm, const void *data, int64_t bytes, int to,
                         zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    zr_comm_thread_drain(comm);
    comm->traffic.calls[ZERO_COMM_send]++;
    zero_status status = is_other(comm, to) ? comm->ops->send(comm, data, bytes, to, error)
                                            : refuse_peer(comm, "cannot send to", to, error);
    return zr_comm_abort_on_failure(comm, status, error);
}

zero_status zr_comm_recv(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    zr_comm_thread_drain(comm);
    comm->traffic.calls[ZERO_COMM_recv]++;
    comm->traffic.bytes[ZERO_COMM_recv] += bytes;
    zero_status status = is_other(comm, from)
                             ? comm->ops->recv(comm, data, bytes, from, error)
                             : refuse_peer(comm, "cannot receive from", from, error);
    return zr_comm_abort_on_failure(comm, status, error);
}

zero_status zr_comm_barrier(zero_comm *comm, zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    zr_comm_thread_drain(comm);
    comm->traffic.calls[ZERO_COMM_barrier]++;
    return zr_comm_abort_on_failure(comm, comm->ops->barrier(comm, error), error);
}

static zero_status check_small(int64_t count, zero_dtype dtype, zero_error *error)
{
    if (dtype != ZERO_F32 && dtype != ZERO_F64 && dtype != ZERO_I64)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "a small all-reduce of dtype %d: f32, f64 and i64 are possible", (int)dtype);
    if (count < 0 || count > ZR_COMM_SMALL_BYTES / (int64_t)zero_dtype_bytes(dtype))
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "a small all-reduce of %lld elements: at most %d bytes are small",
                       (long long)count, ZR_COMM_SMALL_BYTES);
    return ZERO_OK;
}

zero_status zr_comm_all_reduce_small(zero_comm *comm, void *data, int64_t count, zero_dtype dtype,
                                     zr_reduction how, zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    zr_comm_thread_drain(comm);
    comm->traffic.calls[ZERO_COMM_all_reduce]++;
    int64_t begin = zr_recorder_begin(comm->recorder),
            fetched = (comm->size - 1) * count * (int64_t)zero_dtype_bytes(dtype);
    comm->traffic.bytes[ZERO_COMM_all_reduce] += fetched;
    comm->traffic.network[ZERO_COMM_all_reduce] +=
        comm->strangers * count * (int64_t)zero_dtype_bytes(dtype);
    zero_status status = check_small(count, dtype, error);
    if (status == ZERO_OK)
        status = comm->ops->all_reduce_small(comm, data, count, dtype, how, error);
    zr_recorder_add(comm->recorder, ZR_ACTIVITY_all_reduce, begin, fetched, 0, -1);
    return zr_comm_abort_on_failure(comm, status, error);
}

// Broadcasts along a binomial tree over the ranks, which are counted from the root.
static zero_status broadcast(zero_comm *comm, void *data, int64_t bytes, int root,
                             zero_error *error)
{
    int place = (comm->rank - root + comm->size) % comm->size, bit = 1;
    while (bit < comm->size && !(place & bit))
        bit *= 2;
    if (place)
        ZERO_TRY(comm->ops->recv(comm, data, bytes, (place - bit + root) % comm->size, error));
    for (bit /= 2; bit; bit /= 2)
        if (place + bit < comm->size)
            ZERO_TRY(comm->ops->send(comm, data, bytes, (place + bit + root) % comm->size, error));
    return ZERO_OK;
}

zero_status zr_comm_broadcast(zero_comm *comm, void *data, int64_t bytes, int root,
                              zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    zr_comm_thread_drain(comm);
    comm->traffic.calls[ZERO_COMM_broadcast]++;
    int64_t begin = zr_recorder_begin(comm->recorder), fetched = comm->rank == root ? 0 : bytes;
    comm->traffic.bytes[ZERO_COMM_broadcast] += fetched;
    zero_status status = root >= 0 && root < comm->size
                             ? broadcast(comm, data, bytes, root, error)
                             : refuse_peer(comm, "cannot broadcast from", root, error);
    zr_recorder_add(comm->recorder, ZR_ACTIVITY_broadcast, begin, fetched, 0, -1);
    return zr_comm_abort_on_failure(comm, status, error);
}

// Sums ranks lo..lo+n-1 into the work buffer of rank lo, along the tree of zr_tree_sum.
static zero_status reduce_range(zero_comm *comm, float *work, float *other, int64_t count, int lo,
                                int n, zero_error *error)
{
    int half = 1;
    int64_t bytes = count * (int64_t)sizeof *work;
    if (n == 1)
        return ZERO_OK;
    while (2 * half < n)
        half *= 2;
    if (comm->rank < lo + half)
        ZERO_TRY(reduce_range(comm, work, other, count, lo, half, error));
    else
        ZERO_TRY(reduce_range(comm, work, other, count, lo + half, n - half, error));
    if (comm->rank == lo + half)
        return comm->ops->send(comm, work, bytes, lo, error);
    if (comm->rank != lo)
        return ZERO_OK;
    ZERO_TRY(comm->ops->recv(comm, other, bytes, lo + half, error));
    comm->traffic.bytes[ZERO_COMM_reduce] += bytes;
    for (int64_t i = 0; i < count; i++)
        work[i] += other[i];
    return ZERO_OK;
}

static zero_status reduce_chunk(zero_comm *comm, float *data, int64_t count, int root,
                                zero_error *error)
{
    float work[CHUNK], other[CHUNK];
    int64_t bytes = count * (int64_t)sizeof *data;
    memcpy(work, data, (size_t)bytes);
    ZERO_TRY(reduce_range(comm, work, other, count, 0, comm->size, error));
    if (comm->rank == 0 && root != 0)
        return comm->ops->send(comm, work, bytes, root, error);
    if (comm->rank != root)
        return ZERO_OK;
    if (root != 0) {
        comm->traffic.bytes[ZERO_COMM_reduce] += bytes;
        return comm->ops->recv(comm, data, bytes, 0, error);
    }
    memcpy(data, work, (size_t)bytes);
    return ZERO_OK;
}

zero_status zr_comm_reduce(zero_comm *comm, float *data, int64_t count, int root, zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    zr_comm_thread_drain(comm);
    comm->traffic.calls[ZERO_COMM_reduce]++;
    zero_status status = root >= 0 && root < comm->size
                             ? ZERO_OK
                             : refuse_peer(comm, "cannot reduce to", root, error);
    for (int64_t at = 0; at < count && status == ZERO_OK; at += CHUNK)
        status = reduce_chunk(comm, data + at, ZR_MIN(CHUNK, count - at), root, error);
    return zr_comm_abort_on_failure(comm, status, error);
}
