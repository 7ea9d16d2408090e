// The hierarchical all-gather: a shard crosses the network once for each other machine, brought in
// by one of its ranks.
//
//   between machines   the shard of rank r goes to one rank of every other machine
//                      (zr_mpi_fetcher), in turn over r
//   inside a machine   a machine window lies in memory that its ranks share, so that one copy is
//                      enough: they wait for each other before it is overwritten and after it is
//                      complete; elsewhere ranks hand each other what they have
//
// The bits are those of any all-gather, because nothing is computed.
#include "comm/mpi_rank.h"
#include "comm/operations.h"

#include <string.h>

#define PART_BYTES (64 << 20) // of each shard, on their way at one time

typedef struct gathering {
    zero_comm *comm;
    zr_mpi *mpi;
    char *region;         // what travels of shard r: at r * stride
    int64_t stride;       // bytes
    int64_t shard;        // bytes that travel
    int64_t first, bytes; // the part of every shard that is on its way
    const char *slot;
} gathering;

static zero_status receive_shard(const gathering *g, int shard_of, int from, zero_error *error)
{
    return zr_mpi_irecv(g->comm, &g->mpi->batch[0], g->region + shard_of * g->stride + g->first,
                        g->bytes, from, error);
}

static zero_status send_shard(const gathering *g, int shard_of, int to, zero_error *error)
{
    return zr_mpi_isend(g->comm, &g->mpi->batch[0], g->region + shard_of * g->stride + g->first,
                        g->bytes, to, error);
}

// Sends the own shard to a rank of every other machine, and receives from there the shards that
// this rank brings in.
static zero_status exchange_between_machines(const gathering *g, zero_error *error)
{
    const zr_mpi_machines *machines = &g->mpi->machines;
    int self = g->comm->rank;
    for (int i = 1; i < machines->count; i++) {
        int from = (machines->own - i + machines->count) % machines->count,
            to = (machines->own + i) % machines->count;
        for (int j = machines->first[from]; j < machines->first[from + 1]; j++)
            if (zr_mpi_fetcher(g->mpi, machines->own, machines->ranks[j]) == self)
                ZERO_TRY(receive_shard(g, machines->ranks[j], machines->ranks[j], error));
        ZERO_TRY(send_shard(g, self, zr_mpi_fetcher(g->mpi, to, self), error));
    }
    return ZERO_OK;
}

static zero_status exchange_within_machine(const gathering *g, zero_error *error)
{
    for (int i = 1; i < g->mpi->machines.locals; i++) {
        int from = zr_mpi_neighbour(g->mpi, -i), to = zr_mpi_neighbour(g->mpi, i);
        ZERO_TRY(receive_shard(g, from, from, error));
        ZERO_TRY(send_shard(g, g->comm->rank, to, error));
    }
    return ZERO_OK;
}

// Hands on what came from other machines, in the order of the list, which is the same everywhere.
static zero_status hand_on_remote_shards(const gathering *g, zero_error *error)
{
    const zr_mpi_machines *machines = &g->mpi->machines;
    for (int j = 0; j < g->comm->size; j++) {
        int rank = machines->ranks[j];
        if (zr_mpi_is_local(g->mpi, rank))
            continue;
        int fetcher = zr_mpi_fetcher(g->mpi, machines->own, rank);
        if (fetcher != g->comm->rank)
            ZERO_TRY(receive_shard(g, rank, fetcher, error));
        for (int i = 1; fetcher == g->comm->rank && i < machines->locals; i++)
            ZERO_TRY(send_shard(g, rank, zr_mpi_neighbour(g->mpi, i), error));
    }
    return ZERO_OK;
}

static zero_status exchange_part(const gathering *g, bool shared, zero_error *error)
{
    zr_mpi_batch *batch = &g->mpi->batch[0];
    ZERO_TRY(exchange_between_machines(g, error));
    if (!shared)
        ZERO_TRY(exchange_within_machine(g, error));
    ZERO_TRY(zr_mpi_await(g->comm, batch, "all_gather", g->slot, error));
    if (shared || g->mpi->machines.count == 1)
        return ZERO_OK;
    ZERO_TRY(hand_on_remote_shards(g, error));
    return zr_mpi_await(g->comm, batch, "all_gather", g->slot, error);
}

// Widens the codes that this rank has brought to the window, each at the end of its shard's place.
static void widen_shards(const zr_handle *handle, const gathering *g, bool shared)
{
    for (int r = 0; r < g->comm->size; r++) {
        bool elsewhere =
            shared && (zr_mpi_is_local(g->mpi, r)
                           ? r != g->comm->rank
                           : zr_mpi_fetcher(g->mpi, g->mpi->machines.own, r) != g->comm->rank);
        if (!elsewhere)
            zr_handle_put(handle, g->region + r * g->stride - (g->stride - g->shard),
                          g->region + r * g->stride);
    }
}

zero_status zr_mpi_all_gather_wait(zr_handle *handle, zero_error *error)
{
    const zr_window *window = handle->window;
    zero_comm *comm = window->comm;
    bool shared = zr_window_is_shared_by_machine(window);
    gathering g = {.comm = comm,
                   .mpi = comm->impl,
                   .slot = zr_mpi_slot_name(handle),
                   .stride = zr_handle_stride(handle),
                   .shard = zr_handle_shard_bytes(handle)};
    // Codes travel at the end of the place that they are widened to.
    g.region = window->mine + handle->offset + g.stride - g.shard;
    if (shared)
        ZERO_TRY(zr_mpi_local_barrier(comm, "all_gather", g.slot, error));
    if (handle->own)
        zr_comm_put_own(comm, g.region + comm->rank * g.stride, handle->own, g.shard);
    for (g.first = 0; g.first < g.shard; g.first += PART_BYTES) {
        g.bytes = ZR_MIN(PART_BYTES, g.shard - g.first);
        ZERO_TRY(exchange_part(&g, shared, error));
    }
    if (handle->bits)
        widen_shards(handle, &g, shared);
    return shared ? zr_mpi_local_barrier(comm, "all_gather", g.slot, error) : ZERO_OK;
}
