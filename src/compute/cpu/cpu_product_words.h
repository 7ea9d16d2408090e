// Words, the elements of the panels of our own products: fp32 elements, or pairs of bf16.
#ifndef ZR_COMPUTE_CPU_PRODUCT_WORDS_H
#define ZR_COMPUTE_CPU_PRODUCT_WORDS_H

#include "compute/cpu/cpu_math.h"
#include "compute/cpu/cpu_pairs.h"
#include "compute/cpu/cpu_square.h"
#include "compute/product_ops.h"

static inline bool in_pairs(const zr_product *p) { return HAS_PAIRS && p->dtype == ZERO_BF16; }

// Returns the words of a product's k.
static inline int64_t steps_of(const zr_product *p) { return words_of(in_pairs(p), p->k); }

typedef float vf_halves __attribute__((vector_size(4 * LANES), aligned(2), may_alias));

INLINE void prefetch_as(zero_dtype type, const void *array, int64_t i)
{
    __builtin_prefetch(type == ZERO_F32 ? (const void *)((const float *)array + i)
                                        : (const uint16_t *)array + i);
}

// Returns the elements of a cache line.
INLINE int64_t line_of(zero_dtype type) { return type == ZERO_F32 ? 16 : 32; }

INLINE vf packed_a(zero_dtype type, int gelu, const void *array, int64_t i, int64_t left)
{
    vf x = vf_get_as(type, array, i, left);
    return gelu ? vf_rounded_to(type, vf_gelu(x)) : x;
}

// Returns LANES words of consecutive elements from element i on; `left` of the elements exist.
INLINE vf words_along(zero_dtype type, bool pairs, int gelu, const void *array, int64_t i,
                      int64_t left)
{
    const uint16_t *at = (const uint16_t *)array + i;
    vf word = {0};
    if (!pairs)
        return packed_a(type, gelu, array, i, left);
    if (__builtin_expect(left >= 2 * LANES, 1))
        word = *(const vf_halves *)at;
    else
        memcpy(&word, at, sizeof(*at) * (size_t)ZR_MAX(0, left));
    if (!gelu)
        return word;
    return pairs_of(vf_rounded_to(type, vf_gelu((vf)((vw)word << 16))),
                    vf_rounded_to(type, vf_gelu((vf)((vw)word & 0xffff0000))));
}

// Returns LANES words of elements that lie `step` apart, the first at element i + LANE: of one row
// of elements, or of two if they are pairs. `left` elements of a row exist, and `depth` rows.
INLINE vf words_across(zero_dtype type, bool pairs, int gelu, const void *array, int64_t i,
                       int64_t step, int64_t left, int64_t depth)
{
    vf x = packed_a(type, gelu, array, i, left);
    if (!pairs)
        return x;
    return pairs_of(x, depth > 1 ? packed_a(type, gelu, array, i + step, left) : (vf){0});
}

// Loads LANES rows of up to LANES words; as rows_get.
INLINE void word_rows_get(zero_dtype type, bool pairs, const void *array, int64_t from,
                          int64_t step, int64_t rows, int64_t left, vf r[LANES])
{
    if (!pairs)
        rows_get(type, array, from, step, rows, left, r);
    else if (__builtin_expect(rows >= LANES && left >= 2 * LANES, 1))
        for (int64_t i = 0; i < LANES; i++)
            r[i] = words_along(type, true, 0, array, from + i * step, 2 * LANES);
    else
        for (int64_t i = 0; i < LANES; i++)
            r[i] = i < rows ? words_along(type, true, 0, array, from + i * step, left) : (vf){0};
}

#endif
