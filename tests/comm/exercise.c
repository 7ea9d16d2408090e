#include "exercise.h"

#include "base/random.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

enum { SLOT_SMALL, SLOT_ODD, SLOT_LARGE, SLOT_LONG, SLOTS };
static const char *const slot_names[] = {"small", "odd", "large", "long"};
// long: travels in several parts where it is not read in place
static const int64_t shard_elems[] = {64, 777, 20000, 140001};
static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};

// A value that dtype holds, of a wide range: neighbours in the tree cancel and absorb each other.
static float value_as(zero_dtype dtype, int rank, int slot, int round, int64_t i)
{
    zr_philox random =
        zr_philox4x32((uint64_t)slot << 8 | (uint64_t)round, (uint64_t)rank, (uint64_t)i);
    float scale = (float)(1 << (random.v[1] % (dtype == ZERO_F16 ? 12 : 20)));
    return rounded_to(dtype, ((float)(random.v[0] & 0xffffff) / (float)0x1000000 - 0.5f) * scale);
}

static float value_of(int rank, int slot, int round, int64_t i)
{
    return value_as(ZERO_F32, rank, slot, round, i);
}

static float expected_sum(zero_dtype dtype, int ranks, int slot, int round, int64_t i)
{
    float values[ZERO_MAX_RANKS];
    for (int r = 0; r < ranks; r++)
        values[r] = value_as(dtype, r, slot, round, i);
    return oracle_sum(values, ranks);
}

// Returns the next element to look at: more of the first ones than of the others, and the last one.
static int64_t next_looked_at(int64_t i, int64_t count)
{
    return i + 1 < count ? ZR_MIN(i + 1 + i / 64, count - 1) : count;
}

static int64_t offset_of(int slot, int ranks)
{
    int64_t at = 0;
    for (int s = 0; s < slot; s++)
        at += shard_elems[s] * ranks * (int64_t)sizeof(float);
    return at;
}

static void *fill(zr_window *window, int slot, int round, zero_dtype dtype)
{
    void *data = window->mine + offset_of(slot, window->comm->size);
    for (int64_t i = 0; i < shard_elems[slot] * window->comm->size; i++)
        store_as(dtype, data, i, value_as(dtype, window->comm->rank, slot, round, i));
    return data;
}

static void fold(uint64_t *digest, const void *data, int64_t bytes)
{
    *digest = zr_hash_bytes(data, (size_t)bytes, *digest);
}

static zero_status wrong(zero_comm *comm, const char *what, int64_t i, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "rank %d of %d: %s: element %lld is not the oracle's",
                   comm->rank, comm->size, what, (long long)i);
}

typedef struct sum_case {
    zr_window *window;
    int slot, round;
    zero_dtype from, to;
} sum_case;

static zero_status reduce_scatter(const sum_case *c, const zr_sum_target *to, zero_error *error)
{
    zr_handle handle;
    ZERO_TRY(zr_comm_start(c->window, ZERO_COMM_reduce_scatter, c->slot,
                           offset_of(c->slot, c->window->comm->size), shard_elems[c->slot], c->from,
                           to, &handle, error));
    return zr_comm_wait(&handle, error);
}

// What an adding reduce-scatter finds in its target.
static float old_value(const sum_case *c, int64_t i)
{
    return value_as(c->to, c->window->comm->rank, c->slot, 100 + c->round, i);
}

static zero_status check_shard(const sum_case *c, const zr_sum_target *to, const char *what,
                               zero_error *error)
{
    zero_comm *comm = c->window->comm;
    for (int64_t i = 0; i < shard_elems[c->slot]; i = next_looked_at(i, shard_elems[c->slot])) {
        float sum = expected_sum(c->from, comm->size, c->slot, c->round,
                                 comm->rank * shard_elems[c->slot] + i);
        if (load_as(c->to, to->data, i) !=
            rounded_to(c->to, to->adds ? old_value(c, i) + sum : sum))
            return wrong(comm, what, i, error);
    }
    return ZERO_OK;
}

