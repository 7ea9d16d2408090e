#include "layers/magnitude.h"

#include "layers/linear.h"

typedef struct buffers {
    float *squares, *factors, *inverse; // (out)
    float *across, *gram;               // (rank, out), (rank, rank)
    float *sum;                         // (rows, out): W x' + s B A x'
    float *past;                        // (rows, out): W x + (c - 1) W x', if dropout applies to x
    void *scaled;                       // (rows, out): c dy
    void *rest;                         // (rows, out): (c - 1) dy, if dropout applies to x
} buffers;

bool zr_linear_has_magnitude(const zr_linear *linear)
{
    return linear->low_rank.rank && zr_tensor_exists(linear->low_rank.magnitude);
}

static bool drops(const zr_linear *linear) { return linear->low_rank.dropout > 0; }

static size_t lay_out(const zr_linear *linear, void *base, buffers *out)
{
    zr_carver carver = {.base = base};
    int64_t rank = linear->low_rank.rank, all = linear->rows * linear->out;
    out->squares = zr_carve_floats(&carver, linear->out);
    out->factors = zr_carve_floats(&carver, linear->out);
    out->inverse = zr_carve_floats(&carver, linear->out);
    out->across = zr_carve_floats(&carver, rank * linear->out);
    out->gram = zr_carve_floats(&carver, rank * rank);
    out->sum = zr_carve_floats(&carver, all);
    out->past = drops(linear) ? zr_carve_floats(&carver, all) : NULL;
    out->scaled = zr_carve_as(&carver, linear->dtype, all);
    out->rest = drops(linear) ? zr_carve_as(&carver, linear->dtype, all) : NULL;
    return carver.used;
}

size_t zr_magnitude_scratch(const zr_linear *linear)
{
    buffers unused;
    return zr_linear_has_magnitude(linear) ? lay_out(linear, NULL, &unused) : 0;
}

// Finds the buffers behind the scratch of the adapter, which keeps values meanwhile.
static buffers buffers_in(const zr_linear *linear, void *scratch)
{
    buffers at;
    lay_out(linear, (char *)scratch + zr_low_rank_scratch(linear), &at);
    return at;
}

// ---- the products ----

static zr_product product_across(const zr_linear *linear) // A W^T
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .m = linear->low_rank.rank,
                        .n = linear->out,
                        .k = linear->in,
                        .trans_b = linear->outputs_first,
                        .format = linear->quantised.format};
}

static zr_product product_gram(const zr_linear *linear) // A A^T
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .m = linear->low_rank.rank,
                        .n = linear->low_rank.rank,
                        .k = linear->in,
                        .trans_b = true};
}

static zr_product product_sum(const zr_linear *linear, bool gelu) // W x
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .m = linear->rows,
                        .n = linear->out,
                        .k = linear->in,
                        .trans_b = linear->outputs_first,
                        .format = linear->quantised.format,
                        .gelu_a = gelu};
}

static zr_product product_rest(const zr_linear *linear) // (c - 1) dy W
{
    return (zr_product){.dtype = linear->dtype,
                        .out = ZERO_F32,
                        .m = linear->rows,
                        .n = linear->in,
                        .k = linear->out,
                        .trans_b = !linear->outputs_first,
                        .format = linear->quantised.format};
}

static void multiply(zero_context *context, const zr_linear *linear, const zr_product *product,
                     const void *a, float *d, void *scratch)
{
    zr_weight_multiply(context, linear, product, a, NULL, d,
                       zr_linear_weight_scratch(linear, scratch));
}

// ---- factors ----

static zr_magnitude magnitude_of(const zr_linear *linear)
{
    return (zr_magnitude){.dtype = linear->dtype,
                          .out = linear->out,
                          .rank = linear->low_rank.rank,
                          .scale = linear->low_rank.scale};
}

void zr_magnitude_squares(zero_context *context, const zr_linear *linear, float *squares,
                          void *scratch)
{
    const zr_product across = product_across(linear), gram = product_gram(linear);
    const zr_magnitude how = magnitude_of(linear);
    const buffers at = buffers_in(linear, scratch);
    const void *a = zr_tensor_values(context, linear->low_rank.a, 0);
    zr_weight_square_rows(context, linear, squares, zr_linear_weight_scratch(linear, scratch));
    multiply(context, linear, &across, a, at.across, scratch);
    zr_run(context->queue, zr_op_product(&gram, a, a, NULL, at.gram));
    zr_run(context->queue,
           zr_op_adapted_squares(&how, at.across, at.gram,
                                 zr_tensor_values(context, linear->low_rank.b, 0), squares));
}

