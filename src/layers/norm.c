// Norms over a unit's gain, and its bias if it has one: LayerNorm and RMSNorm.
#include "layers/linear.h"

void zr_norm_forward(zero_context *context, const zr_norm_layer *layer, const void *x, void *y,
                     float *mean, float *rstd)
{
    zr_queue *queue = context->queue;
    const zr_row_ops *rows = queue->backend->rows;
    const void *gamma = zr_tensor_values(context, layer->gain, 0);
    if (layer->rms)
        rows->rms_forward(queue, &layer->norm, x, gamma, y, rstd);
    else
        rows->norm_forward(queue, &layer->norm, x, gamma, zr_tensor_values(context, layer->bias, 0),
                           y, mean, rstd);
}

void zr_norm_residual_forward(zero_context *context, const zr_norm_layer *layer, const void *x,
                              const void *branch, void *sum, void *y, float *mean, float *rstd)
{
    zr_queue *queue = context->queue;
    const zr_row_ops *rows = queue->backend->rows;
    const void *gamma = zr_tensor_values(context, layer->gain, 0);
    if (layer->rms)
        rows->residual_rms_forward(queue, &layer->norm, x, branch, sum, gamma, y, rstd);
    else
        rows->residual_norm_forward(queue, &layer->norm, x, branch, sum, gamma,
                                    zr_tensor_values(context, layer->bias, 0), y, mean, rstd);
}

void zr_norm_backward(zero_context *context, const zr_norm_layer *layer, const void *dy,
                      const void *x, const float *mean, const float *rstd, const void *past,
                      void *dx, void *scratch)
{
    zr_queue *queue = context->queue;
    const zr_row_ops *rows = queue->backend->rows;
    int add_gamma = 0, add_beta = 0;
    const void *gamma = zr_tensor_values(context, layer->gain, 0);
    float *d_gamma = zr_tensor_gradient(context, layer->gain, 0, &add_gamma);
    if (layer->rms) {
        rows->rms_backward(queue, &layer->norm, dy, x, gamma, rstd, past, dx, d_gamma, add_gamma,
                           scratch);
        return;
    }
    float *d_beta = zr_tensor_gradient(context, layer->bias, 0, &add_beta);
    assert(!d_gamma || !d_beta || !add_gamma == !add_beta); // if both train they are in one piece
    rows->norm_backward(queue, &layer->norm, dy, x, gamma, mean, rstd, past, dx, d_gamma, d_beta,
                        add_gamma || add_beta, scratch);
}

void zr_norm_read_in_backward(const zr_norm_layer *layer, zero_unit_sizes *sizes)
{
    zr_tensor_read_in_backward(layer->gain, sizes);
    if (!layer->rms)
        zr_tensor_read_in_backward(layer->bias, sizes);
}
