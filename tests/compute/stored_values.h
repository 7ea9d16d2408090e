// Single values as a storage type keeps them, and their sum over ranks.
#ifndef TESTS_COMPUTE_STORED_VALUES_H
#define TESTS_COMPUTE_STORED_VALUES_H

#include "base/dtype.h"

static inline void store_as(zero_dtype dtype, void *data, int64_t i, float value)
{
    if (dtype == ZERO_F32)
        ((float *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = dtype == ZERO_BF16 ? zr_f32_to_bf16(value) : zr_f32_to_f16(value);
}

static inline float load_as(zero_dtype dtype, const void *data, int64_t i)
{
    if (dtype == ZERO_F32)
        return ((const float *)data)[i];
    uint16_t bits = ((const uint16_t *)data)[i];
    return dtype == ZERO_BF16 ? zr_bf16_to_f32(bits) : zr_f16_to_f32(bits);
}

// Returns the value after it was stored and loaded.
static inline float rounded_to(zero_dtype dtype, float value)
{
    float stored;
    store_as(dtype, &stored, 0, value);
    return load_as(dtype, &stored, 0);
}

// Sums values[0..ranks) along the tree of contract 3, by plain recursion.
static inline float oracle_sum(const float *values, int ranks)
{
    if (ranks == 1)
        return values[0];
    int half = 1;
    while (2 * half < ranks)
        half *= 2;
    return oracle_sum(values, half) + oracle_sum(values + half, ranks - half);
}

#endif
