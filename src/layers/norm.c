// Layer norm over a unit's gain and bias.
#include "layers/linear.h"

void zr_layer_norm_forward(zero_context *context, const zr_layer_norm *layer, const void *x, void *y, float *mean,
                           float *rstd)
{
    zr_queue *queue = context->queue;
    const void *gamma = zero_parameter(context, layer->piece, layer->weight);
    const void *beta = zero_parameter(context, layer->piece, layer->bias);
    queue->backend->rows->norm_forward(queue, &layer->norm, x, gamma, beta, y, mean, rstd);
}

void zr_layer_norm_residual_forward(zero_context *context, const zr_layer_norm *layer, const void *x, const void *branch,
                                    void *sum, void *y, float *mean, float *rstd)
{
    zr_queue *queue = context->queue;
    const void *gamma = zero_parameter(context, layer->piece, layer->weight);
    const void *beta = zero_parameter(context, layer->piece, layer->bias);
    queue->backend->rows->residual_norm_forward(queue, &layer->norm, x, branch, sum, gamma, beta, y, mean, rstd);
}

void zr_layer_norm_backward(zero_context *context, const zr_layer_norm *layer, const void *dy, const void *x,
                            const float *mean, const float *rstd, const void *past, void *dx, void *scratch)
{
    zr_queue *queue = context->queue;
    int add_gamma = 0, add_beta = 0;
    const void *gamma = zero_parameter(context, layer->piece, layer->weight);
    float *d_gamma = zero_gradient(context, layer->piece, layer->weight, &add_gamma);
    float *d_beta = zero_gradient(context, layer->piece, layer->bias, &add_beta);
    assert(!add_gamma == !add_beta); // both lie in one piece
    queue->backend->rows->norm_backward(queue, &layer->norm, dy, x, gamma, mean, rstd, past, dx, d_gamma, d_beta,
                                        add_gamma, scratch);
}
