#include "predict/meter.h"

#include "base/clock.h"
#include "base/numbers.h"
#include "comm/agreement.h"
#include "compute/compute.h"
#include "memory/arena.h"

enum { MOST_CALLS = 64, LEAST_CALLS = 5, MOST_SHAPES = 64 };
#define SECONDS_A_SHAPE 0.25

typedef struct shapes { // of a model, each shape once, with the calls of all units
    int count;
    zero_product_shape at[MOST_SHAPES];
} shapes;

static bool same_product_shape(const zero_product_shape *a, const zero_product_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->trans_a == b->trans_a &&
           a->trans_b == b->trans_b;
}

static double flops_of_product(const zero_product_shape *shape)
{
    return 2.0 * (double)shape->m * (double)shape->n * (double)shape->k;
}

static zero_status collect_product_shapes(const zr_plan *plan, shapes *out, zero_error *error)
{
    *out = (shapes){0};
    for (int u = 0; u < plan->unit_count; u++) {
        const zero_unit_sizes *sizes = &plan->units[u].sizes;
        for (int p = 0; p < sizes->product_count; p++) {
            int i = 0;
            while (i < out->count && !same_product_shape(&out->at[i], &sizes->products[p]))
                i++;
            if (i == MOST_SHAPES)
                return zr_fail(error, ZERO_ERR_LIMIT,
                               "a model with more than %d shapes of products", MOST_SHAPES);
            if (i == out->count) {
                out->at[out->count++] = sizes->products[p];
                continue;
            }
            out->at[i].calls += sizes->products[p].calls;
        }
    }
    return ZERO_OK;
}

typedef struct operands {
    zr_queue *queue;
    zr_arena arena;
    char *a, *b, *d;
} operands;

static zero_status allocate_operands(operands *o, zr_ledger *ledger, zero_dtype dtype,
                                     const shapes *shapes, zero_error *error)
{
    size_t a = 0, b = 0, d = 0, scratch = 0;
    for (int i = 0; i < shapes->count; i++) {
        const zero_product_shape *p = &shapes->at[i];
        size_t needed = zr_product_scratch(o->queue, dtype, p);
        a = ZR_MAX(a, (size_t)(p->m * p->k) * zero_dtype_bytes(dtype));
        b = ZR_MAX(b, (size_t)(p->k * p->n) * zero_dtype_bytes(dtype));
        d = ZR_MAX(d, (size_t)(p->m * p->n) * sizeof(float));
        scratch = ZR_MAX(scratch, needed);
    }
    ZERO_TRY(zr_arena_on_host(ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                              a + b + d + scratch + 4 * ZR_ALIGN, &o->arena, error));
    o->a = zr_arena_take(&o->arena, a);
    o->b = zr_arena_take(&o->arena, b);
    o->d = zr_arena_take(&o->arena, d);
    o->queue->scratch = zr_arena_take(&o->arena, scratch);
    o->queue->scratch_bytes = scratch;
    return ZERO_OK;
}

// Returns a product of a step: those with x^T (weight gradients) are in fp32, others in the storage
// type.
static zr_product product_of_shape(zero_dtype dtype, const zero_product_shape *shape)
{
    return (zr_product){.dtype = dtype,
                        .out = shape->trans_a ? ZERO_F32 : dtype,
                        .m = shape->m,
                        .n = shape->n,
                        .k = shape->k,
                        .trans_a = shape->trans_a,
                        .trans_b = shape->trans_b};
}

static zero_status time_shape(const zr_meter *meter, const operands *o, zero_dtype dtype,
                              const zero_product_shape *shape, zr_products_time *out,
                              zero_error *error)
{
    const zr_product product = product_of_shape(dtype, shape);
    double seconds[MOST_CALLS], total = 0;
    int calls = 0;
    zr_run(o->queue, zr_op_product(&product, o->a, o->b, NULL, o->d));
    ZERO_TRY(zr_comm_barrier(meter->comm, error));
    while (calls < LEAST_CALLS || (calls < MOST_CALLS && total < SECONDS_A_SHAPE)) {
        double begin = zr_clock_seconds();
        zr_run(o->queue, zr_op_product(&product, o->a, o->b, NULL, o->d));
        seconds[calls] = zr_clock_seconds() - begin;
        total += seconds[calls++];
    }
    ZERO_TRY(zr_queue_check(o->queue, error));
    out->median += shape->calls * zr_median(seconds, calls);
    out->best += shape->calls * seconds[0];
    out->flops += shape->calls * flops_of_product(shape);
    return ZERO_OK;
}

// Times every shape, together with the other ranks: one of a pipeline may have fewer shapes, and
// then waits as often as the others.
static zero_status time_shapes(const zr_meter *meter, const operands *o, zero_dtype dtype,
                               const shapes *shapes, zr_products_time *out, zero_error *error)
{
    int64_t most = shapes->count;
    ZERO_TRY(zr_comm_agree_on_largest(meter->comm, &most, error));
    for (int i = 0; i < shapes->count; i++)
        ZERO_TRY(time_shape(meter, o, dtype, &shapes->at[i], out, error));
    for (int64_t i = shapes->count; i < most; i++)
        ZERO_TRY(zr_comm_barrier(meter->comm, error));
    return ZERO_OK;
}

zero_status zr_products_measure(const zr_meter *meter, const zr_plan *plan, zr_products_time *out,
                                zero_error *error)
{
    zr_ledger ledger = {0};
    operands o = {0};
    shapes shapes;
    zero_dtype dtype = plan->settings.precision.activations;
    *out = (zr_products_time){0};
    ZERO_TRY(collect_product_shapes(plan, &shapes, error));
    ZERO_TRY(zr_queue_open("cpu", NULL, meter->threads, &o.queue, error));
    zero_status status =
        zr_comm_agree(meter->comm, allocate_operands(&o, &ledger, dtype, &shapes, error), error);
    if (status == ZERO_OK)
        status = time_shapes(meter, &o, dtype, &shapes, out, error);
    zr_arena_destroy(&o.arena);
    zr_queue_close(o.queue);
    return status;
}
