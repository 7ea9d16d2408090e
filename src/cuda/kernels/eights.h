// Arrays and rows eight elements at a time, wherever they begin and end: by sixteen bytes where all
// operands of a kernel allow it ("whole"), else one by one. Which thread has which elements is the
// same either way, so that no result depends on an address.
#ifndef ZR_CUDA_EIGHTS_H
#define ZR_CUDA_EIGHTS_H

#include "kernel.h"

namespace zr {

__device__ __forceinline__ float infinity() { return float_of_bits(0x7f800000u); }

__device__ __forceinline__ bool is_aligned(const void *at) { return (uintptr_t)at % 16 == 0; }

// Whether these arrays can be read by sixteen bytes from each eighth element on. NULL: they can.
__device__ __forceinline__ bool are_whole(const void *p, const void *q, const void *r = nullptr,
                                          const void *s = nullptr, const void *t = nullptr)
{
    return is_aligned(p) && is_aligned(q) && is_aligned(r) && is_aligned(s) && is_aligned(t);
}

// An element as it lies, and its value: apart, so that many loads are under way before the first
// value is needed.
__device__ __forceinline__ uint32_t load_one(const void *array, int type, int64_t i)
{
    return type == ZR_TYPE_F32 ? ((const uint32_t *)array)[i] : ((const uint16_t *)array)[i];
}

__device__ __forceinline__ float widen_one(uint32_t raw, int type)
{
    return type == ZR_TYPE_F32    ? float_of_bits(raw)
           : type == ZR_TYPE_BF16 ? float_of_bits(raw << 16)
                                  : f16_to_float((uint16_t)raw);
}

// Eight elements from number i on. Those from `left` on do not exist: 0, and not stored.
__device__ __forceinline__ void load_some(const void *array, int type, int64_t i, int64_t left,
                                          bool whole, float out[8])
{
    if (whole && left >= 8) {
        widen_eight(load_eight(array, type, i), type, out);
        return;
    }
    for (int k = 0; k < 8; k++)
        out[k] = k < left ? get(array, type, i + k) : 0;
}

__device__ __forceinline__ void store_some(void *array, int type, int64_t i, int64_t left,
                                           bool whole, const float in[8])
{
    if (whole && left >= 8) {
        store_eight(array, type, i, in);
        return;
    }
    for (int k = 0; k < 8; k++)
        if (k < left)
            put(array, type, i + k, in[k]);
}

// Calls f(i, left) for each eight elements of an array, each by some thread of the grid.
template <class F> __device__ __forceinline__ void each_eight(int64_t n, F f)
{
    for (int64_t i = 8 * thread_number(); i < n; i += 8 * thread_count())
        f(i, n - i);
}

// The same of a row, by the threads of one block.
template <class F> __device__ __forceinline__ void each_eight_of_row(int64_t width, F f)
{
    for (int64_t j = 8 * (int64_t)threadIdx.x; j < width; j += 8 * (int64_t)blockDim.x)
        f(j, width - j);
}

} // namespace zr

#endif