static zero_status try_reduce_scatter_to(const sum_case *c, uint64_t *digest, zero_error *error)
{
    static _Thread_local float sum[20000];
    int64_t n = shard_elems[c->slot];
    zr_sum_target to = {.data = sum, .dtype = c->to};
    ZERO_TRY(reduce_scatter(c, &to, error));
    ZERO_TRY(check_shard(c, &to, "reduce_scatter", error));
    for (int64_t i = 0; i < n; i++)
        store_as(c->to, sum, i, old_value(c, i));
    to.adds = 1;
    ZERO_TRY(reduce_scatter(c, &to, error));
    ZERO_TRY(check_shard(c, &to, "reduce_scatter that adds", error));
    fold(digest, sum, n * (int64_t)zero_dtype_bytes(c->to));
    return ZERO_OK;
}

// Of each type into each, and in the place of the own contribution.
static zero_status try_reduce_scatter(zr_window *window, int slot, int round, uint64_t *digest,
                                      zero_error *error)
{
    for (int from = 0; from < ZR_COUNT(dtypes); from++) {
        sum_case c = {.window = window,
                      .slot = slot,
                      .round = round,
                      .from = dtypes[from],
                      .to = dtypes[from]};
        char *data = fill(window, slot, round, c.from);
        for (int to = 0; to < ZR_COUNT(dtypes); to++) {
            sum_case into = c;
            into.to = dtypes[to];
            if (slot != SLOT_LARGE || to == from) // what is large costs time
                ZERO_TRY(try_reduce_scatter_to(&into, digest, error));
        }
        int64_t shard_bytes = shard_elems[slot] * (int64_t)zero_dtype_bytes(c.from);
        const zr_sum_target own = {.data = data + window->comm->rank * shard_bytes,
                                   .dtype = c.from};
        ZERO_TRY(reduce_scatter(&c, &own, error));
        ZERO_TRY(check_shard(&c, &own, "reduce_scatter in place", error));
        ZERO_TRY(zr_comm_quiesce(window, slot, error));
    }
    return ZERO_OK;
}

