// Loads and stores of vectors: fp32, bf16 and fp16 in memory, fp32 in registers. Stores round to
// nearest even.
//
// `type` is a constant wherever these are called (WITH_TYPE makes it one), so that only one of
// their branches remains.
#ifndef ZR_COMPUTE_CPU_STORAGE_H
#define ZR_COMPUTE_CPU_STORAGE_H

#include "base/dtype.h"
#include "compute/cpu/cpu_vector.h"

typedef uint16_t vh __attribute__((vector_size(2 * LANES)));
typedef uint16_t vh_loose __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef uint32_t vw __attribute__((vector_size(4 * LANES)));

INLINE vw vw_from_halves(vh h)
{
#if LANES == 16
    return (vw)_mm512_cvtepu16_epi32((__m256i)h);
#elif LANES == 8
    return (vw)_mm256_cvtepu16_epi32((__m128i)h);
#else
    return __builtin_convertvector(h, vw);
#endif
}

INLINE vh vw_to_halves(vw w) // lanes are below 2^16
{
#if LANES == 16
    return (vh)_mm512_cvtepi32_epi16((__m512i)w);
#elif LANES == 8
    return (vh)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)w),
                                _mm256_extracti128_si256((__m256i)w, 1));
#else
    return __builtin_convertvector(w, vh);
#endif
}

INLINE vf vf_from_bf16(vh h) { return (vf)(vw_from_halves(h) << 16); }

// Returns words whose upper halves are the bf16 nearest to v; a NaN stays one.
INLINE vw vw_nearest_bf16(vf v)
{
    vw bits = (vw)v, nearest = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000;
#if LANES == 16
    return (vw)_mm512_mask_mov_epi32((__m512i)nearest, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q),
                                     (__m512i)quiet);
#else
    return (vw)vf_select(v == v, (vf)nearest, (vf)quiet);
#endif
}

INLINE vh vf_to_bf16(vf v) { return vw_to_halves(vw_nearest_bf16(v) >> 16); }

INLINE vf vf_from_f16(vh h)
{
#if LANES == 16
    return (vf)_mm512_cvtph_ps((__m256i)h);
#elif LANES == 8
    return (vf)_mm256_cvtph_ps((__m128i)h);
#else
    vf v;
    for (int i = 0; i < LANES; i++)
        v[i] = zr_f16_to_f32(h[i]);
    return v;
#endif
}

INLINE vh vf_to_f16(vf v)
{
#if LANES == 16
    return (vh)_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
#elif LANES == 8
    return (vh)_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
#else
    vh h;
    for (int i = 0; i < LANES; i++)
        h[i] = zr_f32_to_f16(v[i]);
    return h;
#endif
}

INLINE vf vf_from_halves(zero_dtype type, vh h)
{
    return type == ZERO_BF16 ? vf_from_bf16(h) : vf_from_f16(h);
}

// Returns elements i .. i+left-1 of an array; lanes from `left` on are zero.
INLINE vf vf_get_as(zero_dtype type, const void *array, int64_t i, int64_t left)
{
    if (type == ZERO_F32)
        return vf_get((const float *)array + i, left);
    const uint16_t *at = (const uint16_t *)array + i;
    if (__builtin_expect(left >= LANES, 1))
        return vf_from_halves(type, *(const vh_loose *)at);
    vh some = {0};
    memcpy(&some, at, sizeof(*at) * (size_t)left);
    return vf_from_halves(type, some);
}

INLINE void halves_put(void *array, int64_t i, int64_t left, vh h)
{
    uint16_t *at = (uint16_t *)array + i;
    if (__builtin_expect(left >= LANES, 1)) {
        *(vh_loose *)at = h;
        return;
    }
    vh some = h; // memcpy's source must lie in memory; h need not
    memcpy(at, &some, sizeof(*at) * (size_t)left);
}

INLINE void vf_put_as(zero_dtype type, void *array, int64_t i, int64_t left, vf v)
{
    if (type == ZERO_F32) {
        vf_put((float *)array + i, left, v);
        return;
    }
    halves_put(array, i, left, type == ZERO_BF16 ? vf_to_bf16(v) : vf_to_f16(v));
}

INLINE vf vf_rounded_to(zero_dtype type, vf v) // as storing and loading it would round it
{
    return type == ZERO_F32    ? v
           : type == ZERO_BF16 ? (vf)(vw_nearest_bf16(v) & 0xffff0000)
                               : vf_from_f16(vf_to_f16(v));
}

// Makes `call` with NAME as a constant that equals `dtype`: this compiles one copy of an INLINE
// body per storage type.
#define WITH_TYPE(NAME, dtype, call)                                                               \
    do {                                                                                           \
        if ((dtype) == ZERO_F32) {                                                                 \
            const zero_dtype NAME = ZERO_F32;                                                      \
            call;                                                                                  \
        } else if ((dtype) == ZERO_BF16) {                                                         \
            const zero_dtype NAME = ZERO_BF16;                                                     \
            call;                                                                                  \
        } else {                                                                                   \
            const zero_dtype NAME = ZERO_F16;                                                      \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

#endif
