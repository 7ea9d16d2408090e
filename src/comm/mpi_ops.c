// Operations that exchange messages with every other rank. start() only seals: all ranks wait for
// the same operations in the same order, so the messages of an operation are posted, exchanged and
// complete within its wait, and quiesce has nothing to do.
#include "comm/comm_ops.h"
#include "comm/communicator.h"
#include "comm/mpi_rank.h"
#include "comm/operations.h"

#include <stdio.h>
#include <string.h>

#define MAIL_BYTES (1 << 30) // of one message, because MPI counts with int

typedef struct small_head { // precedes each small operand
    uint64_t check;         // of the operation in which the rank thinks it is
    int64_t step;
} small_head;

zero_status zr_mpi_start(zr_handle *handle, zero_error *error) { return ZERO_OK; }

zero_status zr_mpi_quiesce(zr_window *window, int slot, zero_error *error) { return ZERO_OK; }

static int peer_before(const zero_comm *comm, int i)
{
    return (comm->rank - i + comm->size) % comm->size;
}

static int peer_after(const zero_comm *comm, int i) { return (comm->rank + i) % comm->size; }

// Posts bytes first..first+bytes of every shard: sends each rank its own, and receives ours from
// each rank.
static zero_status post_part(zr_handle *handle, int half, int64_t first, int64_t bytes,
                             zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    zr_mpi_batch *batch = &((zr_mpi *)comm->impl)->batch[half];
    const char *part = handle->window->mine + handle->offset + first;
    for (int i = 1; i < comm->size; i++) {
        int from = peer_before(comm, i), to = peer_after(comm, i);
        ZERO_TRY(
            zr_mpi_irecv(comm, batch, zr_mpi_staging_at(comm, half, from), bytes, from, error));
        ZERO_TRY(
            zr_mpi_isend(comm, batch, part + to * zr_handle_shard_bytes(handle), bytes, to, error));
    }
    return ZERO_OK;
}

static void sum_part(zr_handle *handle, int half, const zr_sum_target *to, int64_t first,
                     int64_t bytes)
{
    const zero_comm *comm = handle->window->comm;
    const void *source[ZERO_MAX_RANKS];
    int64_t elems = handle->bits ? ZR_BLOCK : 1,
            element = zr_operand_bytes(handle, elems); // of that many elements
    zr_sum_target part = *to;
    part.data = (char *)to->data + first / element * elems * (int64_t)zero_dtype_bytes(to->dtype);
    for (int r = 0; r < comm->size; r++)
        source[r] = zr_mpi_staging_at(comm, half, r);
    source[comm->rank] =
        handle->window->mine + handle->offset + comm->rank * zr_handle_shard_bytes(handle) + first;
    zr_handle_sum(handle, &part, source, comm->size, bytes / element * elems);
}

// One half of the staging fills while the other one is summed.
zero_status zr_mpi_reduce_scatter_wait(zr_handle *handle, const zr_sum_target *to,
                                       zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    zr_mpi *mpi = comm->impl;
    if (zr_mpi_takes_two_hops(handle))
        return zr_mpi_reduce_in_two_hops(handle, to, error);
    int64_t step = zr_staging_part(comm->size), n = zr_handle_shard_bytes(handle);
    if (handle->bits) // whole blocks
        step = step / zr_operand_bytes(handle, ZR_BLOCK) * zr_operand_bytes(handle, ZR_BLOCK);
    if (n > 0)
        ZERO_TRY(post_part(handle, 0, 0, ZR_MIN(step, n), error));
    for (int64_t first = 0, half = 0; first < n; first += step, half ^= 1) {
        int64_t next = first + step;
        if (next < n)
            ZERO_TRY(post_part(handle, (int)half ^ 1, next, ZR_MIN(step, n - next), error));
        ZERO_TRY(zr_mpi_await(comm, &mpi->batch[half], "reduce_scatter", zr_mpi_slot_name(handle),
                              error));
        sum_part(handle, (int)half, to, first, ZR_MIN(step, n - first));
    }
    return ZERO_OK;
}