static zero_status try_all_gather(zr_window *window, int slot, int round, zero_dtype dtype,
                                  uint64_t *digest, zero_error *error)
{
    int ranks = window->comm->size;
    int64_t n = shard_elems[slot], bytes = n * ranks * (int64_t)zero_dtype_bytes(dtype);
    zr_handle handle;
    char *data = window->mine + offset_of(slot, ranks);
    memset(data, 0, (size_t)bytes);
    for (int64_t i = 0; i < n; i++)
        store_as(dtype, data, window->comm->rank * n + i,
                 value_as(dtype, window->comm->rank, slot, round, i));
    ZERO_TRY(zr_comm_start(window, ZERO_COMM_all_gather, slot, offset_of(slot, ranks), n, dtype,
                           NULL, &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    for (int64_t i = 0; i < n * ranks; i = i / n * n + next_looked_at(i % n, n))
        if (load_as(dtype, data, i) != value_as(dtype, (int)(i / n), slot, round, i % n))
            return wrong(window->comm, "all_gather", i, error);
    fold(digest, data, bytes);
    return zr_comm_quiesce(window, slot, error);
}

static zero_status try_all_reduce(zr_window *window, int slot, int round, uint64_t *digest,
                                  zero_error *error)
{
    int ranks = window->comm->size;
    int64_t n = shard_elems[slot] * ranks;
    float *data = fill(window, slot, round, ZERO_F32);
    ZERO_TRY(zr_comm_all_reduce(window, slot, offset_of(slot, ranks), shard_elems[slot], error));
    for (int64_t i = 0; i < n; i = next_looked_at(i, n))
        if (data[i] != expected_sum(ZERO_F32, ranks, slot, round, i))
            return wrong(window->comm, "all_reduce", i, error);
    fold(digest, data, n * (int64_t)sizeof *data);
    memset(data, 0, sizeof *data * (size_t)n); // allowed at once: the operation is synchronous
    return ZERO_OK;
}

// Two operations under way at once, of two types, waited for in the order of their start.
static zero_status try_overlapping(zr_window *window, zero_error *error)
{
    zr_handle handles[2];
    static _Thread_local float sums[2][777];
    for (int slot = 0; slot < 2; slot++) {
        const zr_sum_target to = {.data = sums[slot], .dtype = ZERO_F32};
        fill(window, slot, 9, dtypes[slot]);
        ZERO_TRY(zr_comm_start(window, ZERO_COMM_reduce_scatter, slot,
                               offset_of(slot, window->comm->size), shard_elems[slot], dtypes[slot],
                               &to, &handles[slot], error));
    }
    for (int slot = 0; slot < 2; slot++) {
        const sum_case c = {
            .window = window, .slot = slot, .round = 9, .from = dtypes[slot], .to = ZERO_F32};
        const zr_sum_target to = {.data = sums[slot], .dtype = ZERO_F32};
        ZERO_TRY(zr_comm_wait(&handles[slot], error));
        ZERO_TRY(check_shard(&c, &to, "overlapping reduce_scatter", error));
        ZERO_TRY(zr_comm_quiesce(window, slot, error));
    }
    return ZERO_OK;
}

// elements after which the long operand repeats: no divisor of any part in which it travels
#define PERIOD 4999

// Into another type, at the window's end.
static zero_status try_long(zr_window *window, zero_dtype from, zero_dtype into, uint64_t *digest,
                            zero_error *error)
{
    static _Thread_local float values[PERIOD], sums[PERIOD];
    zero_comm *comm = window->comm;
    int64_t n = shard_elems[SLOT_LONG], own = comm->rank * n;
    for (int64_t i = 0; i < PERIOD; i++) {
        values[i] = value_as(from, comm->rank, SLOT_LONG, 0, i);
        sums[i] = rounded_to(into, expected_sum(from, comm->size, SLOT_LONG, 0, i));
    }
    for (int64_t i = 0; i < n * comm->size; i++)
        store_as(from, window->mine + offset_of(SLOT_LONG, comm->size), i, values[i % PERIOD]);
    const sum_case c = {.window = window, .slot = SLOT_LONG, .from = from, .to = into};
    const zr_sum_target to = {.data = window->mine + offset_of(SLOTS, comm->size), .dtype = into};
    ZERO_TRY(reduce_scatter(&c, &to, error));
    for (int64_t i = 0; i < n; i++)
        if (load_as(into, to.data, i) != sums[(own + i) % PERIOD])
            return wrong(comm, "long reduce_scatter", i, error);
    fold(digest, to.data, n * (int64_t)zero_dtype_bytes(into));
    return zr_comm_quiesce(window, SLOT_LONG, error);
}

static zero_status try_slot(zr_window *window, int slot, int round, uint64_t *digest,
                            zero_error *error)
{
    ZERO_TRY(try_reduce_scatter(window, slot, round, digest, error));
    for (int d = 0; d < ZR_COUNT(dtypes); d++)
        ZERO_TRY(try_all_gather(window, slot, round, dtypes[d], digest, error));
    return try_all_reduce(window, slot, round, digest, error);
}

static zero_status try_windows(zero_comm *comm, uint64_t *digest, zero_error *error)
{
    zr_window window;
    int64_t bytes = offset_of(SLOTS, comm->size) + shard_elems[SLOT_LONG] * (int64_t)sizeof(float);
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, bytes, SLOTS, slot_names, &window, error));
    zero_status status = ZERO_OK;
    for (int round = 0; round < 2 && status == ZERO_OK; round++)
        for (int slot = 0; slot < SLOT_LONG && status == ZERO_OK; slot++)
            status = try_slot(&window, slot, round, digest, error);
    for (int d = 0; d < ZR_COUNT(dtypes) && status == ZERO_OK; d++)
        status = try_long(&window, dtypes[d], dtypes[(d + 1) % ZR_COUNT(dtypes)], digest, error);
    status = status ? status : try_overlapping(&window, error);
    zr_window_destroy(&window);
    return status;
}

