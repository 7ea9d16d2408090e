// Squares of LANES x LANES elements, transposed in registers.
#ifndef ZR_COMPUTE_CPU_SQUARE_H
#define ZR_COMPUTE_CPU_SQUARE_H

#include "compute/cpu/cpu_storage.h"

#if LANES == 4
INLINE void transpose(vf r[LANES])
{
    vf t0 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
       t1 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    vf t2 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
       t3 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(t0, t1, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(t0, t1, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(t2, t3, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(t2, t3, 2, 3, 6, 7);
}
#else
#if LANES == 8
#define LOWER(a, b) _mm256_unpacklo_ps(a, b) // in each group of four lanes: a0 b0 a1 b1
#define UPPER(a, b) _mm256_unpackhi_ps(a, b)
#define LOWER_PAIRS(a, b) (vf) _mm256_unpacklo_pd((__m256d)(a), (__m256d)(b))
#define UPPER_PAIRS(a, b) (vf) _mm256_unpackhi_pd((__m256d)(a), (__m256d)(b))
#else
#define LOWER(a, b) _mm512_unpacklo_ps(a, b)
#define UPPER(a, b) _mm512_unpackhi_ps(a, b)
#define LOWER_PAIRS(a, b) (vf) _mm512_unpacklo_pd((__m512d)(a), (__m512d)(b))
#define UPPER_PAIRS(a, b) (vf) _mm512_unpackhi_pd((__m512d)(a), (__m512d)(b))
#endif

// Transposes 4 x 4 elements inside each group of four lanes; then the groups change places.
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
        vf t0 = _mm512_shuffle_f32x4(q[i], q[i + 4], 0x88),
           t1 = _mm512_shuffle_f32x4(q[i], q[i + 4], 0xdd);
        vf t2 = _mm512_shuffle_f32x4(q[i + 8], q[i + 12], 0x88),
           t3 = _mm512_shuffle_f32x4(q[i + 8], q[i + 12], 0xdd);
        r[i] = _mm512_shuffle_f32x4(t0, t2, 0x88), r[i + 8] = _mm512_shuffle_f32x4(t0, t2, 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t1, t3, 0x88),
              r[i + 12] = _mm512_shuffle_f32x4(t1, t3, 0xdd);
#endif
    }
}
#endif

// Loads LANES rows of up to LANES elements, `step` apart, the first at element `from`; what does
// not exist is zero.
INLINE void rows_get(zero_dtype type, const void *array, int64_t from, int64_t step, int64_t rows,
                     int64_t left, vf r[LANES])
{
    if (__builtin_expect(rows >= LANES && left >= LANES, 1))
        for (int64_t i = 0; i < LANES; i++)
            r[i] = vf_get_as(type, array, from + i * step, LANES);
    else
        for (int64_t i = 0; i < LANES; i++)
            r[i] = i < rows ? vf_get_as(type, array, from + i * step, left) : (vf){0};
}

#endif
