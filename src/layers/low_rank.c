#include "layers/low_rank.h"

#include "layers/linear.h"
#include "layers/magnitude.h"

typedef struct buffers {
    float *wide;   // (rows, rank) t or u before the factor; in fp32 it is `t` or `u` itself
    void *t, *u;   // (rows, rank)
    void *x;       // (rows, in) what the adapter reads, if that is not x
    float *sum;    // (rows, in) or (rows, out): see zr_low_rank_sum
    float *masked; // (rows, in) what is added to dx, if dropout applies to it; else NULL
} buffers;

static bool reads_copy(const zr_linear *linear)
{
    return linear->gelu || linear->low_rank.dropout > 0;
}

static size_t lay_out(const zr_linear *linear, void *base, buffers *out)
{
    zr_carver carver = {.base = base};
    int64_t small = linear->rows * linear->low_rank.rank;
    bool narrow = linear->dtype != ZERO_F32;
    out->t = zr_carve_as(&carver, linear->dtype, small);
    out->u = zr_carve_as(&carver, linear->dtype, small);
    out->wide = narrow ? zr_carve_floats(&carver, small) : NULL;
    out->x =
        reads_copy(linear) ? zr_carve_as(&carver, linear->dtype, linear->rows * linear->in) : NULL;
    out->sum =
        narrow ? zr_carve_floats(&carver, linear->rows * ZR_MAX(linear->in, linear->out)) : NULL;
    out->masked =
        linear->low_rank.dropout > 0 ? zr_carve_floats(&carver, linear->rows * linear->in) : NULL;
    return carver.used;
}

size_t zr_low_rank_scratch(const zr_linear *linear)
{
    buffers unused;
    return linear->low_rank.rank ? lay_out(linear, NULL, &unused) : 0;
}

float *zr_low_rank_sum(const zr_linear *linear, void *scratch)
{
    buffers at;
    lay_out(linear, scratch, &at);
    return at.sum;
}

// ---- the products, all but the last two of what a row computes ----

static zr_product product_t(const zr_linear *linear) // x A^T
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .m = linear->rows,
                        .n = linear->low_rank.rank,
                        .k = linear->in,
                        .trans_b = true};
}

static zr_product product_y(const zr_linear *linear) // t B^T
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .add = true,
                        .m = linear->rows,
                        .n = linear->out,
                        .k = linear->low_rank.rank,
                        .trans_b = true};
}

static zr_product product_u(const zr_linear *linear) // dy B
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .m = linear->rows,
                        .n = linear->low_rank.rank,
                        .k = linear->out};
}

static zr_product product_dx(const zr_linear *linear) // u A
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .add = true,
                        .m = linear->rows,
                        .n = linear->in,
                        .k = linear->low_rank.rank};
}

static zr_product product_da(const zr_linear *linear) // u^T x
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .m = linear->low_rank.rank,
                        .n = linear->in,
                        .k = linear->rows,
                        .trans_a = true};
}

static zr_product product_db(const zr_linear *linear) // dy^T t
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .m = linear->out,
                        .n = linear->low_rank.rank,
                        .k = linear->rows,
                        .trans_a = true};
}

// ---- forward ----

// Returns what the adapter reads: x, or gelu and dropout of it.
static const void *read_input(zero_context *context, const zr_linear *linear, const void *x,
                              const buffers *at)
{
    zr_queue *queue = context->queue;
    int64_t n = linear->rows * linear->in;
    const zr_dropout dropout = {.from = linear->dtype,
                                .to = linear->dtype,
                                .n = n,
                                .p = linear->low_rank.dropout,
                                .mask = linear->low_rank.mask};
    if (linear->gelu) {
        zr_run(queue, zr_op_gelu_forward(&(zr_elements){linear->dtype, n}, x, at->x));
        x = at->x;
    }
    if (dropout.p > 0) {
        zr_run(queue, zr_op_dropout(&dropout, context->values, x, at->x));
        x = at->x;
    }
    return x;
}

// out(rows, rank) = s a op(b)
static void multiply_small(zero_context *context, const zr_linear *linear,
                           const zr_product *product, const void *a, const void *b,
                           const buffers *at, void *out)
{
    float *wide = at->wide ? at->wide : out;
    const zr_scaling scaling = {
        .to = linear->dtype, .n = product->m * product->n, .by = linear->low_rank.scale};
    zr_run(context->queue, zr_op_product(product, a, b, NULL, wide));
    zr_run(context->queue, zr_op_scale(&scaling, wide, out));
}

const void *zr_low_rank_input(zero_context *context, const zr_linear *linear, const void *x,
                              void *scratch)
{
    buffers at;
    lay_out(linear, scratch, &at);
    return read_input(context, linear, x, &at);
}

