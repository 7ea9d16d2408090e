// Norms over a unit's gain, and its bias if it has one: LayerNorm and RMSNorm.
#include "compute/element_ops.h"
#include "layers/linear.h"

void zr_norm_forward(zero_context *context, const zr_norm_layer *layer, const void *x, void *y,
                     zr_norm_statistics statistics)
{
    zr_queue *queue = context->queue;
    const zr_row_ops *rows = queue->backend->rows;
    const void *gamma = zr_tensor_values(context, layer->gain, 0);
    if (layer->rms)
        rows->rms_forward(queue, &layer->norm, x, gamma, y, statistics.rstd);
    else
        rows->norm_forward(queue, &layer->norm, x, gamma, zr_tensor_values(context, layer->bias, 0),
                           y, statistics.mean, statistics.rstd);
}

void zr_norm_residual_forward(zero_context *context, const zr_norm_layer *layer, const void *x,
                              const void *branch, void *sum, void *y, zr_norm_statistics statistics)
{
    zr_queue *queue = context->queue;
    const zr_row_ops *rows = queue->backend->rows;
    const void *gamma = zr_tensor_values(context, layer->gain, 0);
    if (layer->rms)
        rows->residual_rms_forward(queue, &layer->norm, x, branch, sum, gamma, y, statistics.rstd);
    else
        rows->residual_norm_forward(queue, &layer->norm, x, branch, sum, gamma,
                                    zr_tensor_values(context, layer->bias, 0), y, statistics.mean,
                                    statistics.rstd);
}

// Gradients of gain and bias go to `gains` if it has them.
static void run_norm_backward(zero_context *context, const zr_norm_layer *layer,
                              const zr_norm_gradient *of, const zr_gains *gains, void *scratch)
{
    zr_queue *queue = context->queue;
    const zr_row_ops *rows = queue->backend->rows;
    int add_gamma = 0, add_beta = 0;
    const void *gamma = zr_tensor_values(context, layer->gain, 0);
    float *d_gamma = zr_gains_place(context, gains, layer->gain, &add_gamma);
    if (layer->rms) {
        rows->rms_backward(queue, &layer->norm, of->dy, of->x, gamma, of->statistics.rstd, of->past,
                           of->dx, d_gamma, add_gamma, scratch);
        return;
    }
    float *d_beta = zr_gains_place(context, gains, layer->bias, &add_beta);
    assert(!d_gamma || !d_beta ||
           !add_gamma == !add_beta); // if both train they are in one flat parameter
    rows->norm_backward(queue, &layer->norm, of->dy, of->x, gamma, of->statistics.mean,
                        of->statistics.rstd, of->past, of->dx, d_gamma, d_beta,
                        add_gamma || add_beta, scratch);
}

void zr_norm_backward(zero_context *context, const zr_norm_layer *layer, const zr_norm_gradient *of,
                      void *scratch)
{
    static const zr_gains none;
    run_norm_backward(context, layer, of, &none, scratch);
}

static int row_slices(const zr_division *division)
{
    return division->by_rows ? zr_slices_here(division->slices) : division->slices->count;
}

// Returns the elements of a partial sum: of the gain and, in LayerNorm, of the bias after it, both
// aligned.
static int64_t partial_elements(const zr_norm_layer *layer)
{
    return zr_spare_floats(layer->norm.width) * (layer->rms ? 1 : 2);
}

void zr_norm_gains_carve(const zr_norm_layer *layer, const zr_division *division, zr_gains *gains,
                         zr_carver *carver)
{
    zr_gains_carve(gains, carver, layer->gain, layer->norm.width, division->by_rows);
    if (!layer->rms)
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

static void slice_backward(zero_context *context, const zr_norm_layer *layer, const zr_norm *norm,
                           const zr_norm_gradient *at, float *partial, void *scratch)
{
    zr_queue *queue = context->queue;
    const zr_row_ops *rows = queue->backend->rows;
    const void *gamma = zr_tensor_values(context, layer->gain, 0);
    const zr_norm_statistics *statistics = &at->statistics;
    if (layer->rms)
        rows->rms_backward(queue, norm, at->dy, at->x, gamma, statistics->rstd, at->past, at->dx,
                           partial, false, scratch);
    else
        rows->norm_backward(queue, norm, at->dy, at->x, gamma, statistics->mean, statistics->rstd,
                            at->past, at->dx, partial, partial + zr_spare_floats(norm->width),
                            false, scratch);
}

static void copy_gain(zr_queue *queue, const zr_gains *gains, const zr_tensor_handle *tensor,
                      const float *from, int64_t width)
{
    float *sum = zr_gains_sum(gains, tensor);
    if (sum)
        queue->backend->elements->copy(queue, width * (int64_t)sizeof *sum, from, sum);
}

void zr_norm_backward_sliced(zero_context *context, const zr_norm_layer *layer,
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
        slice_backward(context, layer, &norm, &at, partials + s * elements, scratch);
    }
    zr_rows_add(context->queue, slices, elements, partials);
    copy_gain(context->queue, gains, layer->gain, partials, width);
    if (!layer->rms)
        copy_gain(context->queue, gains, layer->bias, partials + zr_spare_floats(width), width);
}

void zr_norm_read_in_backward(const zr_norm_layer *layer, zero_unit_sizes *sizes)
{
    zr_tensor_read_in_backward(layer->gain, sizes);
    if (!layer->rms)
        zr_tensor_read_in_backward(layer->bias, sizes);
}
