// The tables of the reference backend, one per file. Plain C, one thread, sums in double: slow,
// short, and the oracle of the tests.
#ifndef ZR_COMPUTE_REF_H
#define ZR_COMPUTE_REF_H

#include "base/dtype.h"
#include "compute/attention_ops.h"
#include "compute/compute.h"
#include "compute/element_ops.h"
#include "compute/optimizer_ops.h"
#include "compute/product_ops.h"
#include "compute/row_ops.h"

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

extern const zr_product_ops zr_ref_product_ops;
extern const zr_row_ops zr_ref_row_ops;
extern const zr_attention_ops zr_ref_attention_ops;
extern const zr_element_ops zr_ref_element_ops;
extern const zr_optimizer_ops zr_ref_optimizer_ops;

#endif
