// Linear: one product in forward; two products and a column sum in backward.
//
// If the weight is tiled by outputs (memory-centric tiling, ZeRO-Infinity section 5.1.3), each
// tile's products read and write dense operands that are copied from and to the columns of y and
// dy. So y, dW and db have the same bits as without tiles. dx is a sum over tiles in fp32.
//
// The product or the column sum of a gradient is omitted if its tensor does not train.
#include "compute/compute.h"
#include "layers/linear.h"
#include "layers/magnitude.h"

bool zr_linear_is_tiled(const zr_linear *linear) { return linear->weight->tiles > 1; }

bool zr_linear_trains(const zr_linear *linear)
{
    return linear->weight->trains || linear->bias->trains || linear->low_rank.rank;
}

static int64_t tile_columns(const zr_linear *linear, int tile)
{
    return ZR_MIN(linear->weight->step, linear->out - tile * linear->weight->step);
}

static zr_product product_forward(const zr_linear *linear, int64_t columns)
{
    return (zr_product){
        .dtype = linear->dtype,
        .out = linear->dtype,
        .m = linear->rows,
        .n = columns,
        .k = linear->in,
        .trans_b = linear->outputs_first,
        .format = linear->quantised.format,
        .gelu_a = linear->gelu,
        .epilogue = zr_tensor_exists(linear->bias) ? ZR_EPILOGUE_BIAS : ZR_EPILOGUE_NONE,
    };
}

static zr_product product_input(const zr_linear *linear) // dx = dy W^T
{
    return (zr_product){
        .dtype = linear->dtype,
        .out = linear->dtype,
        .m = linear->rows,
        .n = linear->in,
        .k = linear->out,
        .trans_b = !linear->outputs_first,
        .format = linear->quantised.format,
        .epilogue = linear->gelu ? ZR_EPILOGUE_GELU_BACKWARD : ZR_EPILOGUE_NONE,
    };
}

// dx += dy_t W_t^T, fp32, where t is some of the columns, or all
static zr_product product_sum_input(const zr_linear *linear, int64_t columns, bool add)
{
    return (zr_product){
        .dtype = linear->dtype,
        .out = ZERO_F32,
        .m = linear->rows,
        .n = linear->in,
        .k = columns,
        .trans_b = !linear->outputs_first,
        .format = linear->quantised.format,
        .add = add,
    };
}

// dW = x^T dy, fp32; dy^T x with outputs_first
static zr_product product_weight(const zr_linear *linear, int64_t columns)
{
    return (zr_product){
        .dtype = linear->dtype,
        .out = ZERO_F32,
        .m = linear->outputs_first ? columns : linear->in,
        .n = linear->outputs_first ? linear->in : columns,
        .k = linear->rows,
        .trans_a = true,
        .gelu_a = linear->gelu,
    };
}

// Overlaps the scratch of the column sum, which has been computed before the tiles begin.
typedef struct tile_scratch {
    void *columns; // (rows, step) of y or dy, dense
    float *dx;     // (rows, in)
} tile_scratch;

static size_t lay_out_tile_scratch(const zr_linear *linear, void *base, tile_scratch *out)
{
    zr_carver carver = {.base = base};
    out->columns = zr_carve_as(&carver, linear->dtype, linear->rows * linear->weight->step);
    out->dx = zr_carve_floats(&carver, linear->rows * linear->in);
    return carver.used;
}

size_t zr_linear_scratch(const zr_linear *linear, const zr_backend *backend, int threads)
{
    tile_scratch unused;
    size_t own = zr_scratch_column_sum(backend, threads, linear->rows, linear->out);
    if (zr_linear_is_tiled(linear))
        own = ZR_MAX(own, lay_out_tile_scratch(linear, NULL, &unused));
    return zr_low_rank_scratch(linear) + zr_magnitude_scratch(linear) + zr_weight_scratch(linear) +
           own;
}

// The adapter's scratch comes first, because it keeps values while the linear uses its own.
void *zr_linear_weight_scratch(const zr_linear *linear, void *scratch)
{
    size_t before = zr_low_rank_scratch(linear) + zr_magnitude_scratch(linear);
    return scratch ? (char *)scratch + before : NULL;
}

static void *own_scratch(const zr_linear *linear, void *scratch)
{
    return scratch ? (char *)zr_linear_weight_scratch(linear, scratch) + zr_weight_scratch(linear)
                   : NULL;
}

static char *columns_of_tile(const zr_linear *linear, const void *matrix, int tile)
{
    return (char *)matrix + tile * linear->weight->step * (int64_t)zero_dtype_bytes(linear->dtype);
}

