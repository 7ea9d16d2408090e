// The reduce-scatter of codes in two hops (qgZ, section 3.3 of arXiv 2306.10209), where machines
// have equal numbers of ranks, several each:
//
//   in a machine      the rank of place l sums, for each machine, what its ranks contribute to the
//                     shard of that machine's rank of place l, and rounds the sum to codes again
//   between machines  the ranks of place l exchange these sums, and each sums those of its shard
//
// So each machine sends a shard once to each other machine, not once for each of its ranks. A shard
// travels in parts: while the sums of one are between machines, the next one travels in the
// machine.
//
//   staging, half 0   (place, machine) contributions from this machine
//   half 1            (machine) own sums as codes; (machine) sums from other machines
#include "comm/mpi_rank.h"
#include "comm/operations.h"

typedef struct hops {
    zr_handle *handle;
    zero_comm *comm;
    zr_mpi *mpi;
    const zr_mpi_machines *machines;
    const zr_sum_target *to;
} hops;

bool zr_mpi_takes_two_hops(const zr_handle *handle)
{
    const zero_comm *comm = handle->window->comm;
    const zr_mpi *mpi = comm->impl;
    return handle->bits && comm->even && mpi->machines.count > 1 && mpi->machines.locals > 1;
}

static int rank_at(const hops *h, int machine, int place)
{
    return h->machines->ranks[h->machines->first[machine] + place];
}

// Returns the own contribution to the shard of a rank.
static const char *contribution_at(const hops *h, int rank, int64_t first)
{
    return h->handle->window->mine + h->handle->offset + rank * zr_handle_shard_bytes(h->handle) +
           first;
}

static zero_status post_in_machine(const hops *h, int64_t first, int64_t bytes, zero_error *error)
{
    const zr_mpi_machines *m = h->machines;
    for (int i = 1; i < m->locals; i++) {
        int from = (m->local - i + m->locals) % m->locals, to = (m->local + i) % m->locals;
        for (int k = 0; k < m->count; k++) {
            ZERO_TRY(zr_mpi_irecv(h->comm, &h->mpi->batch[0],
                                  zr_mpi_staging_at(h->comm, 0, from * m->count + k), bytes,
                                  rank_at(h, m->own, from), error));
            ZERO_TRY(zr_mpi_isend(h->comm, &h->mpi->batch[0],
                                  contribution_at(h, rank_at(h, k, to), first), bytes,
                                  rank_at(h, m->own, to), error));
        }
    }
    return ZERO_OK;
}

static int64_t elements_of(const hops *h, int64_t bytes)
{
    return bytes / zr_block_stride(h->handle->bits) * ZR_BLOCK;
}

static void sum_in_machine(const hops *h, int64_t first, int64_t bytes)
{
    const zr_mpi_machines *m = h->machines;
    const void *source[ZERO_MAX_RANKS];
    for (int k = 0; k < m->count; k++) {
        const zr_sum_target codes = {.data = zr_mpi_staging_at(h->comm, 1, k),
                                     .bits = h->handle->bits};
        for (int l = 0; l < m->locals; l++)
            source[l] = l == m->local ? contribution_at(h, rank_at(h, k, l), first)
                                      : zr_mpi_staging_at(h->comm, 0, l * m->count + k);
        zr_handle_sum(h->handle, &codes, source, m->locals, elements_of(h, bytes));
    }
}

static zero_status post_between_machines(const hops *h, int64_t bytes, zero_error *error)
{
    const zr_mpi_machines *m = h->machines;
    for (int i = 1; i < m->count; i++) {
        int from = (m->own - i + m->count) % m->count, to = (m->own + i) % m->count;
        ZERO_TRY(zr_mpi_irecv(h->comm, &h->mpi->batch[1],
                              zr_mpi_staging_at(h->comm, 1, m->count + from), bytes,
                              rank_at(h, from, m->local), error));
        ZERO_TRY(zr_mpi_isend(h->comm, &h->mpi->batch[1], zr_mpi_staging_at(h->comm, 1, to), bytes,
                              rank_at(h, to, m->local), error));
    }
    return ZERO_OK;
}

// Waits for the sums of a part from other machines; `first`: its first byte of the shard.
static zero_status end_between_machines(const hops *h, int64_t first, int64_t bytes,
                                        zero_error *error)
{
    const zr_mpi_machines *m = h->machines;
    const void *source[ZERO_MAX_RANKS];
    zr_sum_target part = *h->to;
    ZERO_TRY(zr_mpi_await(h->comm, &h->mpi->batch[1], "reduce_scatter", zr_mpi_slot_name(h->handle),
                          error));
    part.data =
        (char *)h->to->data + elements_of(h, first) * (int64_t)zero_dtype_bytes(h->to->dtype);
    for (int k = 0; k < m->count; k++)
        source[k] = zr_mpi_staging_at(h->comm, 1, k == m->own ? k : m->count + k);
    zr_handle_sum(h->handle, &part, source, m->count, elements_of(h, bytes));
    return ZERO_OK;
}

zero_status zr_mpi_reduce_in_two_hops(zr_handle *handle, const zr_sum_target *to, zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    zr_mpi *mpi = comm->impl;
    const hops h = {handle, comm, mpi, &mpi->machines, to};
    int64_t stride = zr_block_stride(handle->bits),
            step = zr_staging_part(comm->size) / stride * stride, n = zr_handle_shard_bytes(handle);
    if (n == 0)
        return ZERO_OK;
    ZERO_TRY(post_in_machine(&h, 0, ZR_MIN(step, n), error));
    for (int64_t first = 0; first < n; first += step) {
        int64_t bytes = ZR_MIN(step, n - first), next = first + step;
        ZERO_TRY(
            zr_mpi_await(comm, &mpi->batch[0], "reduce_scatter", zr_mpi_slot_name(handle), error));
        if (first > 0)
            ZERO_TRY(end_between_machines(&h, first - step, step, error));
        sum_in_machine(&h, first, bytes);
        ZERO_TRY(post_between_machines(&h, bytes, error));
        if (next < n)
            ZERO_TRY(post_in_machine(&h, next, ZR_MIN(step, n - next), error));
    }
    int64_t last = (n - 1) / step * step;
    return end_between_machines(&h, last, n - last, error);
}
