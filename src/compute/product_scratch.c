#include "compute/product_scratch.h"
#include "compute/product_ops.h"

size_t zr_product_scratch(zr_queue *queue, zero_dtype dtype, const zero_product_shape *shape)
{
    const zr_product variants[] = {
        // A unit's shape does not say which of these it is.
        {.out = dtype},
        {.out = dtype, .epilogue = ZR_EPILOGUE_BIAS},
        {.out = dtype, .epilogue = ZR_EPILOGUE_BIAS, .gelu_a = true},
        {.out = dtype, .epilogue = ZR_EPILOGUE_GELU_BACKWARD},
        {.out = ZERO_F32},
        {.out = ZERO_F32, .add = true},
        {.out = ZERO_F32, .gelu_a = true},
        {.out = ZERO_F32, .gelu_a = true, .add = true},
    };
    size_t most = 0;
    for (int i = 0; i < ZR_COUNT(variants); i++) {
        zr_product product = variants[i];
        product.dtype = dtype;
        product.m = shape->m, product.n = shape->n, product.k = shape->k;
        product.trans_a = shape->trans_a, product.trans_b = shape->trans_b;
        size_t bytes = queue->backend->product->scratch(queue, &product);
        most = ZR_MAX(most, bytes);
    }
    return most;
}
