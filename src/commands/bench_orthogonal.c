// `zero bench optimizer`: Muon's iteration on a wide, a tall and a square matrix, and how much of
// its products' rate it reaches: these are measured once more with all other operations left out.
#include "engine/orthogonal.h"
#include "base/dtype.h"
#include "base/random.h"
#include "comm/agreement.h"
#include "memory/arena.h"
#include "commands/bench_shared.h"

#include <math.h>

enum { MOST_UNIT = 256, LEAST_UNIT = 16 };

typedef struct matrix_work {
    zr_queue *queue;
    zr_orthogonal of;
    uint16_t *matrix;
    void *workspace;
} matrix_work;

static zero_status run_iteration(void *user, zero_error *error)
{
    matrix_work *w = user;
    zr_orthogonal_run(w->queue, &w->of, w->matrix, w->workspace);
    return zr_queue_check(w->queue, error);
}

static void run_if_product(void *user, zr_queue *queue, const zr_op *op)
{
    if (op->kind == ZR_OP_product)
        queue->backend->run(queue, op);
}

static zero_status reserve_matrix(matrix_work *w, zr_ledger *ledger, zr_arena *arena,
                                  zero_error *error)
{
    int64_t elements = w->of.rows * w->of.cols;
    size_t matrix = (size_t)elements * sizeof(uint16_t),
           workspace = (size_t)zr_orthogonal_workspace(&w->of),
           scratch = zr_orthogonal_scratch(w->queue, &w->of);
    ZERO_TRY(zr_arena_on_host(ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                              matrix + workspace + scratch + 3 * ZR_ALIGN, arena, error));
    w->matrix = zr_arena_take(arena, matrix);
    w->workspace = zr_arena_take(arena, workspace);
    w->queue->scratch = zr_arena_take(arena, scratch);
    w->queue->scratch_bytes = scratch;
    // In the workspace there is room for the numbers in fp32.
    zr_random_normal(1, 0, elements, 1, w->workspace);
    zr_narrow(ZERO_BF16, w->workspace, elements, w->matrix);
    return ZERO_OK;
}

static zero_status time_products(const zr_bench *bench, matrix_work *w, double *seconds,
                                 zero_error *error)
{
    zr_wrapper *wrapper = NULL;
    ZERO_TRY(zr_comm_agree(bench->meter.comm,
                           zr_queue_wrap(w->queue, run_if_product, NULL, &wrapper, error), error));
    zero_status status = zr_meter_time(&bench->meter, run_iteration, w, seconds, error);
    zr_queue_unwrap(w->queue, wrapper);
    return status;
}

static zero_status measure_matrix(const zr_bench *bench, matrix_work *w, zero_error *error)
{
    double whole = 0, products = 0, flops = zr_orthogonal_flops(&w->of);
    ZERO_TRY(zr_meter_time(&bench->meter, run_iteration, w, &whole, error));
    ZERO_TRY(time_products(bench, w, &products, error));
    bool gram = w->of.method == ZR_ORTHOGONAL_GRAM;
    zr_bench_say(bench,
                 "%-8s %s %6lld x %6lld  %10.2f ms  %8.1f GF/s  %.3f of its products' rate\n",
                 gram ? "gram" : "standard", gram ? "fp16" : "bf16", (long long)w->of.rows,
                 (long long)w->of.cols, whole * 1e3, flops / whole * 1e-9, products / whole);
    return ZERO_OK;
}

static zero_status measure_shape(const zr_bench *bench, zr_queue *queue, const zr_orthogonal *of,
                                 zero_error *error)
{
    zr_ledger ledger = {0};
    zr_arena arena = {0};
    matrix_work w = {.queue = queue, .of = *of};
    zero_status status =
        zr_comm_agree(bench->meter.comm, reserve_matrix(&w, &ledger, &arena, error), error);
    if (status == ZERO_OK)
        status = measure_matrix(bench, &w, error);
    zr_arena_destroy(&arena);
    return status;
}

zero_status zr_bench_orthogonal(const zr_bench *bench, zr_queue *queue, double parameters,
                                zero_error *error)
{
    static const struct {
        int64_t rows, cols; // units
    } shapes[] = {{3, 12}, {12, 3}, {4, 4}};
    int64_t unit = (int64_t)sqrt(parameters / 36) / LEAST_UNIT * LEAST_UNIT;
    unit = ZR_MAX(LEAST_UNIT, ZR_MIN(unit, MOST_UNIT));
    zr_bench_say(bench, "Muon's iteration:\n");
    for (int s = 0; s < ZR_COUNT(shapes); s++)
        for (int method = ZR_ORTHOGONAL_STANDARD; method <= ZR_ORTHOGONAL_GRAM; method++) {
            zr_orthogonal of = zr_orthogonal_standard(shapes[s].rows * unit, shapes[s].cols * unit);
            of.method = (zr_orthogonal_method)method;
            ZERO_TRY(measure_shape(bench, queue, &of, error));
        }
    return ZERO_OK;
}
