// Norms over a unit's gain, and its bias if it has one: LayerNorm and RMSNorm.
#include "compute/compute.h"
#include "layers/linear.h"

void zr_norm_forward(zero_context *context, const zr_norm_layer *layer, const void *x,
                     const void *branch, void *sum, void *y, zr_norm_statistics statistics)
{
    const void *bias = layer->norm.rms ? NULL : zr_tensor_values(context, layer->bias, 0);
    zr_run(context->queue, zr_op_norm_forward(&layer->norm, x, branch, sum,
                                              zr_tensor_values(context, layer->gain, 0), bias, y,
                                              statistics.mean, statistics.rstd));
}

// Computes the gradients of some rows; d_gamma, d_beta: NULL if not wanted.
static void rows_backward(zero_context *context, const zr_norm_layer *layer, const zr_norm *norm,
                          const zr_norm_gradient *of, float *d_gamma, float *d_beta, void *scratch)
{
    zr_run(context->queue,
           zr_op_norm_backward(norm, of->dy, of->x, zr_tensor_values(context, layer->gain, 0),
                               of->statistics.mean, of->statistics.rstd, of->past, of->dx, d_gamma,
                               d_beta, scratch));
}

// Gradients of gain and bias go to `gains` if it has them.
static void run_norm_backward(zero_context *context, const zr_norm_layer *layer,
                              const zr_norm_gradient *of, const zr_gains *gains, void *scratch)
{
    zr_norm norm = layer->norm;
    int add_gamma = 0, add_beta = 0;
    float *d_gamma = zr_gains_place(context, gains, layer->gain, &add_gamma);
    float *d_beta = norm.rms ? NULL : zr_gains_place(context, gains, layer->bias, &add_beta);
    assert(!d_gamma || !d_beta ||
           !add_gamma == !add_beta); // if both train they are in one flat parameter
    norm.add_parameters = add_gamma || add_beta;
    rows_backward(context, layer, &norm, of, d_gamma, d_beta, scratch);
}

static int row_slices(const zr_division *division)
{
    return division->by_rows ? zr_slices_here(division->slices) : division->slices->count;
}

// Returns the elements of a partial sum: of the gain and, in LayerNorm, of the bias after it, both
// aligned.
static int64_t partial_elements(const zr_norm_layer *layer)
{
    return zr_spare_floats(layer->norm.width) * (layer->norm.rms ? 1 : 2);
}

void zr_norm_gains_carve(const zr_norm_layer *layer, const zr_division *division, zr_gains *gains,
                         zr_carver *carver)
{
    zr_gains_carve(gains, carver, layer->gain, layer->norm.width, division->by_rows);
    if (!layer->norm.rms)
        zr_gains_carve(gains, carver, layer->bias, layer->norm.width, division->by_rows);
}

int64_t zr_norm_partials(const zr_norm_layer *layer, const zr_division *division)
{
    return zr_gains_by_rows(division->slices) ? row_slices(division) * partial_elements(layer) : 0;
}

// Returns the arguments for the rows from `row` on.
static zr_norm_gradient rows_from(const zr_norm *norm, const zr_norm_gradient *all, int64_t row)
{
    int64_t narrow = row * norm->width * (int64_t)zero_dtype_bytes(norm->dtype),
            wide = row * norm->width * (int64_t)zero_dtype_bytes(norm->stream);
    float *mean = all->statistics.mean;
    return (zr_norm_gradient){
        .dy = (const char *)all->dy + narrow,
        .x = (const char *)all->x + wide,
        .statistics = {.mean = mean ? mean + row : NULL, .rstd = all->statistics.rstd + row},
        .past = all->past ? (const char *)all->past + wide : NULL,
        .dx = (char *)all->dx + wide};
}

static void copy_gain(zr_queue *queue, const zr_gains *gains, const zr_tensor_handle *tensor,
                      const float *from, int64_t width)
{
    float *sum = zr_gains_sum(gains, tensor);
    if (sum)
        zr_run(queue, zr_op_copy(&(zr_bytes){width * (int64_t)sizeof *sum}, from, sum));
}

void zr_norm_backward(zero_context *context, const zr_norm_layer *layer,
                      const zr_division *division, const zr_norm_gradient *of,
                      const zr_gains *gains, float *partials, void *scratch)
{
    if (!zr_gains_by_rows(division->slices)) {
        run_norm_backward(context, layer, of, gains, scratch);
        return;
    }
    int slices = row_slices(division);
    int64_t elements = partial_elements(layer), width = layer->norm.width;
    for (int s = 0; s < slices; s++) {
        zr_norm norm = layer->norm;
        int64_t first = ZR_MIN(s * division->step, division->own);
        const zr_norm_gradient at = rows_from(&norm, of, first);
        norm.rows = ZR_MIN(division->step, division->own - first);
        float *partial = partials + s * elements;
        rows_backward(context, layer, &norm, &at, partial,
                      norm.rms ? NULL : partial + zr_spare_floats(width), scratch);
    }
    zr_rows_add(context->queue, slices, elements, partials);
    copy_gain(context->queue, gains, layer->gain, partials, width);
    if (!layer->norm.rms)
        copy_gain(context->queue, gains, layer->bias, partials + zr_spare_floats(width), width);
}

void zr_norm_read_in_backward(const zr_norm_layer *layer, zero_unit_sizes *sizes)
{
    zr_tensor_read_in_backward(layer->gain, sizes);
    if (!layer->norm.rms)
        zr_tensor_read_in_backward(layer->bias, sizes);
}
