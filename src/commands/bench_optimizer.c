// `zero bench optimizer`: what comes after a reduction, over one rank's shard: the norm, then
// unscale, clip, AdamW and the 16-bit copy at once, with states in fp32, bf16 and 8 bits. Each is
// compared with a loop that reads, modifies and writes as many bytes in place and computes next to
// nothing. Then Muon's iteration.
#include "base/numbers.h"
#include "comm/agreement.h"
#include "memory/arena.h"
#include "predict/meter.h"
#include "commands/bench_shared.h"

#include <math.h>
#include <string.h>

enum { PART = ZR_SQUARES_CHUNK, PARTS = 512, ROUNDS = 5 };
#define DEFAULT_ELEMENTS 100e6

enum {
    ROW = 2048,
    ROWS = PART * PARTS / ROW
}; // of Adafactor's matrix, which is used again and again

typedef struct shard {
    zr_queue *queue;
    int64_t count; // a multiple of PART * PARTS
    zr_range_states states;
    double norm;
    int64_t row_sums[2 * ROWS], column_sums[2 * ROW]; // of Adafactor
    float row_roots[ROWS], column_roots[ROW];
} shard;

static zero_status gradient_norm(void *user, zero_error *error)
{
    shard *s = user;
    int64_t size = (int64_t)zero_dtype_bytes(s->states.gradient_dtype);
    const zr_squares part = {.dtype = s->states.gradient_dtype, .count = PART * PARTS};
    double sums[PARTS];
    zr_exact total;
    zr_exact_zero(&total);
    for (int64_t at = 0; at < s->count; at += part.count) {
        zr_run(s->queue,
               zr_op_square_sums(&part, (const char *)s->states.gradient + at * size, sums));
        for (int i = 0; i < PARTS; i++)
            zr_exact_add(&total, sums[i]);
    }
    s->norm = sqrt(zr_exact_value(&total));
    return ZERO_OK;
}

static zero_status update_shard(void *user, zero_error *error)
{
    shard *s = user;
    const zr_update adamw = {.kind = ZR_UPDATE_ADAMW, .epsilon = 1e-8, .weight_decay = 0.1};
    const zr_update_values values = {.lr = 1e-4,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .correction1 = 0.5,
                                     .correction2 = 0.5,
                                     .gradient_scale = (float)(1 / (s->norm + 1e-6))};
    zr_run(s->queue, zr_op_update_of(&adamw, &values, s->count, &s->states));
    return ZERO_OK;
}

typedef enum factored_walk { SUMS, SQUARES, UPDATE } factored_walk;

// Adafactor's walks, over as many elements at a time as the engine's.
static zero_status walk_factored(shard *s, factored_walk walk)
{
    static const zr_factored_values values = {.gradient_scale = 1,
                                              .most = 1e6f,
                                              .keep = 1,
                                              .step = 1e-6f,
                                              .coarse = 0x1p-30,
                                              .fine = 0x1p-70};
    const zr_range_states *at = &s->states;
    const zr_factored shape = {.gradient = at->gradient_dtype,
                               .parameters = at->parameters_dtype,
                               .width = ROW,
                               .stride = ROW,
                               .parts = 1,
                               .count = PART * PARTS};
    double sums[PARTS];
    for (int64_t i = 0; i < s->count; i += shape.count) {
        const char *g = (const char *)at->gradient + i * (int64_t)zero_dtype_bytes(shape.gradient);
        if (walk == SUMS)
            zr_run(s->queue, zr_op_factor_sums(&shape, &values, g, s->row_sums, s->column_sums));
        else if (walk == SQUARES)
            zr_run(s->queue,
                   zr_op_factored_squares(&shape, &values, g, s->row_roots, s->column_roots, sums));
        else
            zr_run(s->queue,
                   zr_op_factored_update(&shape, &values, at->master + i, g, s->row_roots,
                                         s->column_roots, (uint16_t *)at->parameters + i));
    }
    return ZERO_OK;
}

static zero_status factor_sums(void *user, zero_error *error) { return walk_factored(user, SUMS); }
static zero_status factor_squares(void *user, zero_error *error)
{
    return walk_factored(user, SQUARES);
}
static zero_status factor_update(void *user, zero_error *error)
{
    return walk_factored(user, UPDATE);
}

static zero_status norm_and_update(void *user, zero_error *error)
{
    ZERO_TRY(gradient_norm(user, error));
    return update_shard(user, error);
}

static zero_status read_modify_write(void *user, zero_error *error)
{
    const shard *s = user;
    zr_memory_update(&s->states, s->count, s->queue->threads);
    return ZERO_OK;
}

