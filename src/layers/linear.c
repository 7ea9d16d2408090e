// Linear: one product forward; two products and a column sum backward.
#include "layers/linear.h"

static zr_product product_forward(const zr_linear *linear)
{
    return (zr_product){
        .dtype = linear->dtype,
        .out = linear->dtype,
        .m = linear->rows,
        .n = linear->out,
        .k = linear->in,
        .gelu_a = linear->gelu,
        .epilogue = ZR_EPILOGUE_BIAS,
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
        .trans_b = true,
        .epilogue = linear->gelu ? ZR_EPILOGUE_GELU_BACKWARD : ZR_EPILOGUE_NONE,
    };
}

static zr_product product_weight(const zr_linear *linear) // dW = x^T dy, fp32
{
    return (zr_product){
        .dtype = linear->dtype,
        .out = ZERO_F32,
        .m = linear->in,
        .n = linear->out,
        .k = linear->rows,
        .trans_a = true,
        .gelu_a = linear->gelu,
    };
}

zero_status zr_linear_forward(zero_context *context, const zr_linear *linear, const void *x, void *y)
{
    zr_queue *queue = context->queue;
    zr_product product = product_forward(linear);
    const void *weight = zero_parameter(context, linear->piece, linear->weight);
    const void *bias = zero_parameter(context, linear->piece, linear->bias);
    return queue->backend->product->run(queue, &product, x, weight, bias, y, context->error);
}

static zero_status backward_parameters(zero_context *context, const zr_linear *linear, const void *x, const void *dy,
                                       void *scratch)
{
    zr_queue *queue = context->queue;
    zr_product product = product_weight(linear);
    int add_weight = 0, add_bias = 0;
    float *d_weight = zero_gradient(context, linear->piece, linear->weight, &add_weight);
    float *d_bias = zero_gradient(context, linear->piece, linear->bias, &add_bias);
    product.add = add_weight;
    queue->backend->elements->column_sum(queue, linear->dtype, linear->rows, linear->out, dy, d_bias, add_bias, scratch);
    return queue->backend->product->run(queue, &product, x, dy, NULL, d_weight, context->error);
}

zero_status zr_linear_backward(zero_context *context, const zr_linear *linear, const void *x, const void *dy, void *dx,
                               void *scratch)
{
    zr_queue *queue = context->queue;
    zr_product product = product_input(linear);
    ZERO_TRY(backward_parameters(context, linear, x, dy, scratch));
    const void *weight = zero_parameter(context, linear->piece, linear->weight);
    return queue->backend->product->run(queue, &product, dy, weight, linear->gelu ? x : NULL, dx, context->error);
}

size_t zr_linear_scratch(const zr_linear *linear, int threads)
{
    return zr_scratch_column_sum(threads, linear->rows, linear->out);
}

void zr_product_append(zero_unit_sizes *sizes, const zr_product *product, int calls)
{
    assert(sizes->product_count < ZERO_MAX_PRODUCTS);
    sizes->products[sizes->product_count++] = (zero_product_shape){.m = product->m,
                                                                   .n = product->n,
                                                                   .k = product->k,
                                                                   .trans_a = product->trans_a,
                                                                   .trans_b = product->trans_b,
                                                                   .calls = calls};
}

void zr_linear_products(const zr_linear *linear, bool training, zero_unit_sizes *sizes)
{
    const zr_product forward = product_forward(linear), weight = product_weight(linear), input = product_input(linear);
    zr_product_append(sizes, &forward, 1);
    if (training) {
        zr_product_append(sizes, &weight, 1);
        zr_product_append(sizes, &input, 1);
    }
}
