// `zero bench gemm`: the products of GPT-2 124M at 1,024 tokens, forward, input gradient and weight gradient.
#include "api/bench.h"
#include "memory/arena.h"

typedef struct product_work {
    zr_queue *queue;
    zr_product product;
    float *a, *b, *bias, *d;
} product_work;

static zero_status multiply(void *user, zero_error *error)
{
    product_work *w = user;
    return w->queue->backend->product->run(w->queue, &w->product, w->a, w->b, w->bias, w->d, error);
}

static zero_status reserve(product_work *w, zr_ledger *ledger, zr_arena *arena, zero_error *error)
{
    const zr_product *p = &w->product;
    size_t scratch = w->queue->backend->product->scratch(w->queue, p);
    size_t a = sizeof(float) * (size_t)(p->m * p->k), b = sizeof(float) * (size_t)(p->k * p->n), d = sizeof(float) * (size_t)(p->m * p->n);
    size_t bias = sizeof(float) * (size_t)p->n;
    ZERO_TRY(zr_arena_create(ledger, ZR_HOST, ZERO_MEM_workspace, a + b + d + bias + scratch + 5 * ZR_ALIGN, arena, error));
    w->a = zr_arena_take(arena, a);
    w->b = zr_arena_take(arena, b);
    w->d = zr_arena_take(arena, d);
    w->bias = zr_arena_take(arena, bias);
    w->queue->scratch = zr_arena_take(arena, scratch);
    w->queue->scratch_bytes = scratch;
    for (int64_t i = 0; i < p->m * p->k; i++)
        w->a[i] = (float)(i % 17) * 0.01f;
    for (int64_t i = 0; i < p->k * p->n; i++)
        w->b[i] = (float)(i % 13) * 0.01f;
    return ZERO_OK;
}

static zero_status measure(const zr_bench *bench, zr_queue *queue, const char *name, const zr_product *product, zero_error *error)
{
    zr_ledger ledger = {0};
    zr_arena arena = {0};
    product_work work = {.queue = queue, .product = *product};
    double seconds = 0;
    zero_status status = reserve(&work, &ledger, &arena, error);
    if (status == ZERO_OK)
        status = zr_bench_time(bench, multiply, &work, &seconds, error);
    zr_arena_destroy(&arena);
    ZERO_TRY(status);
    double flops = 2.0 * (double)product->m * (double)product->n * (double)product->k;
    zr_bench_say(bench, "%-26s %6lld x %6lld x %6lld  %8.2f ms  %8.1f GF/s\n", name, (long long)product->m, (long long)product->n, (long long)product->k,
                 seconds * 1e3, flops / seconds * 1e-9);
    return ZERO_OK;
}

static zero_status measure_all(const zr_bench *bench, zr_queue *queue, zero_error *error)
{
    enum { TOKENS = 1024, WIDTH = 768 };
    static const struct {
        const char *name;
        int64_t m, n, k;
        bool trans_a, trans_b;
        zr_epilogue epilogue;
    } rows[] = {
        {"c_attn forward", TOKENS, 3 * WIDTH, WIDTH, false, false, ZR_EPILOGUE_BIAS},
        {"c_attn input gradient", TOKENS, WIDTH, 3 * WIDTH, false, true, ZR_EPILOGUE_NONE},
        {"c_attn weight gradient", WIDTH, 3 * WIDTH, TOKENS, true, false, ZR_EPILOGUE_NONE},
        {"attn.c_proj forward", TOKENS, WIDTH, WIDTH, false, false, ZR_EPILOGUE_BIAS},
        {"c_fc forward", TOKENS, 4 * WIDTH, WIDTH, false, false, ZR_EPILOGUE_BIAS},
        {"c_fc weight gradient", WIDTH, 4 * WIDTH, TOKENS, true, false, ZR_EPILOGUE_NONE},
        {"mlp.c_proj forward", TOKENS, WIDTH, 4 * WIDTH, false, false, ZR_EPILOGUE_BIAS},
        {"mlp.c_proj input gradient", TOKENS, 4 * WIDTH, WIDTH, false, true, ZR_EPILOGUE_NONE},
        {"logits, 256 tokens", 256, 50257, WIDTH, false, true, ZR_EPILOGUE_NONE},
        {"decode c_fc, 1 token", 1, 4 * WIDTH, WIDTH, false, false, ZR_EPILOGUE_BIAS},
    };
    zr_bench_say(bench, "backend %s, %s; fp32\n%-26s %24s\n", queue->backend->name, queue->backend->path(), "product", "m x n x k");
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        zr_product product = {.dtype = ZERO_F32, .m = rows[i].m, .n = rows[i].n, .k = rows[i].k, .trans_a = rows[i].trans_a, .trans_b = rows[i].trans_b,
                              .epilogue = rows[i].epilogue};
        ZERO_TRY(measure(bench, queue, rows[i].name, &product, error));
    }
    return ZERO_OK;
}

zero_status zr_bench_gemm(const zr_bench *bench, zero_error *error)
{
    zr_queue *queue = NULL;
    ZERO_TRY(zr_queue_open("cpu", NULL, bench->threads, &queue, error));
    zero_status status = measure_all(bench, queue, error);
    zr_queue_close(queue);
    return status;
}