void zr_low_rank_forward(zero_context *context, const zr_linear *linear, const void *x, float *y,
                         void *scratch)
{
    const zr_low_rank *of = &linear->low_rank;
    const zr_product t = product_t(linear), product = product_y(linear);
    buffers at;
    if (!of->rank)
        return;
    lay_out(linear, scratch, &at);
    multiply_small(context, linear, &t, read_input(context, linear, x, &at),
                   zr_tensor_values(context, of->a, 0), &at, at.t);
    zr_run(context->queue,
           zr_op_product(&product, at.t, zr_tensor_values(context, of->b, 0), NULL, y));
}

// ---- backward ----

static void compute_u(zero_context *context, const zr_linear *linear, const void *dy,
                      const buffers *at)
{
    const zr_product u = product_u(linear);
    multiply_small(context, linear, &u, dy, zr_tensor_values(context, linear->low_rank.b, 0), at,
                   at->u);
}

// d: the gradient of A or B, or a slice's part of it.
static void compute_gradient(zero_context *context, zr_product product, const void *a,
                             const void *b, const zr_tensor_handle *tensor, float *part)
{
    int add = 0;
    float *d = part ? part : zr_tensor_gradient(context, tensor, 0, &add);
    product.add = add;
    zr_run(context->queue, zr_op_product(&product, a, b, NULL, d));
}

void zr_low_rank_backward_tensors(zero_context *context, const zr_linear *linear, const void *x,
                                  const void *dy, void *scratch)
{
    const zr_low_rank *of = &linear->low_rank;
    const zr_product t = product_t(linear);
    buffers at;
    if (!of->rank)
        return;
    lay_out(linear, scratch, &at);
    const void *read = read_input(context, linear, x, &at);
    compute_u(context, linear, dy, &at);
    multiply_small(context, linear, &t, read, zr_tensor_values(context, of->a, 0), &at, at.t);
    compute_gradient(context, product_db(linear), dy, at.t, of->b, of->part_b);
    // Of slices that share outputs, one computes the part of what all slices read.
    if (!of->part_a || !linear->flows_elsewhere)
        compute_gradient(context, product_da(linear), at.u, read, of->a, of->part_a);
}

// dx += what comes through x after dropout, where that has kept elements.
static void add_masked(zero_context *context, const zr_linear *linear, zr_product product,
                       const void *a, const buffers *at, float *dx, void *scratch)
{
    zr_queue *queue = context->queue;
    int64_t n = linear->rows * linear->in;
    const zr_dropout dropout = {.from = ZERO_F32,
                                .to = ZERO_F32,
                                .n = n,
                                .p = linear->low_rank.dropout,
                                .mask = linear->low_rank.mask};
    product.add = zr_linear_has_magnitude(linear);
    if (product.add)
        zr_magnitude_backward_input(context, linear, at->masked, scratch);
    zr_run(queue, zr_op_product(&product, at->u, a, NULL, at->masked));
    zr_run(queue, zr_op_dropout(&dropout, context->values, at->masked, at->masked));
    zr_run(queue, zr_op_add(&(zr_sum){ZERO_F32, ZERO_F32, n}, dx, at->masked, dx));
}

void zr_low_rank_backward_input(zero_context *context, const zr_linear *linear, const void *dy,
                                float *dx, bool again, void *scratch)
{
    const zr_low_rank *of = &linear->low_rank;
    const zr_product product = product_dx(linear);
    buffers at;
    if (!of->rank)
        return;
    lay_out(linear, scratch, &at);
    if (again)
        compute_u(context, linear, dy, &at);
    const void *a = zr_tensor_values(context, of->a, 0);
    if (at.masked)
        add_masked(context, linear, product, a, &at, dx, scratch);
    else
        zr_run(context->queue, zr_op_product(&product, at.u, a, NULL, dx));
}

// ---- sizes ----

void zr_low_rank_products(const zr_linear *linear, bool training, zero_unit_sizes *sizes)
{
    // Those of backward: u, t again, dB, dA, dx; the last two are another slice's if it computes
    // dx.
    const zr_product forward[] = {product_t(linear), product_y(linear)},
                     backward[] = {product_u(linear), product_t(linear), product_db(linear),
                                   product_da(linear), product_dx(linear)};
    if (!linear->low_rank.rank)
        return;
    for (int i = 0; i < ZR_COUNT(forward); i++)
        zr_product_append(sizes, &forward[i], 1, true);
    int count = linear->flows_elsewhere ? ZR_COUNT(backward) - 2 : ZR_COUNT(backward);
    for (int i = 0; i < count && training; i++)
        zr_product_append(sizes, &backward[i], 1, true);
}

void zr_low_rank_read_in_backward(const zr_linear *linear, zero_unit_sizes *sizes)
{
    if (!linear->low_rank.rank)
        return;
    zr_tensor_read_in_backward(linear->low_rank.a, sizes);
    zr_tensor_read_in_backward(linear->low_rank.b, sizes);
    if (!zr_linear_has_magnitude(linear))
        return;
    zr_tensor_read_in_backward(linear->low_rank.magnitude, sizes);
    zr_weight_read_in_backward(linear, sizes);
}
