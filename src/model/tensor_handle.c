// Accesses a handle's tensor tile by tile through the public functions for flat parameters.
#include "model/tensor_handle.h"

bool zr_tensor_exists(const zr_tensor_handle *of) { return of->flat_param >= 0; }

zero_status zr_tensor_acquire(zero_context *context, const zr_tensor_handle *of, int tile)
{
    return of->tiles > 1 ? zero_flat_param_begin(context, of->flat_param + tile) : ZERO_OK;
}

zero_status zr_tensor_release(zero_context *context, const zr_tensor_handle *of, int tile)
{
    return of->tiles > 1 ? zero_flat_param_end(context, of->flat_param + tile) : ZERO_OK;
}

const void *zr_tensor_values(const zero_context *context, const zr_tensor_handle *of, int tile)
{
    return zr_tensor_exists(of) ? zero_parameter(context, of->flat_param + tile, of->tensor) : NULL;
}

float *zr_tensor_gradient(zero_context *context, const zr_tensor_handle *of, int tile, int *add)
{
    return of->trains ? zero_gradient(context, of->flat_param + tile, of->tensor, add) : NULL;
}

void zr_tensor_read_in_backward(const zr_tensor_handle *of, zero_unit_sizes *sizes)
{
    if (of->tiles > 1)
        sizes->backward_reads_streamed = 1;
    else
        sizes->backward_reads |= 1u << of->flat_param;
}
