#include "exercise.h"

#include "base/random.h"

#include <pthread.h>
#include <string.h>
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

enum { SLOT_SMALL, SLOT_ODD, SLOT_LARGE, SLOTS };
static const char *const slot_names[] = {"small", "odd", "large"};
static const int64_t shard_elems[] = {64, 777, 20000};

// A value of wide range: neighbours in the tree cancel and absorb each other.
static float value_of(int rank, int slot, int round, int64_t i)
{
    zr_philox random = zr_philox4x32((uint64_t)slot << 8 | (uint64_t)round, (uint64_t)rank, (uint64_t)i);
    float scale = (float)(1 << (random.v[1] % 20));
    return ((float)(random.v[0] & 0xffffff) / (float)0x1000000 - 0.5f) * scale;
}

float oracle_sum(const float *values, int ranks)
{
    if (ranks == 1)
        return values[0];
    int half = 1;
    while (2 * half < ranks)
        half *= 2;
    return oracle_sum(values, half) + oracle_sum(values + half, ranks - half);
}

static float expected_sum(int ranks, int slot, int round, int64_t i)
{
    float values[ZERO_MAX_RANKS];
    for (int r = 0; r < ranks; r++)
        values[r] = value_of(r, slot, round, i);
    return oracle_sum(values, ranks);
}

static int64_t offset_of(int slot, int ranks)
{
    int64_t at = 0;
    for (int s = 0; s < slot; s++)
        at += shard_elems[s] * ranks * (int64_t)sizeof(float);
    return at;
}

static float *fill(zr_window *window, int slot, int round)
{
    float *data = (float *)(window->mine + offset_of(slot, window->comm->size));
    for (int64_t i = 0; i < shard_elems[slot] * window->comm->size; i++)
        data[i] = value_of(window->comm->rank, slot, round, i);
    return data;
}

static void fold(uint64_t *digest, const void *data, int64_t bytes)
{
    *digest = zr_hash_bytes(data, (size_t)bytes, *digest);
}

static zero_status wrong(zero_comm *comm, const char *what, int64_t i, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "rank %d of %d: %s: element %lld is not the oracle's", comm->rank, comm->size, what,
                   (long long)i);
}

static zero_status check_shard(zero_comm *comm, const float *got, int slot, int round, int times, const char *what,
                               zero_error *error)
{
    for (int64_t i = 0; i < shard_elems[slot]; i += 1 + i / 64) {
        float sum = expected_sum(comm->size, slot, round, comm->rank * shard_elems[slot] + i);
        if (got[i] != (times == 2 ? sum + sum : sum))
            return wrong(comm, what, i, error);
    }
    return ZERO_OK;
}

static zero_status try_reduce_scatter(zr_window *window, int slot, int round, uint64_t *digest, zero_error *error)
{
    static _Thread_local float sum[20000];
    zr_handle handle;
    int64_t n = shard_elems[slot];
    fill(window, slot, round);
    for (int time = 1; time <= 2; time++) {
        ZERO_TRY(zr_comm_start(window, ZERO_COMM_reduce_scatter, slot, offset_of(slot, window->comm->size), n, ZERO_F32,
                               &handle, error));
        ZERO_TRY(zr_comm_reduce_scatter_wait(&handle, sum, time == 2, error));
        ZERO_TRY(check_shard(window->comm, sum, slot, round, time, "reduce_scatter", error));
    }
    fold(digest, sum, n * (int64_t)sizeof *sum);
    return zr_comm_quiesce(window, slot, error);
}

static zero_status try_all_gather(zr_window *window, int slot, int round, uint64_t *digest, zero_error *error)
{
    int ranks = window->comm->size;
    int64_t n = shard_elems[slot];
    zr_handle handle;
    float *data = (float *)(window->mine + offset_of(slot, ranks));
    memset(data, 0, sizeof *data * (size_t)(n * ranks));
    for (int64_t i = 0; i < n; i++)
        data[window->comm->rank * n + i] = value_of(window->comm->rank, slot, round, i);
    ZERO_TRY(zr_comm_start(window, ZERO_COMM_all_gather, slot, offset_of(slot, ranks), n, ZERO_F32, &handle, error));
    ZERO_TRY(zr_comm_all_gather_wait(&handle, error));
    for (int64_t i = 0; i < n * ranks; i++)
        if (data[i] != value_of((int)(i / n), slot, round, i % n))
            return wrong(window->comm, "all_gather", i, error);
    fold(digest, data, n * ranks * (int64_t)sizeof *data);
    return zr_comm_quiesce(window, slot, error);
}