static void forward_tile(zero_context *context, const zr_linear *linear, int tile, const void *x,
                         void *y, const tile_scratch *scratch)
{
    zr_queue *queue = context->queue;
    int64_t size = (int64_t)zero_dtype_bytes(linear->dtype), columns = tile_columns(linear, tile);
    const zr_product product = product_forward(linear, columns);
    const void *bias = zr_tensor_values(context, linear->bias, 0);
    const void *weight = zr_tensor_values(context, linear->weight, tile);
    zr_run(queue,
           zr_op_product(&product, x, weight, bias ? columns_of_tile(linear, bias, tile) : NULL,
                         scratch->columns));
    zr_columns_copy(queue, linear->rows, columns * size, scratch->columns, columns * size,
                    columns_of_tile(linear, y, tile), linear->out * size);
}

static zero_status forward_tiles(zero_context *context, const zr_linear *linear, const void *x,
                                 void *y, void *scratch)
{
    tile_scratch tiles;
    lay_out_tile_scratch(linear, own_scratch(linear, scratch), &tiles);
    for (int t = 0; t < linear->weight->tiles; t++) {
        ZERO_TRY(zr_tensor_acquire(context, linear->weight, t));
        forward_tile(context, linear, t, x, y, &tiles);
        ZERO_TRY(zr_tensor_release(context, linear->weight, t));
    }
    return ZERO_OK;
}

// y is of `type`: the linear's, or fp32.
static void forward_whole(zero_context *context, const zr_linear *linear, const void *x,
                          zero_dtype type, void *y, void *scratch)
{
    zr_product product = product_forward(linear, linear->out);
    product.out = type;
    zr_weight_multiply(context, linear, &product, x, zr_tensor_values(context, linear->bias, 0), y,
                       zr_linear_weight_scratch(linear, scratch));
}

static void convert(zero_context *context, zero_dtype from, const void *x, zero_dtype to, int64_t n,
                    void *out)
{
    zr_run(context->queue, zr_op_convert(&(zr_conversion){.from = from, .to = to, .n = n}, x, out));
}

// Adds what the adapter does in fp32: to y itself, or in the scratch.
static zero_status forward_adapted(zero_context *context, const zr_linear *linear, const void *x,
                                   void *y, void *scratch)
{
    float *sum = zr_low_rank_sum(linear, scratch);
    int64_t n = linear->rows * linear->out;
    if (zr_linear_is_tiled(linear))
        ZERO_TRY(forward_tiles(context, linear, x, y, scratch));
    else
        forward_whole(context, linear, x, ZERO_F32, sum ? sum : y, scratch);
    if (sum && zr_linear_is_tiled(linear))
        convert(context, linear->dtype, y, ZERO_F32, n, sum);
    zr_low_rank_forward(context, linear, x, sum ? sum : y, scratch);
    if (sum)
        convert(context, ZERO_F32, sum, linear->dtype, n, y);
    return ZERO_OK;
}

zero_status zr_linear_forward(zero_context *context, const zr_linear *linear, const void *x,
                              void *y, void *scratch)
{
    if (zr_linear_has_magnitude(linear)) {
        zr_magnitude_forward(context, linear, x, linear->dtype, y, scratch);
        return ZERO_OK;
    }
    if (linear->low_rank.rank)
        return forward_adapted(context, linear, x, y, scratch);
    if (zr_linear_is_tiled(linear))
        return forward_tiles(context, linear, x, y, scratch);
    forward_whole(context, linear, x, linear->dtype, y, scratch);
    return ZERO_OK;
}

void zr_linear_forward_sum(zero_context *context, const zr_linear *linear, const void *x, float *y,
                           void *scratch)
{
    zr_product product = product_forward(linear, linear->out);
    product.out = ZERO_F32;
    product.epilogue = ZR_EPILOGUE_NONE;
    assert(!zr_linear_is_tiled(linear) && !zr_tensor_exists(linear->bias));
    if (zr_linear_has_magnitude(linear)) {
        zr_magnitude_forward(context, linear, x, ZERO_F32, y, scratch);
        return;
    }
    zr_weight_multiply(context, linear, &product, x, NULL, y,
                       zr_linear_weight_scratch(linear, scratch));
    zr_low_rank_forward(context, linear, x, y, scratch);
}

void zr_linear_backward_bias(zero_context *context, const zr_linear *linear, const void *dy,
                             void *scratch)
{
    zr_queue *queue = context->queue;
    int add = 0;
    float *d_bias = zr_tensor_gradient(context, linear->bias, 0, &add);
    if (d_bias)
        zr_run(queue, zr_op_column_sum(&(zr_matrix){.dtype = linear->dtype,
                                                    .rows = linear->rows,
                                                    .width = linear->out,
                                                    .add = add},
                                       dy, d_bias, own_scratch(linear, scratch)));
}

