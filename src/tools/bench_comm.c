// `zero bench comm`: every operation that a training uses, by size, compared with what the memory
// of this machine allows.
#include "comm/versions.h"
#include "measure/memory_rate.h"
#include "memory/arena.h"
#include "tools/bench_shared.h"

#include <stdio.h>
#include <string.h>

enum { SLOT = 0 };

// Bytes of the whole operand.
static const int64_t sizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};

typedef struct comm_work {
    zero_comm *comm;
    zr_window window, shared;
    zr_arena arena;
    void *dst;           // (largest shard)
    zero_dtype dtype;    // of the operand and of its sum
    int64_t shard_elems; // for the size that is being measured
    uint64_t version;
    char *from, *to; // private memory, as large as the largest operand
} comm_work;

static zero_status reduce_scatter(void *user, zero_error *error)
{
    comm_work *w = user;
    zr_handle handle;
    const zr_sum_target to = {.data = w->dst, .dtype = w->dtype};
    ZERO_TRY(zr_comm_start(&w->window, ZERO_COMM_reduce_scatter, SLOT, 0, w->shard_elems, w->dtype,
                           &to, &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    return zr_comm_quiesce(&w->window, SLOT, error);
}

static zero_status all_gather(void *user, zero_error *error)
{
    comm_work *w = user;
    zr_handle handle;
    ZERO_TRY(zr_comm_start(&w->window, ZERO_COMM_all_gather, SLOT, 0, w->shard_elems, w->dtype,
                           NULL, &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    return zr_comm_quiesce(&w->window, SLOT, error);
}

static zero_status all_reduce(void *user, zero_error *error)
{
    comm_work *w = user;
    return zr_comm_all_reduce(&w->window, SLOT, 0, w->shard_elems, error);
}

// Does what stage 3 does with a mapped piece: its owner publishes it, and all ranks read it in
// place.
static zero_status acquire_mapped(void *user, zero_error *error)
{
    comm_work *w = user;
    const zr_version_ops *versions = w->comm->versions;
    w->version++;
    ZERO_TRY(versions->await_released(&w->shared, SLOT, w->version - 1, error));
    ZERO_TRY(versions->publish(&w->shared, SLOT, w->version, error));
    ZERO_TRY(versions->await_published(&w->shared, SLOT, w->version, error));
    return versions->release(&w->shared, SLOT, w->version, error);
}

static zero_status barrier(void *user, zero_error *error)
{
    return zr_comm_barrier(((comm_work *)user)->comm, error);
}

static zero_status copy(void *user, zero_error *error)
{
    comm_work *w = user;
    memcpy(w->to, w->from, (size_t)sizes[ZR_COUNT(sizes) - 1]);
    return ZERO_OK;
}

static zero_status triad(void *user, zero_error *error)
{
    comm_work *w = user;
    int64_t count = sizes[ZR_COUNT(sizes) - 1] / (2 * (int64_t)sizeof(float));
    const float *from = (const float *)w->from;
    zr_memory_triad((float *)w->to, from, from + count, count, 1);
    return ZERO_OK;
}

static zero_status reserve(comm_work *w, zr_ledger *ledger, zero_error *error)
{
    static const char *const names[] = {"bench"};
    int64_t largest = sizes[ZR_COUNT(sizes) - 1],
            shard = ZR_ROUND_UP(largest / w->comm->size + (int64_t)sizeof(float) * 16, 64);
    ZERO_TRY(zr_window_create(w->comm, ZR_WINDOW_SYMMETRIC, shard * w->comm->size, 1, names,
                              &w->window, error));
    if (w->comm->versions)
        ZERO_TRY(zr_window_create(w->comm, ZR_WINDOW_SHARED, shard * w->comm->size, 1, names,
                                  &w->shared, error));
    ZERO_TRY(zr_arena_create(ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                             (size_t)(2 * largest + shard + 3 * ZR_ALIGN), &w->arena, error));
    w->dst = zr_arena_take(&w->arena, (size_t)shard);
    w->from = zr_arena_take(&w->arena, (size_t)largest);
    w->to = zr_arena_take(&w->arena, (size_t)largest);
    memset(w->window.mine, 0, (size_t)(shard * w->comm->size));
    return ZERO_OK;
}

static zero_status measure_memory(const zr_bench *bench, comm_work *w, zero_error *error)
{
    double largest = (double)sizes[ZR_COUNT(sizes) - 1], ranks = bench->meter.comm->size, seconds;
    ZERO_TRY(zr_meter_time(&bench->meter, copy, w, &seconds, error));
    zr_bench_say(bench, "memory, all ranks at once: copy %.1f GB/s (read + write), ",
                 2 * largest * ranks / seconds * 1e-9);
    ZERO_TRY(zr_meter_time(&bench->meter, triad, w, &seconds, error));
    zr_bench_say(bench, "triad %.1f GB/s (3 streams)\n", 1.5 * largest * ranks / seconds * 1e-9);
    return ZERO_OK;
}

static void size_text(int64_t bytes, char out[static 32])
{
    snprintf(out, 32, bytes >= 1 << 20 ? "%lld MiB" : "%lld KiB",
             (long long)(bytes >= 1 << 20 ? bytes >> 20 : bytes >> 10));
}

static zero_status measure_operation(const zr_bench *bench, comm_work *w, const char *name,
                                     zr_timed_work work, zero_dtype dtype, zero_error *error)
{
    w->dtype = dtype;
    for (int i = 0; i < ZR_COUNT(sizes); i++) {
        double seconds;
        char size[32];
        w->shard_elems =
            ZR_ROUND_UP(sizes[i] / (int64_t)zero_dtype_bytes(dtype) / w->comm->size, 16);
        ZERO_TRY(zr_meter_time(&bench->meter, work, w, &seconds, error));
        size_text(sizes[i], size);
        zr_bench_say(bench, "%-19s %8s  %10.2f us  %8.2f GB/s\n", name, size, seconds * 1e6,
                     (double)sizes[i] / seconds * 1e-9);
    }
    return ZERO_OK;
}

static zero_status measure_latency(const zr_bench *bench, comm_work *w, const char *name,
                                   zr_timed_work work, zero_error *error)
{
    double seconds;
    ZERO_TRY(zr_meter_time(&bench->meter, work, w, &seconds, error));
    zr_bench_say(bench, "%-19s %8s  %10.2f us\n", name, "", seconds * 1e6);
    return ZERO_OK;
}

static zero_status measure_all(const zr_bench *bench, comm_work *w, zero_error *error)
{
    ZERO_TRY(measure_memory(bench, w, error));
    zr_bench_say(bench, "operation               size          time   operand bytes / time\n");
    ZERO_TRY(measure_operation(bench, w, "reduce-scatter", reduce_scatter, ZERO_F32, error));
    ZERO_TRY(measure_operation(bench, w, "reduce-scatter bf16", reduce_scatter, ZERO_BF16, error));
    ZERO_TRY(measure_operation(bench, w, "all-gather", all_gather, ZERO_F32, error));
    ZERO_TRY(measure_operation(bench, w, "all-reduce", all_reduce, ZERO_F32, error));
    ZERO_TRY(measure_latency(bench, w, "barrier", barrier, error));
    if (w->comm->versions)
        ZERO_TRY(measure_latency(bench, w, "mapped piece", acquire_mapped, error));
    zr_bench_say(bench, "A mapped piece of any size is read in place (stage 3 on one machine).\n");
    return ZERO_OK;
}

zero_status zr_bench_comm(const zr_bench *bench, const zero_bench_options *options,
                          zero_error *error)
{
    zr_ledger ledger = {0};
    comm_work work = {.comm = bench->meter.comm};
    zero_status status = reserve(&work, &ledger, error);
    if (status == ZERO_OK)
        status = measure_all(bench, &work, error);
    zr_arena_destroy(&work.arena);
    zr_window_destroy(&work.shared);
    zr_window_destroy(&work.window);
    return status;
}
