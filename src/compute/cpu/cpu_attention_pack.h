// Packing for attention: rows of any storage type become fp32, or pairs of bf16, in the order in
// which a tile reads them.
#ifndef ZR_COMPUTE_CPU_ATTENTION_PACK_H
#define ZR_COMPUTE_CPU_ATTENTION_PACK_H

#include "compute/cpu/cpu_tile.h"

// Rows ahead: they lie too far apart for the processor's own prefetching.
#define PREFETCH 8

INLINE const void *element_at(zero_dtype type, const void *array, int64_t i)
{
    return (const char *)array + i * (type == ZERO_F32 ? 4 : 2);
}

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint16_t quad_halves __attribute__((vector_size(8), aligned(2), may_alias));
typedef uint32_t quad_words __attribute__((vector_size(16)));

INLINE quad quad_get_as(zero_dtype type, const void *array, int64_t i)
{
    const void *at = element_at(type, array, i);
    if (type == ZERO_F32)
        return *(const quad *)at;
#if LANES >= 8
    __m128i halves = _mm_loadl_epi64(at);
    return (quad)(type == ZERO_BF16 ? (__m128)_mm_slli_epi32(_mm_cvtepu16_epi32(halves), 16)
                                    : _mm_cvtph_ps(halves));
#else
    quad_halves halves = *(const quad_halves *)at;
    if (type == ZERO_BF16)
        return (quad)(__builtin_convertvector(halves, quad_words) << 16);
    return (quad){zr_f16_to_f32(halves[0]), zr_f16_to_f32(halves[1]), zr_f16_to_f32(halves[2]),
                  zr_f16_to_f32(halves[3])};
#endif
}

// Turns four rows of four elements, the first at `from`, into four columns, times factor. Rows lie
// from_step and to_step apart.
INLINE void transpose_quad(zero_dtype type, const void *array, int64_t from, int64_t from_step,
                           float *to, int64_t to_step, float factor)
{
    quad r0 = quad_get_as(type, array, from), r1 = quad_get_as(type, array, from + from_step);
    quad r2 = quad_get_as(type, array, from + 2 * from_step),
         r3 = quad_get_as(type, array, from + 3 * from_step);
    quad t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5),
         t1 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    quad t2 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7),
         t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    *(quad *)to = __builtin_shufflevector(t0, t1, 0, 1, 4, 5) * factor;
    *(quad *)(to + to_step) = __builtin_shufflevector(t0, t1, 2, 3, 6, 7) * factor;
    *(quad *)(to + 2 * to_step) = __builtin_shufflevector(t2, t3, 0, 1, 4, 5) * factor;
    *(quad *)(to + 3 * to_step) = __builtin_shufflevector(t2, t3, 2, 3, 6, 7) * factor;
}

INLINE void prefetch_row(zero_dtype type, const void *array, int64_t first, int64_t count)
{
    for (int64_t t = 0; t < count; t += type == ZERO_F32 ? 16 : 32)
        __builtin_prefetch(element_at(type, array, first + t));
}

// Turns `rows` rows of `from` into columns, in panels of `panel`: to[(i / panel) * panel * depth +
// t * panel + i % panel] = factor * from[i*from_step + t]. Zeros fill up the last panel. `type` is
// that of from, a constant (WITH_TYPE).
INLINE void pack_columns(zero_dtype type, const void *from, int64_t from_step, int64_t rows,
                         int64_t depth, int64_t panel, float factor, float *to)
{
    for (int64_t start = 0; start < rows; start += panel, to += panel * depth) {
        int64_t filled = rows - start < panel ? rows - start : panel, i = 0;
        for (; i + 4 <= filled; i += 4) {
            int64_t row = (start + i) * from_step, t = 0;
            for (int64_t r = 0; r < 4; r++)
                prefetch_row(type, from, row + (PREFETCH + r) * from_step, depth);
            for (; t + 4 <= depth; t += 4)
                transpose_quad(type, from, row + t, from_step, to + t * panel + i, panel, factor);
            for (; t < depth; t++)
                for (int64_t r = 0; r < 4; r++)
                    to[t * panel + i + r] =
                        factor * vf_get_as(type, from, row + r * from_step + t, 1)[0];
        }
        for (; i < filled; i++)
            for (int64_t t = 0; t < depth; t++)
                to[t * panel + i] =
                    factor * vf_get_as(type, from, (start + i) * from_step + t, 1)[0];
        for (; i < panel; i++)
            for (int64_t t = 0; t < depth; t++)
                to[t * panel + i] = 0;
    }
}

// Copies `rows` rows of `depth` elements to rows of `wide` floats (a multiple of LANES, >= depth),
// or two rows at a time to rows of `wide` pairs. What is beyond depth is zero, and so are the rows
// up to `padded`.
INLINE void pack_rows(zero_dtype type, bool pairs, const void *from, int64_t from_step,
                      int64_t rows, int64_t padded, int64_t depth, int64_t wide, float *to)
{
    const int64_t of_word = pairs ? 2 : 1, packed = words_of(pairs, rows);
    for (int64_t i = 0; i < rows; i += of_word, to += wide) {
        for (int64_t r = 0; r < of_word; r++)
            prefetch_row(type, from, (i + PREFETCH + r) * from_step, depth);
        for (int64_t t = 0; t < wide; t += LANES) {
            int64_t left = depth > t ? depth - t : 0, at = i * from_step + t;
            vf x = vf_get_as(type, from, at, left);
            if (pairs)
                x = pairs_of(x,
                             i + 1 < rows ? vf_get_as(type, from, at + from_step, left) : (vf){0});
            vf_store(to + t, x);
        }
    }
    memset(to, 0, sizeof(float) * (size_t)((words_of(pairs, padded) - packed) * wide));
}

#endif
