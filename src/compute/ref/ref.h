// The kernels of the reference backend. Plain C, one thread, sums in double: slow, short, and the
// oracle of the tests.
#ifndef ZR_COMPUTE_REF_H
#define ZR_COMPUTE_REF_H

#include "base/dtype.h"
#include "compute/backends.h"

// Returns element i of an array of storage type F32, BF16 or F16.
static inline double ref_get(zero_dtype dtype, const void *array, int64_t i)
{
    if (dtype == ZERO_F32)
        return ((const float *)array)[i];
    uint16_t bits = ((const uint16_t *)array)[i];
    return dtype == ZERO_BF16 ? zr_bf16_to_f32(bits) : zr_f16_to_f32(bits);
}

static inline void ref_put(zero_dtype dtype, void *array, int64_t i, double value)
{
    if (dtype == ZERO_F32)
        ((float *)array)[i] = (float)value;
    else
        ((uint16_t *)array)[i] =
            dtype == ZERO_BF16 ? zr_f32_to_bf16((float)value) : zr_f32_to_f16((float)value);
}

// gelu_new as x / (1 + e^-2u), without the cancellation in 1 + tanh(u) where x is far below zero;
// and its slope.
double zr_ref_gelu(double x);
double zr_ref_gelu_slope(double x);

// zr_ref_KIND: the kernel of each kind of operation.
#define ZR_REF_KERNEL(kind, shape, ...) ZR_KERNEL(zr_ref_##kind, kind, shape);
ZR_OPS(ZR_REF_KERNEL)
// ref_states.c: an update with states of ZERO_U8.
void zr_ref_update_blocks(const zr_update *update, const zr_update_values *values,
                          const zr_range_states *at);
// Returns the bytes of scratch that both directions of attention need.
size_t zr_ref_attention_scratch(const zr_attention *attention);

#endif