static zero_status try_small(zero_comm *comm, uint64_t *digest, zero_error *error)
{
    double sum[1000], want;
    float most[3] = {(float)comm->rank, -(float)comm->rank, 5};
    int64_t least[2] = {comm->rank, 100 - comm->rank};
    for (int i = 0; i < 1000; i++)
        sum[i] = value_of(comm->rank, 3, 0, i);
    ZERO_TRY(zr_comm_all_reduce_small(comm, sum, 1000, ZERO_F64, ZR_SUM, error));
    for (int i = 0; i < 1000; i++) {
        want = value_of(0, 3, 0, i);
        for (int r = 1; r < comm->size; r++)
            want += value_of(r, 3, 0, i);
        if (sum[i] != want)
            return wrong(comm, "small sum of f64", i, error);
    }
    ZERO_TRY(zr_comm_all_reduce_small(comm, most, 3, ZERO_F32, ZR_MAX, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, least, 2, ZERO_I64, ZR_MIN, error));
    if (most[0] != (float)(comm->size - 1) || most[1] != 0 || most[2] != 5 || least[0] != 0 ||
        least[1] != 101 - comm->size)
        return wrong(comm, "small max or min", 0, error);
    fold(digest, sum, sizeof sum);
    return ZERO_OK;
}

// Values below 0, and doubles where one rank's is not a number.
static zero_status try_extremes(zero_comm *comm, zero_error *error)
{
    double ends[2] = {comm->rank == comm->size - 1 ? (double)NAN : 1, -1.0 - comm->rank};
    int64_t least = -comm->rank, most = -1 - comm->rank;
    ZERO_TRY(zr_comm_all_reduce_small(comm, ends, 2, ZERO_F64, ZR_MAX, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &least, 1, ZERO_I64, ZR_MIN, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &most, 1, ZERO_I64, ZR_MAX, error));
    if (!isnan(ends[0]) || ends[1] != -1 || least != 1 - comm->size || most != -1)
        return wrong(comm, "small max or min of extremes", 0, error);
    return ZERO_OK;
}

static zero_status try_largest_small(zero_comm *comm, zero_error *error)
{
    static _Thread_local int64_t words[ZR_COMM_SMALL_BYTES / 8];
    for (int i = 0; i < ZR_COUNT(words); i++)
        words[i] = comm->rank + i;
    ZERO_TRY(zr_comm_all_reduce_small(comm, words, ZR_COUNT(words), ZERO_I64, ZR_SUM, error));
    for (int i = 0; i < ZR_COUNT(words); i++)
        if (words[i] != (int64_t)comm->size * i + (int64_t)comm->size * (comm->size - 1) / 2)
            return wrong(comm, "largest small sum", i, error);
    return zr_comm_barrier(comm, error);
}

#define PRIVATE 20000

static zero_status try_private(zero_comm *comm, int root, uint64_t *digest, zero_error *error)
{
    static _Thread_local float data[PRIVATE];
    int64_t received = -comm->traffic.bytes[ZERO_COMM_reduce];
    for (int i = 0; i < PRIVATE; i++)
        data[i] = value_of(comm->rank, 4, root, i);
    ZERO_TRY(zr_comm_reduce(comm, data, PRIVATE, root, error));
    received += comm->traffic.bytes[ZERO_COMM_reduce];
    ZERO_TRY(zr_comm_all_reduce_small(comm, &received, 1, ZERO_I64, ZR_SUM, error));
    // All but rank 0 send theirs towards it, and it sends the sum to the root.
    if (received != (comm->size - 1 + (root > 0)) * (int64_t)sizeof data)
        return wrong(comm, "bytes of a reduce", received, error);
    for (int64_t i = 0; i < PRIVATE; i = next_looked_at(i, PRIVATE))
        if (data[i] != (comm->rank == root ? expected_sum(ZERO_F32, comm->size, 4, root, i)
                                           : value_of(comm->rank, 4, root, i)))
            return wrong(comm, "reduce", i, error);
    ZERO_TRY(zr_comm_broadcast(comm, data, sizeof data, root, error));
    for (int64_t i = 0; i < PRIVATE; i = next_looked_at(i, PRIVATE))
        if (data[i] != expected_sum(ZERO_F32, comm->size, 4, root, i))
            return wrong(comm, "broadcast", i, error);
    fold(digest, data, sizeof data);
    return ZERO_OK;
}

