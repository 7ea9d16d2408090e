// The operations that send blocks of codes, of every size of code and into every type.
#include "blocks_support.h"
#include "exercise.h"

#include <string.h>

enum { SLOT_ONE, SLOT_FEW, SLOT_LONG, SLOTS };
static const char *const slot_names[] = {"one", "few", "long"};
// long: travels in several parts where it is not read in place
static const int64_t shard_elems[] = {ZR_BLOCK, 9 * ZR_BLOCK, 1100 * ZR_BLOCK};
#define LONGEST (1100 * ZR_BLOCK)
static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
static const int code_bits[] = {8, 4};

// The blocks that a rank sends are those of a name; long ones repeat.
static uint64_t name_of(int rank, int slot, int round)
{
    return (uint64_t)rank << 16 | (uint64_t)slot << 8 | (uint64_t)round;
}

static int64_t offset_of(int slot, int ranks)
{
    int64_t at = 0;
    for (int s = 0; s < slot; s++)
        at += shard_elems[s] * ranks * (int64_t)sizeof(float);
    return at;
}

static zero_status wrong(const zero_comm *comm, const char *what, int bits, int64_t i,
                         zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "rank %d of %d: %s of %d bits: element %lld is wrong",
                   comm->rank, comm->size, what, bits, (long long)i);
}

// Returns the next element to look at: all of the first blocks, then some, and the last one.
static int64_t next_looked_at(int64_t i, int64_t count)
{
    return i + 1 < count ? ZR_MIN(i + 1 + i / 512, count - 1) : count;
}

// One operation brings so many shards as codes, and no more, so many of them over the network.
static zero_status check_counted(const zero_comm *comm, zero_comm_op op, int bits, int64_t elems,
                                 int shards, int afar, const zero_traffic *before,
                                 zero_error *error)
{
    int64_t shard = elems / 256 * (4 + 256 * bits / 8),
            bytes = comm->traffic.bytes[op] - before->bytes[op],
            network = comm->traffic.network[op] - before->network[op];
    if (bytes != shards * shard || network != afar * shard)
        return zr_fail(error, ZERO_ERR_DATA,
                       "rank %d of %d: %lld bytes of codes of %d bits, %lld over the network",
                       comm->rank, comm->size, (long long)bytes, bits, (long long)network);
    return ZERO_OK;
}

typedef struct blocks_case {
    zr_window *window;
    int slot, round, bits;
    zero_dtype to;
} blocks_case;

static float old_value(const blocks_case *c, int64_t i)
{
    return rounded_to(c->to, (float)(i % 1021) / 3);
}

// Ranks whose contributions are summed one after the other: those of a machine, or all.
typedef struct members {
    int ranks[ZERO_MAX_RANKS], count;
} members;

static float sum_of_members(const blocks_case *c, const members *m, int64_t i)
{
    float values[ZERO_MAX_RANKS];
    for (int r = 0; r < m->count; r++)
        values[r] = block_value_of(c->bits, name_of(m->ranks[r], c->slot, c->round), i);
    return oracle_sum(values, m->count);
}

// Lists the ranks of a machine in their order; without machines, all ranks are machine 0.
static members members_of(const zero_comm *comm, int machine)
{
    members m = {.count = 0};
    for (int r = 0; r < comm->size; r++)
        if ((comm->machines ? comm->machines[r] : 0) == machine)
            m.ranks[m.count++] = r;
    return m;
}

// Says whether the ranks of each machine sum first, and machines send these sums, rounded to codes
// again: where they have several ranks each, and all as many.
static bool sums_in_two_hops(const zero_comm *comm)
{
    int first = members_of(comm, 0).count, machines = 0;
    bool even = true;
    for (int left = comm->size; left > 0; machines++) {
        int count = members_of(comm, machines).count;
        even = even && count == first;
        left -= count;
    }
    return even && first > 1 && machines > 1;
}