static zero_status check_heads(zero_comm *comm, const small_head *own, const char *doing,
                               zero_error *error)
{
    zr_mpi_job *job = ((zr_mpi *)comm->impl)->job;
    int other = -1;
    pthread_mutex_lock(&job->lock);
    for (int r = 0; r < comm->size; r++) {
        small_head head;
        memcpy(&head, zr_mpi_staging_at(comm, 0, r), sizeof head);
        int rank = zr_comm_job_rank(comm, r);
        job->steps[rank] = head.step;
        if (head.check != own->check && other < 0)
            other = rank;
    }
    pthread_mutex_unlock(&job->lock);
    if (other < 0)
        return ZERO_OK;
    char where[ZERO_MESSAGE_BYTES];
    zr_comm_where(comm, doing, NULL, where, sizeof where);
    return zr_fail(error, ZERO_ERR_INTERNAL, "%s: rank %d runs another operation or another size",
                   where, other);
}

// Exchanges every rank's `bytes` of data through the staging, each after its head.
static zero_status exchange_small(zero_comm *comm, const void *data, int64_t bytes, uint64_t check,
                                  const char *doing, zero_error *error)
{
    zr_mpi_batch *batch = &((zr_mpi *)comm->impl)->batch[0];
    small_head head = {.check = check, .step = comm->job->step};
    int64_t room = zr_staging_part(comm->size);
    char *own = zr_mpi_staging_at(comm, 0, comm->rank);
    memcpy(own, &head, sizeof head);
    if (bytes > 0)
        memcpy(own + sizeof head, data, (size_t)bytes);
    for (int i = 1; i < comm->size; i++) {
        int from = peer_before(comm, i), to = peer_after(comm, i);
        ZERO_TRY(zr_mpi_irecv(comm, batch, zr_mpi_staging_at(comm, 0, from), room, from, error));
        ZERO_TRY(zr_mpi_isend(comm, batch, own, (int64_t)sizeof head + bytes, to, error));
    }
    ZERO_TRY(zr_mpi_await(comm, batch, doing, NULL, error));
    return check_heads(comm, &head, doing, error);
}

zero_status zr_mpi_all_reduce_small(zero_comm *comm, void *data, int64_t count, zero_dtype dtype,
                                    zr_reduction how, zero_error *error)
{
    int64_t size = (int64_t)zero_dtype_bytes(dtype),
            room = zr_staging_part(comm->size) - (int64_t)sizeof(small_head);
    for (int64_t first = 0; first < count; first += room / size) {
        int64_t n = ZR_MIN(room / size, count - first);
        char *part = (char *)data + first * size;
        uint64_t check = (uint64_t)n << 8 | (uint64_t)(1 + (int)how + 3 * (int)dtype);
        ZERO_TRY(exchange_small(comm, part, n * size, check, "small all_reduce", error));
        memcpy(part, zr_mpi_staging_at(comm, 0, 0) + sizeof(small_head), (size_t)(n * size));
        for (int r = 1; r < comm->size; r++)
            zr_comm_combine(part, zr_mpi_staging_at(comm, 0, r) + sizeof(small_head), n, dtype,
                            how);
    }
    return ZERO_OK;
}

zero_status zr_mpi_barrier(zero_comm *comm, zero_error *error)
{
    return exchange_small(comm, NULL, 0, 0, "barrier", error);
}

zero_status zr_mpi_send(zero_comm *comm, const void *data, int64_t bytes, int to, zero_error *error)
{
    zr_mpi_batch *batch = &((zr_mpi *)comm->impl)->batch[0];
    for (int64_t at = 0; at < bytes; at += MAIL_BYTES) {
        ZERO_TRY(zr_mpi_isend(comm, batch, (const char *)data + at, ZR_MIN(MAIL_BYTES, bytes - at),
                              to, error));
        ZERO_TRY(zr_mpi_await(comm, batch, "send", NULL, error));
    }
    return ZERO_OK;
}

zero_status zr_mpi_recv(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error)
{
    zr_mpi_batch *batch = &((zr_mpi *)comm->impl)->batch[0];
    for (int64_t at = 0; at < bytes; at += MAIL_BYTES) {
        ZERO_TRY(zr_mpi_irecv(comm, batch, (char *)data + at, ZR_MIN(MAIL_BYTES, bytes - at), from,
                              error));
        ZERO_TRY(zr_mpi_await(comm, batch, "recv", NULL, error));
    }
    return ZERO_OK;
}