// dy: the tile's columns, dense.
static void backward_weight(zero_context *context, const zr_linear *linear, int tile, const void *x,
                            const void *dy)
{
    zr_queue *queue = context->queue;
    zr_product product = product_weight(linear, tile_columns(linear, tile));
    int add = 0;
    float *d_weight = zr_tensor_gradient(context, linear->weight, tile, &add);
    if (!d_weight)
        return;
    product.add = add;
    zr_run(queue, zr_op_product(&product, linear->outputs_first ? dy : x,
                                linear->outputs_first ? x : dy, NULL, d_weight));
}

static void backward_tile(zero_context *context, const zr_linear *linear, int tile, const void *x,
                          const void *dy, float *dx, bool add, void *columns_of_dy)
{
    zr_queue *queue = context->queue;
    int64_t size = (int64_t)zero_dtype_bytes(linear->dtype), columns = tile_columns(linear, tile);
    const zr_product input = product_sum_input(linear, columns, add);
    zr_columns_copy(queue, linear->rows, columns * size, columns_of_tile(linear, dy, tile),
                    linear->out * size, columns_of_dy, columns * size);
    backward_weight(context, linear, tile, x, columns_of_dy);
    zr_run(queue, zr_op_product(&input, columns_of_dy,
                                zr_tensor_values(context, linear->weight, tile), NULL, dx));
}

static zero_status backward_tiles(zero_context *context, const zr_linear *linear, const void *x,
                                  const void *dy, float *dx, bool add, void *columns)
{
    for (int t = linear->weight->tiles - 1; t >= 0; t--) {
        ZERO_TRY(zr_tensor_acquire(context, linear->weight, t));
        backward_tile(context, linear, t, x, dy, dx, add || t + 1 < linear->weight->tiles, columns);
        ZERO_TRY(zr_tensor_release(context, linear->weight, t));
    }
    return ZERO_OK;
}

typedef struct flows {      // the gradients (rows, out) of what is added up to y
    const void *of_weight;  // from which dx comes through the weight
    const void *of_adapter; // through the adapter
} flows;

static flows find_flows(zero_context *context, const zr_linear *linear, unsigned parts,
                        const void *x, const void *dy, void *scratch)
{
    if (!zr_linear_has_magnitude(linear))
        return (flows){dy, dy};
    const void *scaled =
        zr_magnitude_backward(context, linear, parts & ZR_BACKWARD_WEIGHT, x, dy, scratch);
    return (flows){linear->low_rank.dropout > 0 ? dy : scaled, scaled};
}

// Computes the gradients of weight and bias, unless they do not train; that of a weight in tiles
// follows with the tiles.
static void backward_tensors(zero_context *context, const zr_linear *linear, unsigned parts,
                             const void *x, const void *dy, const flows *d, void *scratch)
{
    if (!(parts & ZR_BACKWARD_WEIGHT))
        return;
    zr_linear_backward_bias(context, linear, dy, scratch);
    if (!zr_linear_is_tiled(linear))
        backward_weight(context, linear, 0, x, dy);
    zr_low_rank_backward_tensors(context, linear, x, d->of_adapter, scratch);
}

static void backward_input_whole(zero_context *context, const zr_linear *linear, const void *x,
                                 const void *dy, void *dx, void *scratch)
{
    const zr_product product = product_input(linear);
    zr_weight_multiply(context, linear, &product, dy, linear->gelu ? x : NULL, dx,
                       zr_linear_weight_scratch(linear, scratch));
}

// Sets dx, or adds to it: what comes through the weight, and through the adapter.
static zero_status backward_input_wide(zero_context *context, const zr_linear *linear,
                                       unsigned parts, const void *x, const flows *d, float *dx,
                                       bool add, void *scratch)
{
    const zr_product product = product_sum_input(linear, linear->out, add);
    tile_scratch tiles;
    lay_out_tile_scratch(linear, own_scratch(linear, scratch), &tiles);
    if (zr_linear_is_tiled(linear))
        ZERO_TRY(backward_tiles(context, linear, x, d->of_weight, dx, add, tiles.columns));
    else
        zr_weight_multiply(context, linear, &product, d->of_weight, NULL, dx,
                           zr_linear_weight_scratch(linear, scratch));
    zr_low_rank_backward_input(context, linear, d->of_adapter, dx, parts == ZR_BACKWARD_INPUT,
                               scratch);
    return ZERO_OK;
}

