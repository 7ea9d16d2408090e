// The register tile of which attention consists: out(MR, NR) [+]= A(MR, count) B(count, NR).
//
//              count                NR = two vectors
//         +-----------+          +------+
//   MR    | A         |   count  | B    |     twelve sums in registers, one broadcast and two loads
//  rows   +-----------+          |      |     at a time; with sixteen registers nothing is spilled.
//                                +------+     Each sum runs over `count` in order.
#ifndef ZR_COMPUTE_CPU_TILE_H
#define ZR_COMPUTE_CPU_TILE_H

#include "compute/cpu/cpu_pairs.h"

#define MR 6
#define NR (2 * LANES)
// Rows ahead: they lie too far apart for the processor's own prefetching.
#define PREFETCH 8

// Adds x times two vectors of B to two sums.
#define TILE_PAIR(s0, s1)                                                                          \
    s0 = vf_add_product(pairs, s0, x, b0), s1 = vf_add_product(pairs, s1, x, b1)

// Computes one tile of words; `count` counts them, and `pairs` says what they are. Element (r, t) of A lies at a[r*a_row + t*a_step], row t of B at b + t*b_step.
// With `add` the product is added to out, otherwise it is stored there.
INLINE void tile_product(bool pairs, const float *a, int64_t a_row, int64_t a_step, const float *b,
                         int64_t b_step, int64_t count, float *out, int64_t out_step, int add)
{
    vf s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0}, s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0},
       s40 = {0}, s41 = {0}, s50 = {0}, s51 = {0};
    if (add) {
        s00 = vf_load(out), s01 = vf_load(out + LANES);
        s10 = vf_load(out + out_step), s11 = vf_load(out + out_step + LANES);
        s20 = vf_load(out + 2 * out_step), s21 = vf_load(out + 2 * out_step + LANES);
        s30 = vf_load(out + 3 * out_step), s31 = vf_load(out + 3 * out_step + LANES);
        s40 = vf_load(out + 4 * out_step), s41 = vf_load(out + 4 * out_step + LANES);
        s50 = vf_load(out + 5 * out_step), s51 = vf_load(out + 5 * out_step + LANES);
    }
    for (int64_t t = 0; t < count; t++) {
        vf b0 = vf_load(b), b1 = vf_load(b + LANES);
        vf x = vf_all(a[0]);
        TILE_PAIR(s00, s01), x = vf_all(a[a_row]);
        TILE_PAIR(s10, s11), x = vf_all(a[2 * a_row]);
        TILE_PAIR(s20, s21), x = vf_all(a[3 * a_row]);
        TILE_PAIR(s30, s31), x = vf_all(a[4 * a_row]);
        TILE_PAIR(s40, s41), x = vf_all(a[5 * a_row]);
        TILE_PAIR(s50, s51);
        a += a_step;
        b += b_step;
    }
    vf_store(out, s00), vf_store(out + LANES, s01);
    vf_store(out + out_step, s10), vf_store(out + out_step + LANES, s11);
    vf_store(out + 2 * out_step, s20), vf_store(out + 2 * out_step + LANES, s21);
    vf_store(out + 3 * out_step, s30), vf_store(out + 3 * out_step + LANES, s31);
    vf_store(out + 4 * out_step, s40), vf_store(out + 4 * out_step + LANES, s41);
    vf_store(out + 5 * out_step, s50), vf_store(out + 5 * out_step + LANES, s51);
}

// ---- packing: rows of any storage type become fp32 in the order in which a tile reads them ----

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
