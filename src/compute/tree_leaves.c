// The leaves of the tree of sums, compiled for each storage type and instruction set. All of them
// give the same bits.
#include "compute/tree_sum.h"
#include "base/dtype.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

// `type` is a constant wherever these are called, so the branches on it vanish.
#define INLINE static inline __attribute__((always_inline))

INLINE float get(zero_dtype type, const void *source, int64_t i)
{
    if (type == ZERO_F32)
        return ((const float *)source)[i];
    if (type == ZERO_F16)
        return zr_f16_to_f32(((const uint16_t *)source)[i]);
    uint32_t bits = (uint32_t)((const uint16_t *)source)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE void add(zero_dtype type, float *restrict out, const void *const *src, int64_t first,
                int64_t count)
{
    const void *a = src[0];
    for (int64_t i = 0; i < count; i++)
        out[i] += get(type, a, first + i);
}

INLINE void pair(zero_dtype type, float *restrict out, const void *const *src, int64_t first,
                 int64_t count)
{
    const void *a = src[0], *b = src[1];
    for (int64_t i = 0; i < count; i++)
        out[i] = get(type, a, first + i) + get(type, b, first + i);
}

INLINE void add_four(zero_dtype type, float *restrict out, const void *const *src, int64_t first,
                     int64_t count)
{
    const void *a = src[0], *b = src[1], *c = src[2], *d = src[3];
    for (int64_t i = 0; i < count; i++)
        out[i] = (get(type, a, first + i) + get(type, b, first + i)) +
                 (get(type, c, first + i) + get(type, d, first + i));
}

INLINE void leaf_of(zr_tree_leaf leaf, zero_dtype type, float *out, const void *const *src,
                    int64_t first, int64_t count)
{
    if (leaf == ZR_LEAF_ADD)
        add(type, out, src, first, count);
    else if (leaf == ZR_LEAF_PAIR)
        pair(type, out, src, first, count);
    else
        add_four(type, out, src, first, count);
}

void zr_tree_leaf_sum_portable(zr_tree_leaf leaf, zero_dtype dtype, float *out,
                               const void *const *src, int64_t first, int64_t count)
{
    if (dtype == ZERO_F32)
        leaf_of(leaf, ZERO_F32, out, src, first, count);
    else if (dtype == ZERO_BF16)
        leaf_of(leaf, ZERO_BF16, out, src, first, count);
    else
        leaf_of(leaf, ZERO_F16, out, src, first, count);
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,f16c")))

AVX2 INLINE __m256 get_eight(zero_dtype type, const void *source, int64_t i)
{
    if (type == ZERO_F32)
        return _mm256_loadu_ps((const float *)source + i);
    __m128i bits = _mm_loadu_si128((const __m128i *)((const uint16_t *)source + i));
    if (type == ZERO_F16)
        return _mm256_cvtph_ps(bits);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

AVX2 INLINE void add_avx2(zero_dtype type, float *out, const void *const *src, int64_t first,
                          int64_t count)
{
    int64_t whole = count & ~(int64_t)7;
    for (int64_t i = 0; i < whole; i += 8)
        _mm256_storeu_ps(
            out + i, _mm256_add_ps(_mm256_loadu_ps(out + i), get_eight(type, src[0], first + i)));
    add(type, out + whole, src, first + whole, count - whole);
}

AVX2 INLINE void pair_avx2(zero_dtype type, float *out, const void *const *src, int64_t first,
                           int64_t count)
{
    int64_t whole = count & ~(int64_t)7;
    for (int64_t i = 0; i < whole; i += 8)
        _mm256_storeu_ps(out + i, _mm256_add_ps(get_eight(type, src[0], first + i),
                                                get_eight(type, src[1], first + i)));
    pair(type, out + whole, src, first + whole, count - whole);
}

AVX2 INLINE void add_four_avx2(zero_dtype type, float *out, const void *const *src, int64_t first,
                               int64_t count)
{
    int64_t whole = count & ~(int64_t)7;
    for (int64_t i = 0; i < whole; i += 8) {
        __m256 left =
            _mm256_add_ps(get_eight(type, src[0], first + i), get_eight(type, src[1], first + i));
        __m256 right =
            _mm256_add_ps(get_eight(type, src[2], first + i), get_eight(type, src[3], first + i));
        _mm256_storeu_ps(out + i, _mm256_add_ps(left, right));
    }
    add_four(type, out + whole, src, first + whole, count - whole);
}

AVX2 INLINE void leaf_of_avx2(zr_tree_leaf leaf, zero_dtype type, float *out,
                              const void *const *src, int64_t first, int64_t count)
{
    if (leaf == ZR_LEAF_ADD)
        add_avx2(type, out, src, first, count);
    else if (leaf == ZR_LEAF_PAIR)
        pair_avx2(type, out, src, first, count);
    else
        add_four_avx2(type, out, src, first, count);
}

AVX2 static void leaf_sum_avx2(zr_tree_leaf leaf, zero_dtype dtype, float *out,
                               const void *const *src, int64_t first, int64_t count)
{
    if (dtype == ZERO_F32)
        leaf_of_avx2(leaf, ZERO_F32, out, src, first, count);
    else if (dtype == ZERO_BF16)
        leaf_of_avx2(leaf, ZERO_BF16, out, src, first, count);
    else
        leaf_of_avx2(leaf, ZERO_F16, out, src, first, count);
}
#endif

void zr_tree_leaf_sum(zr_tree_leaf leaf, zero_dtype dtype, float *out, const void *const *src,
                      int64_t first, int64_t count)
{
#if defined(__x86_64__)
    // base/dtype_range.c checks the processor in the same way.
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        leaf_sum_avx2(leaf, dtype, out, src, first, count);
        return;
    }
#endif
    zr_tree_leaf_sum_portable(leaf, dtype, out, src, first, count);
}