// Fills the sums of a block's elements, from element `first` on.
static void expect_block(const blocks_case *c, int64_t first, float *sums)
{
    const zero_comm *comm = c->window->comm;
    float of_machines[ZERO_MAX_RANKS][ZR_BLOCK], values[ZERO_MAX_RANKS];
    members all = {.count = comm->size};
    bool hops = sums_in_two_hops(comm);
    int machines = hops ? comm->size / members_of(comm, 0).count : 1;
    for (int r = 0; r < comm->size; r++)
        all.ranks[r] = r;
    for (int k = 0; k < machines; k++) {
        const members m = hops ? members_of(comm, k) : all;
        for (int i = 0; i < ZR_BLOCK; i++)
            of_machines[k][i] = sum_of_members(c, &m, first + i);
        if (hops)
            round_block(c->bits, of_machines[k]);
    }
    for (int i = 0; i < ZR_BLOCK; i++) {
        for (int k = 0; k < machines; k++)
            values[k] = of_machines[k][i];
        sums[i] = oracle_sum(values, machines);
    }
}

// Returns the next block to look at: the first ones, some, and the last one.
static int64_t next_block(int64_t block, int64_t count)
{
    return block + 1 < count ? ZR_MIN(block + 1 + block / 8 * 16, count - 1) : count;
}

static zero_status check_sum(const blocks_case *c, const zr_sum_target *to, const char *what,
                             zero_error *error)
{
    float sums[ZR_BLOCK];
    const zero_comm *comm = c->window->comm;
    int64_t n = shard_elems[c->slot];
    for (int64_t b = 0; b < n / ZR_BLOCK; b = next_block(b, n / ZR_BLOCK)) {
        expect_block(c, comm->rank * n + b * ZR_BLOCK, sums);
        for (int64_t e = 0, i = b * ZR_BLOCK; e < ZR_BLOCK; e++, i++)
            if (load_as(c->to, to->data, i) !=
                rounded_to(c->to, to->adds ? old_value(c, i) + sums[e] : sums[e]))
                return wrong(comm, what, c->bits, i, error);
    }
    return ZERO_OK;
}

static zero_status sum_into(const blocks_case *c, const zr_sum_target *to, zero_error *error)
{
    zr_handle handle;
    zero_comm *comm = c->window->comm;
    const zero_traffic before = comm->traffic;
    int64_t n = shard_elems[c->slot];
    for (int64_t i = 0; i < n; i++)
        store_as(c->to, to->data, i, to->adds ? old_value(c, i) : 0);
    ZERO_TRY(zr_comm_start_blocks(c->window, c->slot, offset_of(c->slot, comm->size), n, c->bits,
                                  to, &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    ZERO_TRY(check_sum(c, to, to->adds ? "sum that adds" : "sum", error));
    int afar =
        sums_in_two_hops(comm) ? comm->size / members_of(comm, 0).count - 1 : comm->strangers;
    return check_counted(comm, ZERO_COMM_reduce_scatter, c->bits, n, comm->size - 1, afar, &before,
                         error);
}

static zero_status try_sum(blocks_case c, zero_error *error)
{
    static _Thread_local float sum[LONGEST];
    const zero_comm *comm = c.window->comm;
    write_blocks(c.bits, name_of(comm->rank, c.slot, c.round), 0, shard_elems[c.slot] * comm->size,
                 c.window->mine + offset_of(c.slot, comm->size));
    for (int d = 0; d < ZR_COUNT(dtypes); d++)
        for (int adds = 0; adds < 2; adds++) {
            c.to = dtypes[d];
            if (c.slot != SLOT_LONG || d == 0) // what is long costs time
                ZERO_TRY(sum_into(&c, &(zr_sum_target){.data = sum, .dtype = c.to, .adds = adds},
                                  error));
        }
    return zr_comm_quiesce(c.window, c.slot, error);
}

// Two of them under way at once, and elements of fp32 between them.
static zero_status try_overlapping(zr_window *window, zero_error *error)
{
    static _Thread_local float sums[2][9 * ZR_BLOCK];
    zr_handle handles[2];
    zero_comm *comm = window->comm;
    for (int slot = 0; slot < 2; slot++) {
        const zr_sum_target to = {.data = sums[slot], .dtype = ZERO_F32};
        int64_t offset = offset_of(slot, comm->size);
        write_blocks(code_bits[slot], name_of(comm->rank, slot, 9), 0,
                     shard_elems[slot] * comm->size, window->mine + offset);
        ZERO_TRY(zr_comm_start_blocks(window, slot, offset, shard_elems[slot], code_bits[slot], &to,
                                      &handles[slot], error));
    }
    for (int slot = 0; slot < 2; slot++) {
        const blocks_case c = {window, slot, 9, code_bits[slot], ZERO_F32};
        const zr_sum_target to = {.data = sums[slot], .dtype = ZERO_F32};
        ZERO_TRY(zr_comm_wait(&handles[slot], error));
        ZERO_TRY(check_sum(&c, &to, "overlapping sum", error));
        ZERO_TRY(zr_comm_quiesce(window, slot, error));
    }
    return ZERO_OK;
}

// In the digest there are none: in two hops they have bits of their own.
static zero_status try_sums(zero_comm *comm, zero_error *error)
{
    zr_window window;
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, offset_of(SLOTS, comm->size), SLOTS,
                              slot_names, &window, error));
    zero_status status = ZERO_OK;
    for (int slot = 0; slot < SLOTS; slot++)
        for (int b = 0; b < ZR_COUNT(code_bits) && status == ZERO_OK; b++)
            status = try_sum((blocks_case){&window, slot, b, code_bits[b], ZERO_F32}, error);
    status = status ? status : try_overlapping(&window, error);
    zr_window_destroy(&window);
    return status;
}

