// Vectors that begin anywhere: a range of a shard begins at any of its elements, because tensors
// do. All arrays of an operation are cut at the same element, so mostly there is one from which on
// each of them can be read sixteen bytes at a time; else they are read element by element.
#ifndef ZR_CUDA_SPANS_H
#define ZR_CUDA_SPANS_H

#include "kernel.h"

namespace zr {

// Bit k is set where an array of this type is aligned to sixteen bytes at element k. An array that
// is not there is aligned everywhere.
__device__ __forceinline__ uint32_t aligned_elements(const void *array, int type)
{
    const uint32_t at = (uint32_t)(uintptr_t)array;
    if (!array)
        return 0xff;
    return type == ZR_TYPE_F32 ? 0x11u << (0u - at / 4) % 4 : 1u << (0u - at / 2) % 8;
}

// n elements: `head` single ones, `eights` times eight, and single ones up to the end.
struct span {
    int64_t head, eights, n;
};

// aligned: the bits of all arrays.
__device__ __forceinline__ span span_of(uint32_t aligned, int64_t n)
{
    int head = 0;
    while (head < 8 && !(aligned >> head & 1))
        head++;
    return head < 8 && head < n ? span{head, (n - head) / 8, n} : span{n, 0, n};
}

// Calls over.at<8>(i) for each eight elements from i on, and over.at<1>(i) for each single one.
template <class T> __device__ __forceinline__ void walk_span(const span &of, const T &over)
{
    for (int64_t k = thread_number(); k < of.eights; k += thread_count())
        over.template at<8>(of.head + 8 * k);
    for (int64_t k = thread_number(); k < of.n - 8 * of.eights; k += thread_count())
        over.template at<1>(k < of.head ? k : k + 8 * of.eights);
}

template <int width>
__device__ __forceinline__ raw_eight load_part(const void *array, int type, int64_t i)
{
    const int64_t byte = i * (type == ZR_TYPE_F32 ? 4 : 2);
    raw_eight raw;
    if (width == 8)
        return load_eight((const char *)array + byte, type, 0);
    raw.word[0].x =
        type == ZR_TYPE_F32 ? ((const uint32_t *)array)[i] : ((const uint16_t *)array)[i];
    return raw;
}

template <int width>
__device__ __forceinline__ void widen_part(const raw_eight &raw, int type, float out[width])
{
    float pair[2];
    if (width == 8) {
        widen_eight(raw, type, out);
    } else if (type == ZR_TYPE_F32) {
        out[0] = float_of_bits(raw.word[0].x);
    } else {
        widen_pair(raw.word[0].x, type, pair);
        out[0] = pair[0];
    }
}

template <int width>
__device__ __forceinline__ void store_part(void *array, int type, int64_t i, const float in[width])
{
    const int64_t byte = i * (type == ZR_TYPE_F32 ? 4 : 2);
    if (width == 8)
        store_eight((char *)array + byte, type, 0, in);
    else
        put(array, type, i, in[0]);
}

} // namespace zr

#endif