static zero_status reserve_shard(shard *s, zr_ledger *ledger, zr_arena *arena, zero_error *error)
{
    size_t wide = (size_t)s->count * sizeof(float), narrow = (size_t)s->count * sizeof(uint16_t),
           scales = wide / ZR_STATE_BLOCK;
    ZERO_TRY(zr_arena_on_host(ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                              3 * wide + 2 * narrow + 2 * scales, arena, error));
    s->states = (zr_range_states){.master = zr_arena_take(arena, wide),
                                  .state0 = zr_arena_take(arena, wide),
                                  .state1 = zr_arena_take(arena, wide),
                                  .scales0 = zr_arena_take(arena, scales),
                                  .scales1 = zr_arena_take(arena, scales),
                                  .gradient = zr_arena_take(arena, narrow),
                                  .gradient_dtype = ZERO_BF16,
                                  .parameters = zr_arena_take(arena, narrow),
                                  .parameters_dtype = ZERO_BF16};
    uint16_t *g = (uint16_t *)s->states.gradient;
    for (int64_t i = 0; i < s->count; i++)
        g[i] = (uint16_t)(0x3c00 + i % 97); // small positive bf16 numbers
    return ZERO_OK;
}

static zero_status measure_kernels(const zr_bench *bench, shard *s, zero_error *error)
{
    const struct {
        const char *name;
        zr_timed_work work;
        double bytes; // per element
    } rows[] = {{"norm", gradient_norm, 2},
                {"update", update_shard, ZR_MEMORY_UPDATE_BYTES(ZERO_F32)},
                {"read-modify-write", read_modify_write, ZR_MEMORY_UPDATE_BYTES(ZERO_F32)},
                {"fused", norm_and_update, 2 + ZR_MEMORY_UPDATE_BYTES(ZERO_F32)},
                {"Adafactor, sums", factor_sums, 2},
                {"Adafactor, squares", factor_squares, 2},
                {"Adafactor, update", factor_update, 2 + 4 + 4 + 2}};
    double seconds[ZR_COUNT(rows)];
    zr_bench_say(
        bench,
        "AdamW over %lld parameters a rank: bf16 gradient, fp32 master and moments, bf16 copy\n",
        (long long)s->count);
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        ZERO_TRY(zr_meter_time(&bench->meter, rows[i].work, s, &seconds[i], error));
        zr_bench_say(bench, "%-20s %10.2f ms  %8.2f GB/s\n", rows[i].name, seconds[i] * 1e3,
                     rows[i].bytes * (double)s->count / seconds[i] * 1e-9);
    }
    zr_bench_say(bench, "update / read-modify-write of the same bytes: %.3f of its bandwidth\n",
                 seconds[2] / seconds[1]);
    return ZERO_OK;
}

// The update of states of another type, which lie where those in fp32 were, in turn with a loop
// over the same bytes: other programs disturb both alike.
static zero_status measure_states(const zr_bench *bench, shard *s, zero_dtype states,
                                  const char *name, zero_error *error)
{
    double updates[ROUNDS], loops[ROUNDS], ratios[ROUNDS];
    s->states.states_dtype = states;
    memset(s->states.state0, 0, (size_t)s->count * zero_dtype_bytes(states));
    memset(s->states.state1, 0, (size_t)s->count * zero_dtype_bytes(states));
    memset(s->states.scales0, 0, (size_t)s->count / ZR_STATE_BLOCK * sizeof(float));
    memset(s->states.scales1, 0, (size_t)s->count / ZR_STATE_BLOCK * sizeof(float));
    for (int i = 0; i < ROUNDS; i++) {
        ZERO_TRY(zr_meter_time(&bench->meter, update_shard, s, &updates[i], error));
        ZERO_TRY(zr_meter_time(&bench->meter, read_modify_write, s, &loops[i], error));
        ratios[i] = loops[i] / updates[i];
    }
    double seconds = zr_median(updates, ROUNDS);
    zr_bench_say(bench, "%-20s %10.2f ms  %8.2f GB/s, %.3f of the bandwidth of its own bytes\n",
                 name, seconds * 1e3,
                 ZR_MEMORY_UPDATE_BYTES(states) * (double)s->count / seconds * 1e-9,
                 zr_median(ratios, ROUNDS));
    return ZERO_OK;
}

static zero_status measure_all(const zr_bench *bench, shard *s, zero_error *error)
{
    ZERO_TRY(measure_kernels(bench, s, error));
    ZERO_TRY(measure_states(bench, s, ZERO_BF16, "states in bf16", error));
    return measure_states(bench, s, ZERO_U8, "states in 8 bits", error);
}

zero_status zr_bench_optimizer(const zr_bench *bench, const zero_bench_options *options,
                               zero_error *error)
{
    double parameters = options->parameters > 0 ? options->parameters : DEFAULT_ELEMENTS;
    zr_ledger ledger = {0};
    zr_arena arena = {0};
    int64_t batch = (int64_t)PART * PARTS;
    shard s = {.count = (int64_t)(parameters + (double)batch - 1) / batch * batch};
    ZERO_TRY(zr_queue_open("cpu", NULL, bench->meter.threads, &s.queue, error));
    zero_status status =
        zr_comm_agree(bench->meter.comm, reserve_shard(&s, &ledger, &arena, error), error);
    if (status == ZERO_OK)
        status = measure_all(bench, &s, error);
    zr_arena_destroy(&arena);
    if (status == ZERO_OK)
        status = zr_bench_orthogonal(bench, s.queue, parameters, error);
    zr_queue_close(s.queue);
    return status;
}
