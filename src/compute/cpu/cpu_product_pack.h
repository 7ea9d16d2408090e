// Operands of products on their way to fp32 and to the order in which the tiles read them.
//
//   A: panels of MR rows          [t=0: MR][t=1: MR] ... [t=depth-1: MR] A_PAD floats
//   B: panels of NR columns       [t=0: NR][t=1: NR] ...
//
// Rows and columns that complete the last panel are zero. One step of a panel lies behind the other, whatever the operand's
// order, so that the tiles read two streams and no more.
#ifndef ZR_COMPUTE_CPU_PRODUCT_PACK_H
#define ZR_COMPUTE_CPU_PRODUCT_PACK_H

#include "compute/cpu/cpu_product_tile.h"

#define A_PAD 16 // a panel's last step is written as whole vectors
#define A_PANEL(depth) (MR * (depth) + A_PAD)
#define AHEAD 4 // steps that are packed together while those after them are fetched

INLINE void prefetch_as(zero_dtype type, const void *array, int64_t i)
{
    __builtin_prefetch(type == ZERO_F32 ? (const void *)((const float *)array + i) : (const uint16_t *)array + i);
}

// Elements of a cache line.
INLINE int64_t line_of(zero_dtype type)
{
    return type == ZERO_F32 ? 16 : 32;
}

INLINE vf packed_a(zero_dtype type, int gelu, const void *array, int64_t i, int64_t left)
{
    vf x = vf_get_as(type, array, i, left);
    return gelu ? vf_rounded_to(type, vf_gelu(x)) : x;
}

// `depth` steps of `columns` elements, `step` apart from element `first` on. rows: AHEAD * ZR_ROUND_UP(columns, LANES) floats.
INLINE void pack_a_panels(zero_dtype type, int gelu, const void *a, int64_t first, int64_t step, int64_t columns,
                          int64_t depth, float *to, float *rows)
{
    for (int64_t t0 = 0; t0 < depth; t0 += AHEAD) {
        int64_t steps = ZR_MIN(AHEAD, depth - t0), from_step = step;
        const float *from = (const float *)a + first + t0 * step;
        for (int64_t t = 0; t < steps; t++)
            for (int64_t i = 0; i < columns; i += line_of(type))
                prefetch_as(type, a, first + (t0 + AHEAD + t) * step + i);
        if (type != ZERO_F32 || gelu) {
            from = rows;
            from_step = ZR_ROUND_UP(columns, LANES);
            for (int64_t t = 0; t < steps; t++)
                for (int64_t i = 0; i < columns; i += LANES)
                    vf_store(rows + t * from_step + i,
                             packed_a(type, gelu, a, first + (t0 + t) * step + i, columns - i));
        }
        for (int64_t i = 0; i < columns; i += MR)
            for (int64_t t = 0; t < steps; t++)
                for (int64_t part = 0; part < MR; part += LANES)
                    vf_store(to + i / MR * A_PANEL(depth) + (t0 + t) * MR + part,
                             vf_get(from + t * from_step + i + part, ZR_MAX(0, columns - i - part)));
    }
}

// `depth` steps of `columns` elements, `step` apart from element `first` on.
INLINE void pack_b_steps(zero_dtype type, const void *b, int64_t first, int64_t step, int64_t columns, int64_t depth,
                         float *to)
{
    for (int64_t t0 = 0; t0 < depth; t0 += AHEAD)
        for (int64_t j = 0; j < columns; j += NR)
            for (int64_t t = t0; t < ZR_MIN(t0 + AHEAD, depth); t++) {
                float *at = to + j * depth + t * NR;
                int64_t from = first + t * step + j;
                prefetch_as(type, b, from + AHEAD * step);
                vf_store(at, vf_get_as(type, b, from, columns - j));
                vf_store(at + LANES, columns - j > LANES ? vf_get_as(type, b, from + LANES, columns - j - LANES) : (vf){0});
            }
}

