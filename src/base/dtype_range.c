// Converts ranges of 16-bit floats to fp32 and back, with the same bits as the functions of
// dtype.c, for any address and count: in portable C, and with AVX2 and F16C where the processor has
// them.
// comm/ and the engine call it; compute/cpu has vector code of its own inside its kernels.
#include "base/dtype.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef uint16_t half __attribute__((aligned(1), may_alias));
typedef uint32_t word __attribute__((aligned(1), may_alias));
typedef float single __attribute__((aligned(1), may_alias));

typedef struct range_kernels { // one table per instruction set
    void (*widen_bf16)(const half *from, int64_t count, word *to);
    void (*narrow_bf16)(const word *from, int64_t count, half *to);
    void (*widen_f16)(const half *from, int64_t count, single *to);
    void (*narrow_f16)(const single *from, int64_t count, half *to);
} range_kernels;

static void widen_bf16_portable(const half *restrict from, int64_t count, word *restrict to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (uint32_t)from[i] << 16;
}

static void narrow_bf16_portable(const word *restrict from, int64_t count, half *restrict to)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = from[i], quiet = bits >> 16 | 0x40;
        uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        to[i] = (uint16_t)((int32_t)(bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
    }
}

static void widen_f16_portable(const half *from, int64_t count, single *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = zr_f16_to_f32(from[i]);
}

static void narrow_f16_portable(const single *from, int64_t count, half *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = zr_f32_to_f16(from[i]);
}

static const range_kernels portable = {
    .widen_bf16 = widen_bf16_portable,
    .narrow_bf16 = narrow_bf16_portable,
    .widen_f16 = widen_f16_portable,
    .narrow_f16 = narrow_f16_portable,
};

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,f16c")))

AVX2 static void widen_bf16_avx2(const half *from, int64_t count, word *to)
{
    int64_t whole = count & ~(int64_t)7;
    for (int64_t i = 0; i < whole; i += 8) {
        __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(from + i)));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_slli_epi32(bits, 16));
    }
    widen_bf16_portable(from + whole, count - whole, to + whole);
}

// Rounds to eight bf16, each in the low half of a 32-bit lane.
AVX2 static inline __m256i rounded_bf16(const word *from)
{
    __m256i bits = _mm256_loadu_si256((const __m256i *)from);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256 value = _mm256_castsi256_ps(bits),
           quiet = _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_set1_epi32(0x400000)));
    __m256 chosen = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), quiet,
                                     _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
}

AVX2 static void narrow_bf16_avx2(const word *from, int64_t count, half *to)
{
    int64_t whole = count & ~(int64_t)15;
    for (int64_t i = 0; i < whole; i += 16) {
        // packus works within 128-bit lanes; the permutation restores the order.
        __m256i packed = _mm256_packus_epi32(rounded_bf16(from + i), rounded_bf16(from + i + 8));
        _mm256_storeu_si256((__m256i *)(to + i),
                            _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0)));
    }
    narrow_bf16_portable(from + whole, count - whole, to + whole);
}

AVX2 static void widen_f16_avx2(const half *from, int64_t count, single *to)
{
    int64_t whole = count & ~(int64_t)7;
    for (int64_t i = 0; i < whole; i += 8)
        _mm256_storeu_ps((float *)(to + i),
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    widen_f16_portable(from + whole, count - whole, to + whole);
}

AVX2 static void narrow_f16_avx2(const single *from, int64_t count, half *to)
{
    int64_t whole = count & ~(int64_t)7;
    for (int64_t i = 0; i < whole; i += 8) {
        __m256 wide = _mm256_loadu_ps((const float *)(from + i));
        _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
    }
    narrow_f16_portable(from + whole, count - whole, to + whole);
}

static const range_kernels avx2 = {
    .widen_bf16 = widen_bf16_avx2,
    .narrow_bf16 = narrow_bf16_avx2,
    .widen_f16 = widen_f16_avx2,
    .narrow_f16 = narrow_f16_avx2,
};

// Uses what the loader found out. Clang 14 cannot ask for F16C, but every processor with AVX2 and
// FMA has it.
static const range_kernels *best_kernels(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &avx2 : &portable;
}
#else
static const range_kernels *best_kernels(void) { return &portable; }
#endif

static void widen_bytes(const uint8_t *from, int64_t count, float *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i];
}

static void narrow_bytes(const float *from, int64_t count, uint8_t *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (uint8_t)from[i];
}

static inline void widen_values(const range_kernels *kernels, zero_dtype dtype, const void *from,
                                int64_t count, float *to)
{
    assert(dtype == ZERO_F32 || dtype == ZERO_BF16 || dtype == ZERO_F16 || dtype == ZERO_U8);
    if (dtype == ZERO_BF16)
        kernels->widen_bf16(from, count, (word *)to);
    else if (dtype == ZERO_U8)
        widen_bytes(from, count, to);
    else if (dtype == ZERO_F16)
        kernels->widen_f16(from, count, (single *)to);
    else if (from != to && count > 0)
        memcpy(to, from, sizeof *to * (size_t)count);
}

static inline void narrow_values(const range_kernels *kernels, zero_dtype dtype, const float *from,
                                 int64_t count, void *to)
{
    assert(dtype == ZERO_F32 || dtype == ZERO_BF16 || dtype == ZERO_F16 || dtype == ZERO_U8);
    if (dtype == ZERO_BF16)
        kernels->narrow_bf16((const word *)from, count, to);
    else if (dtype == ZERO_U8)
        narrow_bytes(from, count, to);
    else if (dtype == ZERO_F16)
        kernels->narrow_f16((const single *)from, count, to);
    else if (from != to && count > 0)
        memcpy(to, from, sizeof *from * (size_t)count);
}

void zr_widen(zero_dtype dtype, const void *from, int64_t count, float *to)
{
    widen_values(best_kernels(), dtype, from, count, to);
}

void zr_narrow(zero_dtype dtype, const float *from, int64_t count, void *to)
{
    narrow_values(best_kernels(), dtype, from, count, to);
}

void zr_widen_portable(zero_dtype dtype, const void *from, int64_t count, float *to)
{
    widen_values(&portable, dtype, from, count, to);
}

void zr_narrow_portable(zero_dtype dtype, const float *from, int64_t count, void *to)
{
    narrow_values(&portable, dtype, from, count, to);
}
