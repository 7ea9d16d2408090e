// Vectors of the width for which the file is compiled: GCC's vector types, and intrinsics for what
// C's operators lack. Only kernels include this; vectors never cross a call that is not inlined.
#ifndef ZR_COMPUTE_CPU_VECTOR_H
#define ZR_COMPUTE_CPU_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(LANES) // by tests, which compute 16 lanes on processors with 8
#elif defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

#define INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef double vd __attribute__((vector_size(4 * LANES))); // half as many lanes
typedef float vf_loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE vf vf_load(const float *p) { return *(const vf_loose *)p; }

INLINE void vf_store(float *p, vf v) { *(vf_loose *)p = v; }

INLINE vf vf_all(float x) { return x - (vf){0}; }

// Returns the first `left` lanes and zeros after them; all lanes if left >= LANES.
INLINE vf vf_get(const float *p, int64_t left)
{
    vf v = {0};
    if (__builtin_expect(left >= LANES, 1))
        return vf_load(p);
    memcpy(&v, p, sizeof(float) * (size_t)left);
    return v;
}

INLINE void vf_put(float *p, int64_t left, vf v)
{
    if (__builtin_expect(left >= LANES, 1))
        vf_store(p, v);
    else
        memcpy(p, &v, sizeof(float) * (size_t)left);
}

typedef float vf_half __attribute__((vector_size(2 * LANES), aligned(4), may_alias));

INLINE vd vd_from(vf_half v)
{
#if LANES == 16
    return _mm512_cvtps_pd(v);
#elif LANES == 8
    return _mm256_cvtps_pd(v);
#else
    return __builtin_convertvector(v, vd);
#endif
}

INLINE vf vf_select(vi mask, vf yes, vf no) // mask has lanes of -1 or 0
{
#if LANES == 8
    return _mm256_blendv_ps(no, yes, (vf)mask);
#else
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
#endif
}

// Lanes 0, 1, 2, ...
INLINE vi vi_iota(void)
{
    vi v = {0};
    for (int i = 0; i < LANES; i++)
        v[i] = i;
    return v;
}

INLINE vf vf_keep(vf v, int64_t left, float rest) // lanes from `left` on become `rest`
{
    return left >= LANES ? v : vf_select(vi_iota() < (int32_t)left, v, vf_all(rest));
}

INLINE vf vf_max(vf a, vf b) // a > b ? a : b
{
#if LANES == 16
    return _mm512_max_ps(a, b);
#elif LANES == 8
    return _mm256_max_ps(a, b);
#elif defined(__SSE2__)
    return _mm_max_ps(a, b);
#else
    return vf_select(a > b, a, b);
#endif
}

INLINE vf vf_min(vf a, vf b) // a < b ? a : b
{
#if LANES == 16
    return _mm512_min_ps(a, b);
#elif LANES == 8
    return _mm256_min_ps(a, b);
#elif defined(__SSE2__)
    return _mm_min_ps(a, b);
#else
    return vf_select(a < b, a, b);
#endif
}

// a * b + c. Rounded once where that is an instruction: where a result must not depend on whether
// the compiler fuses, this says which product is fused.
INLINE vf vf_multiply_add(vf a, vf b, vf c)
{
#if LANES == 16
    return _mm512_fmadd_ps(a, b, c);
#elif LANES == 8
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

INLINE vf vf_scaled_plus(vf v, float by, vf term) { return vf_multiply_add(v, vf_all(by), term); }

INLINE vf vf_sqrt(vf v)
{
#if LANES == 16
    return _mm512_sqrt_ps(v);
#elif LANES == 8
    return _mm256_sqrt_ps(v);
#elif defined(__SSE2__)
    return _mm_sqrt_ps(v);
#else
    for (int i = 0; i < LANES; i++)
        v[i] = sqrtf(v[i]);
    return v;
#endif
}

typedef float vf4 __attribute__((vector_size(16)));
typedef float vf8 __attribute__((vector_size(32)));

INLINE float vf_sum(vf v) // adds as a tree: lane i and lane i + half
{
#if LANES == 16
    vf8 eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    vf4 four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
               __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
#elif LANES == 8
    vf4 four =
        __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
    vf4 four = v;
#endif
    vf4 two = four + __builtin_shufflevector(four, four, 2, 3, 0, 1);
    return two[0] + two[1];
}

INLINE float vf_largest(vf v)
{
    float t[LANES];
    memcpy(t, &v, sizeof(t));
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
    return t[0];
}

#endif