static zero_status try_all_reduce(zr_window *window, int slot, int round, uint64_t *digest, zero_error *error)
{
    int ranks = window->comm->size;
    int64_t n = shard_elems[slot] * ranks;
    float *data = fill(window, slot, round);
    ZERO_TRY(zr_comm_all_reduce(window, slot, offset_of(slot, ranks), shard_elems[slot], error));
    for (int64_t i = 0; i < n; i += 1 + i / 64)
        if (data[i] != expected_sum(ranks, slot, round, i))
            return wrong(window->comm, "all_reduce", i, error);
    fold(digest, data, n * (int64_t)sizeof *data);
    memset(data, 0, sizeof *data * (size_t)n); // allowed at once: the operation is synchronous
    return ZERO_OK;
}

// Two operations under way at once, waited for in the order of their start.
static zero_status try_overlapping(zr_window *window, zero_error *error)
{
    zr_handle handles[2];
    static _Thread_local float sums[2][777];
    for (int slot = 0; slot < 2; slot++) {
        fill(window, slot, 9);
        ZERO_TRY(zr_comm_start(window, ZERO_COMM_reduce_scatter, slot, offset_of(slot, window->comm->size),
                               shard_elems[slot], ZERO_F32, &handles[slot], error));
    }
    for (int slot = 0; slot < 2; slot++) {
        ZERO_TRY(zr_comm_reduce_scatter_wait(&handles[slot], sums[slot], false, error));
        ZERO_TRY(check_shard(window->comm, sums[slot], slot, 9, 1, "overlapping reduce_scatter", error));
        ZERO_TRY(zr_comm_quiesce(window, slot, error));
    }
    return ZERO_OK;
}

static zero_status try_windows(zero_comm *comm, uint64_t *digest, zero_error *error)
{
    zr_window window;
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, offset_of(SLOTS, comm->size), SLOTS, slot_names, &window, error));
    zero_status status = ZERO_OK;
    for (int round = 0; round < 2 && status == ZERO_OK; round++)
        for (int slot = 0; slot < SLOTS && status == ZERO_OK; slot++) {
            status = try_reduce_scatter(&window, slot, round, digest, error);
            status = status ? status : try_all_gather(&window, slot, round, digest, error);
            status = status ? status : try_all_reduce(&window, slot, round, digest, error);
        }
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
    if (most[0] != (float)(comm->size - 1) || most[1] != 0 || most[2] != 5 || least[0] != 0 || least[1] != 101 - comm->size)
        return wrong(comm, "small max or min", 0, error);
    fold(digest, sum, sizeof sum);
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
    for (int i = 0; i < PRIVATE; i++)
        data[i] = value_of(comm->rank, 4, root, i);
    ZERO_TRY(zr_comm_reduce(comm, data, PRIVATE, root, error));
    for (int i = 0; i < PRIVATE; i += 1 + i / 64)
        if (data[i] != (comm->rank == root ? expected_sum(comm->size, 4, root, i) : value_of(comm->rank, 4, root, i)))
            return wrong(comm, "reduce", i, error);
    ZERO_TRY(zr_comm_broadcast(comm, data, sizeof data, root, error));
    for (int i = 0; i < PRIVATE; i += 1 + i / 64)
        if (data[i] != expected_sum(comm->size, 4, root, i))
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

zero_status exercise(zero_comm *comm, uint64_t *digest, zero_error *error)
{
    uint64_t own = (uint64_t)comm->rank;
    ZERO_TRY(try_windows(comm, &own, error));
    ZERO_TRY(try_small(comm, &own, error));
    ZERO_TRY(try_largest_small(comm, error));
    ZERO_TRY(try_private(comm, 0, &own, error));
    ZERO_TRY(try_private(comm, comm->size - 1, &own, error));
    ZERO_TRY(try_ring(comm, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &own, 1, ZERO_I64, ZR_SUM, error));
    *digest = own;
    return ZERO_OK;
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

void run_threads(int ranks, double timeout, rank_function function, void *user, rank_result *results)
{
    zero_comm *comms[64];
    rank_thread threads[64];
    zero_error error;
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = timeout};
    assert_true(ranks <= 64);
    assert_int_equal(zero_comm_threads(ranks, &options, comms, &error), ZERO_OK);
    memset(results, 0, sizeof *results * (size_t)ranks);
    for (int r = 0; r < ranks; r++) {
        threads[r] = (rank_thread){.comm = comms[r], .function = function, .user = user, .result = &results[r]};
        assert_int_equal(pthread_create(&threads[r].thread, NULL, run_rank, &threads[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r].thread, NULL);
    for (int r = 0; r < ranks; r++)
        zero_comm_destroy(comms[r]);
}