#if LANES == 4
INLINE void transpose(vf r[LANES])
{
    vf t0 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), t1 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    vf t2 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7), t3 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(t0, t1, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(t0, t1, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(t2, t3, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(t2, t3, 2, 3, 6, 7);
}
#else
#if LANES == 8
#define LOWER(a, b) _mm256_unpacklo_ps(a, b) // of each four lanes: a0 b0 a1 b1
#define UPPER(a, b) _mm256_unpackhi_ps(a, b)
#define LOWER_PAIRS(a, b) (vf)_mm256_unpacklo_pd((__m256d)(a), (__m256d)(b))
#define UPPER_PAIRS(a, b) (vf)_mm256_unpackhi_pd((__m256d)(a), (__m256d)(b))
#else
#define LOWER(a, b) _mm512_unpacklo_ps(a, b)
#define UPPER(a, b) _mm512_unpackhi_ps(a, b)
#define LOWER_PAIRS(a, b) (vf)_mm512_unpacklo_pd((__m512d)(a), (__m512d)(b))
#define UPPER_PAIRS(a, b) (vf)_mm512_unpackhi_pd((__m512d)(a), (__m512d)(b))
#endif

// Four rows become four columns inside each four lanes; then the fours change places.
INLINE void transpose(vf r[LANES])
{
    vf q[LANES];
    for (int i = 0; i < LANES; i += 4) {
        vf t0 = LOWER(r[i], r[i + 1]), t1 = LOWER(r[i + 2], r[i + 3]);
        vf t2 = UPPER(r[i], r[i + 1]), t3 = UPPER(r[i + 2], r[i + 3]);
        q[i] = LOWER_PAIRS(t0, t1), q[i + 1] = UPPER_PAIRS(t0, t1);
        q[i + 2] = LOWER_PAIRS(t2, t3), q[i + 3] = UPPER_PAIRS(t2, t3);
    }
    for (int i = 0; i < 4; i++) {
#if LANES == 8
        r[i] = _mm256_permute2f128_ps(q[i], q[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(q[i], q[i + 4], 0x31);
#else
        vf t0 = _mm512_shuffle_f32x4(q[i], q[i + 4], 0x88), t1 = _mm512_shuffle_f32x4(q[i], q[i + 4], 0xdd);
        vf t2 = _mm512_shuffle_f32x4(q[i + 8], q[i + 12], 0x88), t3 = _mm512_shuffle_f32x4(q[i + 8], q[i + 12], 0xdd);
        r[i] = _mm512_shuffle_f32x4(t0, t2, 0x88), r[i + 8] = _mm512_shuffle_f32x4(t0, t2, 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t1, t3, 0x88), r[i + 12] = _mm512_shuffle_f32x4(t1, t3, 0xdd);
#endif
    }
}
#endif

// LANES rows of up to LANES elements, the first at element `from`, `step` apart; what is not there is zero.
INLINE void rows_get(zero_dtype type, const void *array, int64_t from, int64_t step, int64_t rows, int64_t left, vf r[LANES])
{
    if (__builtin_expect(rows >= LANES && left >= LANES, 1))
        for (int64_t i = 0; i < LANES; i++)
            r[i] = vf_get_as(type, array, from + i * step, LANES);
    else
        for (int64_t i = 0; i < LANES; i++)
            r[i] = i < rows ? vf_get_as(type, array, from + i * step, left) : (vf){0};
}

// `rows` rows of `depth` elements, `step` apart from element `first` on, become columns.
INLINE void pack_a_rows(zero_dtype type, int gelu, const void *a, int64_t first, int64_t step, int64_t rows, int64_t depth,
                        float *to)
{
    for (int64_t i = 0; i < rows; i += MR, to += A_PANEL(depth))
        for (int64_t t = 0; t < depth; t += LANES) {
            vf r[ZR_ROUND_UP(MR, LANES)] = {{0}};
            int64_t from = first + i * step + t;
            if (t % line_of(type) == 0)
                for (int64_t n = 0; n < MR; n++)
                    prefetch_as(type, a, from + (MR + n) * step);
            if (__builtin_expect(i + MR <= rows && t + LANES <= depth, 1))
                for (int n = 0; n < MR; n++)
                    r[n] = packed_a(type, gelu, a, from + n * step, LANES);
            else
                for (int n = 0; n < ZR_MIN(MR, rows - i); n++)
                    r[n] = packed_a(type, gelu, a, from + n * step, depth - t);
            for (int n = 0; n < MR; n += LANES)
                transpose(r + n);
            for (int64_t s = 0; s < ZR_MIN(LANES, depth - t); s++)
                for (int n = 0; n < MR; n += LANES)
                    vf_store(to + (t + s) * MR + n, r[n + s]);
        }
}

// `columns` rows of `depth` elements, `step` apart from element `first` on, become columns.
INLINE void pack_b_rows(zero_dtype type, const void *b, int64_t first, int64_t step, int64_t columns, int64_t depth,
                        float *to)
{
    for (int64_t j = 0; j < ZR_ROUND_UP(columns, NR); j += LANES)
        for (int64_t t = 0; t < depth; t += LANES) {
            vf r[LANES];
            float *at = to + j / NR * NR * depth + t * NR + j % NR;
            if (t % line_of(type) == 0)
                for (int64_t i = 0; i < LANES; i++)
                    prefetch_as(type, b, first + (j + LANES + i) * step + t);
            rows_get(type, b, first + j * step + t, step, ZR_MAX(0, columns - j), depth - t, r);
            transpose(r);
            for (int64_t i = 0; i < ZR_MIN(LANES, depth - t); i++)
                vf_store(at + i * NR, r[i]);
        }
}

#endif