// Around the ring: more than two chunks, so that senders have to wait for receivers.
static zero_status try_ring(zero_comm *comm, zero_error *error)
{
    static _Thread_local char data[200001];
    int next = (comm->rank + 1) % comm->size, previous = (comm->rank - 1 + comm->size) % comm->size;
    if (comm->size == 1)
        return ZERO_OK;
    memset(data, comm->rank, sizeof data);
    if (comm->rank == 0)
        ZERO_TRY(zr_comm_send(comm, data, sizeof data, next, error));
    ZERO_TRY(zr_comm_recv(comm, data, sizeof data, previous, error));
    for (int i = 0; i < ZR_COUNT(data); i++)
        if (data[i] != 0)
            return wrong(comm, "ring of sends", i, error);
    return comm->rank == 0 ? ZERO_OK : zr_comm_send(comm, data, sizeof data, next, error);
}

// Every operation that there is was made; a rank alone sends nothing.
static zero_status check_all_made(const zero_comm *comm, zero_error *error)
{
    static const char *const names[] = {
#define NAME(op) #op,
        ZERO_COMM_OPS(NAME)
#undef NAME
    };
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++) {
        bool between_two = op == ZERO_COMM_send || op == ZERO_COMM_recv;
        if (!comm->traffic.calls[op] && (comm->size > 1 || !between_two))
            return zr_fail(error, ZERO_ERR_DATA, "no %s was exercised", names[op]);
    }
    return ZERO_OK;
}

zero_status exercise(zero_comm *comm, uint64_t *digest, zero_error *error)
{
    uint64_t own = (uint64_t)comm->rank;
    ZERO_TRY(try_windows(comm, &own, error));
    ZERO_TRY(exercise_blocks(comm, &own, error));
    ZERO_TRY(try_small(comm, &own, error));
    ZERO_TRY(try_extremes(comm, error));
    ZERO_TRY(try_largest_small(comm, error));
    ZERO_TRY(try_private(comm, 0, &own, error));
    ZERO_TRY(try_private(comm, comm->size - 1, &own, error));
    ZERO_TRY(try_ring(comm, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &own, 1, ZERO_I64, ZR_SUM, error));
    *digest = own;
    return check_all_made(comm, error);
}

typedef struct rank_thread {
    pthread_t thread;
    zero_comm *comm;
    rank_function function;
    void *user;
    rank_result *result;
} rank_thread;

static void *run_rank(void *argument)
{
    rank_thread *rank = argument;
    rank->result->status = rank->function(rank->comm, rank->user, &rank->result->error);
    if (rank->result->status != ZERO_OK)
        zero_comm_abort(rank->comm, rank->result->error.message);
    return NULL;
}

void run_threads(int ranks, double timeout, rank_function function, void *user,
                 rank_result *results)
{
    zero_comm *comms[64];
    rank_thread threads[64];
    zero_error error;
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = timeout};
    assert_true(ranks <= 64);
    assert_int_equal(zero_comm_threads(ranks, &options, comms, &error), ZERO_OK);
    memset(results, 0, sizeof *results * (size_t)ranks);
    for (int r = 0; r < ranks; r++) {
        threads[r] = (rank_thread){
            .comm = comms[r], .function = function, .user = user, .result = &results[r]};
        assert_int_equal(pthread_create(&threads[r].thread, NULL, run_rank, &threads[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r].thread, NULL);
    for (int r = 0; r < ranks; r++)
        zero_comm_destroy(comms[r]);
}

void expect_all_ok(const rank_result *results, int ranks)
{
    for (int r = 0; r < ranks; r++)
        if (results[r].status != ZERO_OK)
            fail_msg("rank %d: %s", r, results[r].error.message);
}

void expect_message(const rank_result *result, zero_status status, const char *words)
{
    if (result->status != status || !strstr(result->error.message, words))
        fail_msg("expected %s with \"%s\", found %s: %s", zero_status_name(status), words,
                 zero_status_name(result->status), result->error.message);
}