// Sums in fp32 what comes through tiles, or through weight and adapter, and rounds it once.
static zero_status backward_rounded(zero_context *context, const zr_linear *linear, unsigned parts,
                                    const void *x, const flows *d, void *dx, void *scratch)
{
    const zr_elements all = {.dtype = linear->dtype, .n = linear->rows * linear->in};
    float *sum = linear->low_rank.rank ? zr_low_rank_sum(linear, scratch) : NULL;
    tile_scratch tiles;
    lay_out_tile_scratch(linear, own_scratch(linear, scratch), &tiles);
    float *wide = zr_linear_is_tiled(linear) ? tiles.dx : sum ? sum : dx;
    ZERO_TRY(backward_input_wide(context, linear, parts, x, d, wide, false, scratch));
    if (wide != dx)
        convert(context, ZERO_F32, wide, linear->dtype, all.n, dx);
    if (linear->gelu)
        zr_run(context->queue, zr_op_gelu_backward(&all, x, dx));
    return ZERO_OK;
}

zero_status zr_linear_backward(zero_context *context, const zr_linear *linear, unsigned parts,
                               const void *x, const void *dy, void *dx, void *scratch)
{
    bool tiled = zr_linear_is_tiled(linear);
    assert(!linear->gelu || !linear->outputs_first);
    assert(!tiled || parts == ZR_BACKWARD_WHOLE);
    const flows d = find_flows(context, linear, parts, x, dy, scratch);
    backward_tensors(context, linear, parts, x, dy, &d, scratch);
    if (!(parts & ZR_BACKWARD_INPUT))
        return ZERO_OK;
    if (tiled || linear->low_rank.rank)
        return backward_rounded(context, linear, parts, x, &d, dx, scratch);
    backward_input_whole(context, linear, x, dy, dx, scratch);
    return ZERO_OK;
}

zero_status zr_linear_backward_sum(zero_context *context, const zr_linear *linear, unsigned parts,
                                   const void *x, const void *dy, float *dx, bool add,
                                   void *scratch)
{
    assert(!linear->gelu);
    assert(!zr_linear_is_tiled(linear) || parts == ZR_BACKWARD_WHOLE);
    const flows d = find_flows(context, linear, parts, x, dy, scratch);
    backward_tensors(context, linear, parts, x, dy, &d, scratch);
    return parts & ZR_BACKWARD_INPUT
               ? backward_input_wide(context, linear, parts, x, &d, dx, add, scratch)
               : ZERO_OK;
}

void *zr_linear_hold(const zr_linear *linear, zr_carver *held, void *otherwise)
{
    return zr_linear_trains(linear) ? zr_carve_as(held, linear->dtype, linear->rows * linear->out)
                                    : otherwise;
}

static bool is_same_product(const zero_product_shape *a, const zr_product *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->trans_a == b->trans_a &&
           a->trans_b == b->trans_b && a->format == (int)b->format;
}

void zr_product_append(zero_unit_sizes *sizes, const zr_product *product, int calls, bool again)
{
    for (int i = 0; again && i < sizes->product_count; i++)
        if (is_same_product(&sizes->products[i], product)) {
            sizes->products[i].calls += calls;
            return;
        }
    assert(sizes->product_count < ZERO_MAX_PRODUCTS);
    sizes->products[sizes->product_count++] = (zero_product_shape){.m = product->m,
                                                                   .n = product->n,
                                                                   .k = product->k,
                                                                   .trans_a = product->trans_a,
                                                                   .trans_b = product->trans_b,
                                                                   .calls = calls,
                                                                   .format = (int)product->format};
}

// input: the product for dx.
static void append_products(const zr_linear *linear, int64_t columns, int calls, bool training,
                            bool again, const zr_product *input, zero_unit_sizes *sizes)
{
    const zr_product forward = product_forward(linear, columns),
                     weight = product_weight(linear, columns);
    zr_product_append(sizes, &forward, calls, again);
    if (training && linear->weight->trains)
        zr_product_append(sizes, &weight, calls, again);
    if (training && !linear->flows_elsewhere)
        zr_product_append(sizes, input, calls, again);
}

static void append_tile_products(const zr_linear *linear, int64_t columns, int calls, bool training,
                                 zero_unit_sizes *sizes)
{
    const zr_product input = product_sum_input(linear, columns, true);
    append_products(linear, columns, calls, training, false, &input, sizes);
}

void zr_linear_products(const zr_linear *linear, bool training, bool again, zero_unit_sizes *sizes)
{
    int last = linear->weight->tiles - 1;
    const zr_product input = product_input(linear);
    if (training) { // dx reads the weight
        zr_weight_read_in_backward(linear, sizes);
        zr_low_rank_read_in_backward(linear, sizes);
    }
    if (linear->is_lent)
        return;
    zr_low_rank_products(linear, training, sizes);
    if (zr_linear_has_magnitude(linear))
        zr_magnitude_products(linear, training, sizes);
    if (!zr_linear_is_tiled(linear)) {
        append_products(linear, linear->out, 1, training, again, &input, sizes);
        return;
    }
    append_tile_products(linear, linear->weight->step, last, training, sizes);
    append_tile_products(linear, tile_columns(linear, last), 1, training, sizes);
}
