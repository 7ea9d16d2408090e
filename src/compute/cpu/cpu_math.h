// exp, the logistic function and GELU over vectors, and Philox over consecutive counters.
//
// exp: x = n ln2 + r, |r| <= ln2/2; 2 e^r by the polynomial of degree 6 of Cephes, times 2^(n-1),
// which is built in the exponent's bits. The error is within 2 ulp from 2^-125 up to the last
// finite result; results below that are zero. NaN stays NaN, -inf gives 0, inf gives inf.
//
// gelu_new: 0.5 x (1 + tanh(u/2)) = x / (1 + e^-u), u = 2 sqrt(2/pi) (x + 0.044715 x^3).
#ifndef ZR_COMPUTE_CPU_MATH_H
#define ZR_COMPUTE_CPU_MATH_H

#include "compute/cpu/cpu_storage.h"

INLINE vf vf_exp(vf x)
{
    // Adding 1.5 * 2^23 rounds to an integer, which then lies in the low bits.
    const vf shift = vf_all(12582912.0f);
    // with the arguments in this order NaN passes through
    x = vf_min(vf_all(89), vf_max(vf_all(-87.4f), x));
    vf biased = x * 1.44269504088896341f + shift;
    vf n = biased - shift;
    vf r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vf square = r * r;
    vf high = r * (2 * 1.9875691500e-4f) + 2 * 1.3981999507e-3f,
       middle = r * (2 * 8.3334519073e-3f) + 2 * 4.1665795894e-2f;
    vf low = r * (2 * 1.6666665459e-1f) + 2 * 5.0000001201e-1f;
    vf y = ((high * square + middle) * square + low) * square + (r + r) + 2.0f;
    // This is 2^(n-1); the least n, -126, gives the bits of zero.
    vi power = ((vi)biased << 23) + (126 << 23);
    return y * (vf)power;
}

INLINE vf vf_logistic(vf x) // 1 / (1 + e^-x) = (1 + tanh(x/2)) / 2
{
    return 1.0f / (1.0f + vf_exp(-x));
}

INLINE vf vf_silu(vf x) { return x * vf_logistic(x); }

#define GELU_SLOPE 1.5957691216057308f // 2 sqrt(2/pi)
#define GELU_CUBIC 0.044715f

INLINE vf vf_gelu(vf x) { return x * vf_logistic(GELU_SLOPE * (x + GELU_CUBIC * (x * x * x))); }

// The slope is 0 or 1 well before |x| = 10, and up to there nothing here overflows.
INLINE vf vf_gelu_slope(vf x)
{
    x = vf_min(vf_all(10), vf_max(vf_all(-10), x));
    vf e = vf_exp(-GELU_SLOPE * (x + GELU_CUBIC * (x * x * x)));
    vf s = 1.0f / (1.0f + e);
    return s + x * (e * s * s) * (GELU_SLOPE * (1.0f + 3 * GELU_CUBIC * (x * x)));
}

// The normal distribution's function at x, and e = exp(-x^2/2). Its tail is e/2 times a polynomial
// of t = 1 / (1 + 0.3 |x| / sqrt 2) whose relative error is within 2e-8 up to |x| = 13.
INLINE vf vf_normal(vf x, vf *e)
{
    vf t = 1.0f / (1.0f + 0.212132034355964258f * vf_max(x, -x)), y = vf_all(-0.129434060f);
    y = y * t + 0.485096350f;
    y = y * t + -0.511226232f;
    y = y * t + 0.546394801f;
    y = y * t + -0.0936310816f;
    y = y * t + 0.214436209f;
    y = y * t + 0.148482447f;
    y = y * t + 0.170691933f;
    y = y * t + 0.169189615f;
    *e = vf_exp(-0.5f * (x * x));
    vf tail = 0.5f * *e * (y * t);
    return vf_select(x < 0, tail, 1.0f - tail);
}

INLINE vf vf_gelu_erf(vf x)
{
    vf e;
    return x * vf_normal(x, &e);
}

// The slope is 0 or 1 well before |x| = 13.
INLINE vf vf_gelu_erf_slope(vf x)
{
    vf e;
    x = vf_min(vf_all(13), vf_max(vf_all(-13), x));
    vf normal = vf_normal(x, &e);
    return normal + x * e * 0.398942280401432678f;
}

// ---- Philox4x32-10 ----

#define PHILOX_WORDS 64             // in a batch: 16 counters
#define PHILOX_VECTORS (32 / LANES) // vectors of a batch, LANES/2 counters each
// Words of a buffer, with room to read whole vectors from anywhere in a batch.
#define PHILOX_ROOM (PHILOX_WORDS + LANES)

typedef uint64_t vu64 __attribute__((vector_size(4 * LANES)));

INLINE vu64 vu64_iota(void)
{
    vu64 v = {0};
    for (int i = 0; i < LANES / 2; i++)
        v[i] = (uint64_t)i;
    return v;
}

INLINE vu64 vu64_multiply(vu64 a, vu64 b) // the products of the lower halves
{
#if LANES == 16
    return (vu64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif LANES == 8
    return (vu64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (vu64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// Sets words[4*i .. 4*i+3] = zr_philox4x32(key, 0, counter + i). Each 32-bit word is computed in a
// 64-bit lane; what a step leaves in the lane's upper half is never read.
INLINE void philox_words(uint64_t key, uint64_t counter, uint32_t words[PHILOX_ROOM])
{
    vu64 v0[PHILOX_VECTORS], v1[PHILOX_VECTORS], v2[PHILOX_VECTORS] = {{0}},
                                                 v3[PHILOX_VECTORS] = {{0}};
    const vu64 factor0 = (vu64){0} + 0xd2511f53u, factor1 = (vu64){0} + 0xcd9e8d57u;
    uint64_t key0 = (uint32_t)key, key1 = key >> 32;
    for (int i = 0; i < PHILOX_VECTORS; i++) {
        v0[i] = vu64_iota() + (counter + (uint64_t)(i * (LANES / 2)));
        v1[i] = v0[i] >> 32;
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < PHILOX_VECTORS; i++) {
            vu64 product0 = vu64_multiply(v0[i], factor0), product1 = vu64_multiply(v2[i], factor1);
            v0[i] = (product1 >> 32) ^ v1[i] ^ key0;
            v2[i] = (product0 >> 32) ^ v3[i] ^ key1;
            v1[i] = product1;
            v3[i] = product0;
        }
        key0 = (uint32_t)(key0 + 0x9e3779b9u);
        key1 = (uint32_t)(key1 + 0xbb67ae85u);
    }
    for (int i = 0; i < PHILOX_VECTORS; i++) {
        vu64 low = (v0[i] & 0xffffffffu) | v1[i] << 32, high = (v2[i] & 0xffffffffu) | v3[i] << 32;
        for (int lane = 0; lane < LANES / 2; lane++) {
            uint64_t four[2] = {low[lane], high[lane]};
            memcpy(words + 4 * (i * (LANES / 2) + lane), four, sizeof(four));
        }
    }
}

typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu_loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// Returns lanes of -1 where dropout keeps; `threshold` is that of zr_dropout_threshold.
INLINE vi words_kept(const uint32_t *words, uint64_t threshold)
{
    if (threshold > UINT32_MAX)
        return (vi){0};
    return (vi)((vu)(*(const vu_loose *)words) >= (uint32_t)threshold);
}

#endif
