// `zero bench gemm`: the matrix products of GPT-2 124M at 1,024 tokens (forward, input gradient and
// weight gradient), and their share of the rate at which the threads multiply and add without
// touching memory, measured in the same run.
#include "base/dtype.h"
#include "compute/compute.h"
#include "memory/arena.h"
#include "plan/plan_settings.h"
#include "commands/bench_shared.h"

#include <string.h>

typedef struct product_work {
    zr_queue *queue;
    zr_product product;
    void *a, *b, *bias, *d;
} product_work;

static zero_status run_product(void *user, zero_error *error)
{
    product_work *w = user;
    zr_run(w->queue, zr_op_product(&w->product, w->a, w->b, w->bias, w->d));
    return zr_queue_check(w->queue, error);
}

// Fills in small numbers that repeat every `period` elements, in the type of the operand.
static void fill_operand(zero_dtype dtype, int64_t count, int period, void *out)
{
    for (int64_t i = 0; i < count; i++) {
        const float value = (float)(i % period) * 0.01f;
        zr_narrow(dtype, &value, 1, (char *)out + i * (int64_t)zero_dtype_bytes(dtype));
    }
}

static zero_status reserve_product(product_work *w, zr_ledger *ledger, zr_arena *arena,
                                   zero_error *error)
{
    const zr_product *p = &w->product;
    size_t scratch = zr_op_scratch(w->queue, zr_op_product(p, NULL, NULL, NULL, NULL)),
           size = zero_dtype_bytes(p->dtype);
    size_t a = size * (size_t)(p->m * p->k), b = size * (size_t)(p->k * p->n),
           d = zero_dtype_bytes(p->out) * (size_t)(p->m * p->n);
    size_t bias = size * (size_t)p->n;
    ZERO_TRY(zr_arena_on_host(ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                              a + b + d + bias + scratch + 5 * ZR_ALIGN, arena, error));
    w->a = zr_arena_take(arena, a);
    w->b = zr_arena_take(arena, b);
    w->d = zr_arena_take(arena, d);
    w->bias = zr_arena_take(arena, bias);
    w->queue->scratch = zr_arena_take(arena, scratch);
    w->queue->scratch_bytes = scratch;
    fill_operand(p->dtype, p->m * p->k, 17, w->a);
    fill_operand(p->dtype, p->k * p->n, 13, w->b);
    memset(w->bias, 0, bias);
    return ZERO_OK;
}

static zero_status measure_product(const zr_bench *bench, zr_queue *queue, double most,
                                   const char *name, const zr_product *product, zero_error *error)
{
    zr_ledger ledger = {0};
    zr_arena arena = {0};
    product_work work = {.queue = queue, .product = *product};
    double seconds = 0;
    zero_status status = reserve_product(&work, &ledger, &arena, error);
    if (status == ZERO_OK)
        status = zr_meter_time(&bench->meter, run_product, &work, &seconds, error);
    zr_arena_destroy(&arena);
    ZERO_TRY(status);
    double rate = 2.0 * (double)product->m * (double)product->n * (double)product->k / seconds;
    zr_bench_say(bench, "%-26s %s %6lld x %6lld x %6lld  %8.2f ms  %8.1f GF/s  %5.1f%%\n", name,
                 zr_precision_of(product->dtype, 1).name, (long long)product->m,
                 (long long)product->n, (long long)product->k, seconds * 1e3, rate * 1e-9,
                 100 * rate / most);
    return ZERO_OK;
}

typedef struct row {
    const char *name;
    int64_t m, n, k;
    bool trans_a, trans_b;
    zr_epilogue epilogue;
    bool typed; // also measured in the 16-bit types
} row;

enum { TOKENS = 1024, WIDTH = 768 };

static const row rows[] = {
    {"c_attn forward", TOKENS, 3 * WIDTH, WIDTH, false, false, ZR_EPILOGUE_BIAS, false},
    {"c_attn input gradient", TOKENS, WIDTH, 3 * WIDTH, false, true, ZR_EPILOGUE_NONE, false},
    {"c_attn weight gradient", WIDTH, 3 * WIDTH, TOKENS, true, false, ZR_EPILOGUE_NONE, false},
    {"attn.c_proj forward", TOKENS, WIDTH, WIDTH, false, false, ZR_EPILOGUE_BIAS, false},
    {"c_fc forward", TOKENS, 4 * WIDTH, WIDTH, false, false, ZR_EPILOGUE_BIAS, true},
    {"c_fc weight gradient", WIDTH, 4 * WIDTH, TOKENS, true, false, ZR_EPILOGUE_NONE, true},
    {"mlp.c_proj forward", TOKENS, WIDTH, 4 * WIDTH, false, false, ZR_EPILOGUE_BIAS, false},
    {"mlp.c_proj input gradient", TOKENS, 4 * WIDTH, WIDTH, false, true, ZR_EPILOGUE_NONE, false},
    {"logits, 256 tokens", 256, 50257, WIDTH, false, true, ZR_EPILOGUE_NONE, false},
    {"decode c_fc, 1 token", 1, 4 * WIDTH, WIDTH, false, false, ZR_EPILOGUE_BIAS, false},
};

static zero_status measure_all(const zr_bench *bench, zr_queue *queue, zero_error *error)
{
    double most = zr_bench_peak(queue) * queue->threads;
    zr_bench_say(
        bench,
        "backend %s, %s; %d x %.1f GF/s multiply and add in fp32 registers\n%-31s %24s %24s %14s\n",
        queue->backend->name, queue->backend->path(), queue->threads, most / queue->threads * 1e-9,
        "product", "m x n x k", "", "of these");
    for (int i = 0; i < ZR_COUNT(rows); i++)
        for (zero_dtype dtype = ZERO_F32; dtype <= (rows[i].typed ? ZERO_F16 : ZERO_F32); dtype++) {
            zr_product product = {.dtype = dtype,
                                  .out = rows[i].trans_a ? ZERO_F32 : dtype,
                                  .m = rows[i].m,
                                  .n = rows[i].n,
                                  .k = rows[i].k,
                                  .trans_a = rows[i].trans_a,
                                  .trans_b = rows[i].trans_b,
                                  .epilogue = rows[i].epilogue};
            ZERO_TRY(measure_product(bench, queue, most, rows[i].name, &product, error));
        }
    return ZERO_OK;
}

zero_status zr_bench_gemm(const zr_bench *bench, const zero_bench_options *options,
                          zero_error *error)
{
    zr_queue *queue = NULL;
    ZERO_TRY(zr_queue_open("cpu", NULL, bench->meter.threads, &queue, error));
    zero_status status = measure_all(bench, queue, error);
    zr_queue_close(queue);
    return status;
}