static void find_factors(zero_context *context, const zr_linear *linear, const buffers *at,
                         void *scratch)
{
    const zr_low_rank *of = &linear->low_rank;
    const zr_magnitude how = magnitude_of(linear);
    if (!of->of_columns)
        zr_magnitude_squares(context, linear, at->squares, scratch);
    zr_run(context->queue, zr_op_magnitude_factors(&how, of->of_columns ? of->squares : at->squares,
                                                   zr_tensor_values(context, of->magnitude, 0),
                                                   at->factors, at->inverse));
}

// out = [past +] (c - less) x [+ bias]
static void scale(zero_context *context, const zr_linear *linear, zero_dtype from, zero_dtype to,
                  float less, const buffers *at, const void *x, const float *past, const void *bias,
                  void *out)
{
    const zr_column_scaling how = {
        .from = from, .to = to, .rows = linear->rows, .width = linear->out, .less = less};
    zr_run(context->queue, zr_op_scale_columns(&how, at->factors, x, past, bias, out));
}

// ---- forward ----

// past = W x + (c - 1) W x'; the sum is zeroed, for the adapter to be added to.
static void begin_dropped(zero_context *context, const zr_linear *linear, const void *x,
                          const buffers *at, void *scratch)
{
    const zr_product whole = product_sum(linear, linear->gelu), read = product_sum(linear, false);
    const zr_bytes all = {linear->rows * linear->out * (int64_t)sizeof(float)};
    multiply(context, linear, &whole, x, at->past, scratch);
    multiply(context, linear, &read, zr_low_rank_input(context, linear, x, scratch), at->sum,
             scratch);
    scale(context, linear, ZERO_F32, ZERO_F32, 1, at, at->sum, at->past, NULL, at->past);
    zr_run(context->queue, zr_op_fill(&all, at->sum));
}

void zr_magnitude_forward(zero_context *context, const zr_linear *linear, const void *x,
                          zero_dtype type, void *y, void *scratch)
{
    const zr_product product = product_sum(linear, linear->gelu);
    const buffers at = buffers_in(linear, scratch);
    find_factors(context, linear, &at, scratch);
    if (drops(linear))
        begin_dropped(context, linear, x, &at, scratch);
    else
        multiply(context, linear, &product, x, at.sum, scratch);
    zr_low_rank_forward(context, linear, x, at.sum, scratch);
    scale(context, linear, ZERO_F32, type, 0, &at, at.sum, at.past,
          zr_tensor_values(context, linear->bias, 0), y);
}

// ---- backward ----

static void compute_gradient(zero_context *context, const zr_linear *linear, const void *x,
                             const void *dy, const buffers *at, void *scratch)
{
    const zr_product product = product_sum(linear, linear->gelu && !drops(linear));
    int add = 0;
    float *part = linear->low_rank.part_magnitude,
          *d = part ? part : zr_tensor_gradient(context, linear->low_rank.magnitude, 0, &add);
    if (!d)
        return;
    const void *read = drops(linear) ? zr_low_rank_input(context, linear, x, scratch) : x;
    multiply(context, linear, &product, read, at->sum, scratch);
    zr_low_rank_forward(context, linear, x, at->sum, scratch);
    zr_run(context->queue, zr_op_column_products(&(zr_matrix){.dtype = linear->dtype,
                                                              .rows = linear->rows,
                                                              .width = linear->out,
                                                              .add = add},
                                                 at->inverse, dy, at->sum, d));
}

const void *zr_magnitude_backward(zero_context *context, const zr_linear *linear, bool trains,
                                  const void *x, const void *dy, void *scratch)
{
    const buffers at = buffers_in(linear, scratch);
    find_factors(context, linear, &at, scratch);
    if (trains)
        compute_gradient(context, linear, x, dy, &at, scratch);
    scale(context, linear, linear->dtype, linear->dtype, 0, &at, dy, NULL, NULL, at.scaled);
    if (drops(linear))
        scale(context, linear, linear->dtype, linear->dtype, 1, &at, dy, NULL, NULL, at.rest);
    return at.scaled;
}

void zr_magnitude_backward_input(zero_context *context, const zr_linear *linear, float *dx,
                                 void *scratch)
{
    const zr_product product = product_rest(linear);
    const buffers at = buffers_in(linear, scratch);
    multiply(context, linear, &product, at.rest, dx, scratch);
}

// ---- sizes ----

void zr_magnitude_products(const zr_linear *linear, bool training, zero_unit_sizes *sizes)
{
    const zr_product across = product_across(linear), gram = product_gram(linear),
                     sum = product_sum(linear, false), rest = product_rest(linear);
    int times = training && !linear->low_rank.of_columns ? 2 : 1;
    zr_product_append(sizes, &across, times, true);
    zr_product_append(sizes, &gram, times, true);
    if (training || drops(linear))
        zr_product_append(sizes, &sum, training + drops(linear), true);
    if (training && drops(linear) && !linear->flows_elsewhere)
        zr_product_append(sizes, &rest, 1, true);
    if (training) // what the adapter adds to the sum
        zr_low_rank_products(linear, false, sizes);
}