static zero_status check_gathered(const blocks_case *c, uint64_t *digest, zero_error *error)
{
    const zero_comm *comm = c->window->comm;
    const char *region = c->window->mine + offset_of(c->slot, comm->size);
    int64_t n = shard_elems[c->slot];
    for (int r = 0; r < comm->size; r++)
        for (int64_t i = 0; i < n; i = next_looked_at(i, n))
            if (load_as(c->to, region, r * n + i) !=
                rounded_to(c->to, block_value_of(c->bits, name_of(r, c->slot, c->round), i)))
                return wrong(comm, "gather", c->bits, r * n + i, error);
    *digest = zr_hash_bytes(region, (size_t)(n * comm->size) * zero_dtype_bytes(c->to), *digest);
    return ZERO_OK;
}

static zero_status start_gather(const blocks_case *c, char *own, zr_handle *handle,
                                zero_error *error)
{
    zero_comm *comm = c->window->comm;
    const zero_traffic before = comm->traffic;
    int64_t n = shard_elems[c->slot];
    write_blocks(c->bits, name_of(comm->rank, c->slot, c->round), 0, n, own);
    ZERO_TRY(zr_comm_start_gather(c->window, c->slot, offset_of(c->slot, comm->size), n, c->to,
                                  c->bits, own, handle, error));
    int shards = comm->machine_ranks > 1 ? comm->fetches : comm->size - 1;
    return check_counted(comm, ZERO_COMM_all_gather, c->bits, n, shards, comm->fetches, &before,
                         error);
}

// Slots in turn, one ahead, as stage 3 gathers them; each place is filled again and again.
static zero_status gather_in_turn(zr_window *window, uint64_t *digest, zero_error *error)
{
    static _Thread_local char own[2][LONGEST / ZR_BLOCK * (ZR_BLOCK + ZR_BLOCK_SCALE_BYTES)];
    static const int slots[] = {SLOT_ONE, SLOT_FEW, SLOT_LONG};
    blocks_case before = {0};
    zr_handle handles[2];
    int made = 0;
    for (int d = 0; d < 2 * ZR_COUNT(dtypes); d++)
        for (int s = 0; s < ZR_COUNT(slots); s++, made++) {
            blocks_case c = {window, slots[s], d, code_bits[d % 2], dtypes[d / 2]};
            ZERO_TRY(start_gather(&c, own[made % 2], &handles[made % 2], error));
            if (made > 0) {
                ZERO_TRY(zr_comm_wait(&handles[1 - made % 2], error));
                ZERO_TRY(check_gathered(&before, digest, error));
            }
            before = c;
        }
    ZERO_TRY(zr_comm_wait(&handles[1 - made % 2], error));
    return check_gathered(&before, digest, error);
}

static zero_status try_gathers(zero_comm *comm, uint64_t *digest, zero_error *error)
{
    zr_window window;
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_MACHINE, offset_of(SLOTS, comm->size), SLOTS,
                              slot_names, &window, error));
    zero_status status = gather_in_turn(&window, digest, error);
    status = status ? status : zr_comm_barrier(comm, error);
    zr_window_destroy(&window);
    return status;
}

zero_status exercise_blocks(zero_comm *comm, uint64_t *digest, zero_error *error)
{
    ZERO_TRY(try_sums(comm, error));
    return try_gathers(comm, digest, error);
}
