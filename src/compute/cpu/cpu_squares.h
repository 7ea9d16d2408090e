// Sums of squares in double, of elements of any type: eight sums on every instruction set, so that
// all of them give the same bits.
#ifndef ZR_COMPUTE_CPU_SQUARES_H
#define ZR_COMPUTE_CPU_SQUARES_H

#include "compute/cpu/cpu_storage.h"

#define HALF (LANES / 2)

typedef uint16_t two_halves __attribute__((vector_size(4), aligned(2), may_alias));
typedef uint32_t two_words __attribute__((vector_size(8)));

// Returns elements i .. i+HALF-1 of an array of any type.
INLINE vf_half half_get_as(zero_dtype type, const void *array, int64_t i)
{
    const uint16_t *at = (const uint16_t *)array + i;
    if (type == ZERO_F32)
        return *(const vf_half *)((const float *)array + i);
#if LANES == 16
    __m128i halves = _mm_loadu_si128((const void *)at);
    return type == ZERO_BF16 ? (vf_half)_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16)
                             : (vf_half)_mm256_cvtph_ps(halves);
#elif LANES == 8
    __m128i halves = _mm_loadl_epi64((const void *)at);
    return type == ZERO_BF16 ? (vf_half)_mm_slli_epi32(_mm_cvtepu16_epi32(halves), 16)
                             : (vf_half)_mm_cvtph_ps(halves);
#else
    return type == ZERO_BF16
               ? (vf_half)(__builtin_convertvector(*(const two_halves *)at, two_words) << 16)
               : (vf_half){zr_f16_to_f32(at[0]), zr_f16_to_f32(at[1])};
#endif
}

typedef struct eight { // double k sums every eighth element, beginning with k
    vd part[8 / HALF];
} eight;

INLINE void squares_add(zero_dtype type, const void *g, int64_t i, eight *sum) // elements i .. i+7
{
    for (int k = 0; k < 8 / HALF; k++) {
        vd x = vd_from(half_get_as(type, g, i + k * HALF));
        sum->part[k] += x * x;
    }
}

// Returns the sum of a part whose first i elements are in `sum`.
INLINE double squares_finish(zero_dtype type, const void *g, int64_t first, int64_t i,
                             int64_t count, eight sum)
{
    double lane[8];
    for (; i + 8 <= count; i += 8)
        squares_add(type, g, first + i, &sum);
    memcpy(lane, &sum, sizeof(lane));
    for (; i < count; i++) {
        double x = vf_get_as(type, g, first + i, 1)[0];
        lane[i % 8] += x * x;
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

#endif
