#include "predict/meter.h"

#include "base/clock.h"
#include "comm/agreement.h"
#include "compute/compute.h"
#include "memory/arena.h"

zero_status zr_meter_time(const zr_meter *meter, zr_timed_work work, void *user, double *seconds,
                          zero_error *error)
{
    ZERO_TRY(work(user, error)); // allocates what stays, and faults pages in
    for (int64_t calls = 1;; calls *= 2) {
        ZERO_TRY(zr_comm_barrier(meter->comm, error));
        double begin = zr_clock_seconds();
        for (int64_t i = 0; i < calls; i++)
            ZERO_TRY(work(user, error));
        int64_t nanoseconds = (int64_t)((zr_clock_seconds() - begin) * 1e9);
        ZERO_TRY(zr_comm_agree_on_largest(meter->comm, &nanoseconds, error));
        *seconds = (double)nanoseconds * 1e-9 / (double)calls;
        if ((double)nanoseconds * 1e-9 >= meter->seconds / 2 || calls >= (int64_t)1 << 30)
            return ZERO_OK;
    }
}

#define COPY_BYTES ((int64_t)64 << 20)

void zr_memory_triad(float *restrict a, const float *restrict b, const float *restrict c,
                     int64_t count, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; i++)
        a[i] = b[i] + 3.0f * c[i];
}

uint32_t zr_memory_gather(const uint32_t *words, int64_t width, const int32_t *list, int64_t count,
                          int threads)
{
    enum { AHEAD = 8, LINE = 16 }; // rows between fetch and use; words
    uint32_t sum = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        const uint32_t *row = words + list[i] * width;
        const uint32_t *later = words + list[ZR_MIN(i + AHEAD, count - 1)] * width;
        for (int64_t at = 0; at < width; at += LINE) {
            __builtin_prefetch(later + at);
            sum += row[at];
        }
    }
    return sum;
}

static void memory_update_f32(const zr_range_states *states, int64_t count, int threads)
{
    float *restrict p = states->master, *restrict m = states->state0, *restrict v = states->state1;
    const uint16_t *restrict g = states->gradient;
    uint16_t *restrict copy = states->parameters;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; i++) {
        m[i] *= 0.9f;
        v[i] *= 0.9f;
        p[i] *= 0.9f;
        copy[i] = g[i];
    }
}

// The same of states of other types, which only change a bit of each.
#define MEMORY_UPDATE(name, type)                                                                  \
    static void name(const zr_range_states *states, int64_t count, int threads)                    \
    {                                                                                              \
        float *restrict p = states->master;                                                        \
        type *restrict m = states->state0, *restrict v = states->state1;                           \
        const uint16_t *restrict g = states->gradient;                                             \
        uint16_t *restrict copy = states->parameters;                                              \
        _Pragma("omp parallel for schedule(static) num_threads(threads)") for (int64_t i = 0;      \
                                                                               i < count; i++)     \
        {                                                                                          \
            m[i] ^= 1;                                                                             \
            v[i] ^= 1;                                                                             \
            p[i] *= 0.9f;                                                                          \
            copy[i] = g[i];                                                                        \
        }                                                                                          \
    }
MEMORY_UPDATE(memory_update_u16, uint16_t)
MEMORY_UPDATE(memory_update_u8, uint8_t)

void zr_memory_update(const zr_range_states *states, int64_t count, int threads)
{
    (states->states_dtype == ZERO_F32    ? memory_update_f32
     : states->states_dtype == ZERO_BF16 ? memory_update_u16
                                         : memory_update_u8)(states, count, threads);
}

typedef struct copying {
    zr_queue *queue;
    char *from, *to;
} copying;

static zero_status copy_memory_rate(void *user, zero_error *error)
{
    copying *c = user;
    zr_run(c->queue, zr_op_copy(&(zr_bytes){COPY_BYTES}, c->from, c->to));
    return ZERO_OK;
}

zero_status zr_memory_rate_of_copy(const zr_meter *meter, double *out, zero_error *error)
{
    zr_ledger ledger = {0};
    zr_arena arena = {0};
    copying c = {0};
    double seconds = 1;
    ZERO_TRY(zr_queue_open("cpu", NULL, meter->threads, &c.queue, error));
    zero_status status = zr_arena_on_host(&ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                                          2 * COPY_BYTES, &arena, error);
    status = zr_comm_agree(meter->comm, status, error);
    if (status == ZERO_OK) {
        c.from = zr_arena_take(&arena, COPY_BYTES);
        c.to = zr_arena_take(&arena, COPY_BYTES);
        status = zr_meter_time(meter, copy_memory_rate, &c, &seconds, error);
    }
    *out = 2.0 * (double)COPY_BYTES / seconds;
    zr_arena_destroy(&arena);
    zr_queue_close(c.queue);
    return status;
}
