// Widens parts of a weight in codes (base/quantised.h), in the type in which a product reads its B.
#ifndef ZR_COMPUTE_CPU_PRODUCT_CODES_H
#define ZR_COMPUTE_CPU_PRODUCT_CODES_H

#include "compute/cpu/cpu_product_tile.h"

typedef struct code_levels { // the levels of nf4, where registers hold them
    vf part[ZR_NF4_LEVELS / LANES];
} code_levels;

INLINE code_levels levels_load(void)
{
    code_levels levels;
    for (int i = 0; i < ZR_NF4_LEVELS / LANES; i++)
        levels.part[i] = vf_load(zr_nf4_levels + i * LANES);
    return levels;
}

// Returns the levels of LANES codes.
INLINE vf levels_at(const code_levels *levels, vi codes)
{
#if LANES == 16
    return (vf)_mm512_permutexvar_ps((__m512i)codes, (__m512)levels->part[0]);
#elif LANES == 8
    vf low = _mm256_permutevar8x32_ps(levels->part[0], (__m256i)codes);
    vf high = _mm256_permutevar8x32_ps(levels->part[1], (__m256i)codes);
    return _mm256_blendv_ps(low, high, (vf)(codes << 28)); // bit 3 of the code becomes the sign
#else
    vf out;
    for (int i = 0; i < LANES; i++)
        out[i] = zr_nf4_levels[codes[i]];
    return out;
#endif
}

// Returns the next LANES codes; those of each byte stand in the order of its halves.
INLINE vi nf4_codes(const uint8_t *from)
{
    vi out;
#if LANES == 4
    for (int i = 0; i < LANES; i++)
        out[i] = from[i / 2] >> (i % 2 ? 0 : 4) & 15;
#else
    vi shift;
    for (int i = 0; i < LANES; i++)
        shift[i] = i % 8 / 2 * 8 + (i % 2 ? 0 : 4);
    uint32_t words[LANES / 8];
    memcpy(words, from, sizeof words);
    for (int i = 0; i < LANES; i++)
        out[i] = (int32_t)words[i / 8];
    out = (vi)((vw)out >> (vw)shift) & 15;
#endif
    return out;
}

// Widens elements [first, first + count) of a row; both are even.
INLINE void nf4_widen(zero_dtype type, const uint8_t *codes, const float *scales,
                      const code_levels *levels, int64_t first, int64_t count, void *to, int64_t at)
{
    for (int64_t i = first, end = first + count, stop; i < end; i = stop) {
        float scale = scales[i / ZR_NF4_BLOCK];
        stop = ZR_MIN(end, (i / ZR_NF4_BLOCK + 1) * ZR_NF4_BLOCK);
        for (; i + LANES <= stop; i += LANES, at += LANES)
            vf_put_as(type, to, at, LANES, levels_at(levels, nf4_codes(codes + i / 2)) * scale);
        for (; i < stop; i++, at++) {
            int level = i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
            vf_put_as(type, to, at, 1, vf_all(zr_nf4_levels[level] * scale));
        }
    }
}

INLINE void int8_widen(zero_dtype type, const int8_t *codes, float scale, int64_t first,
                       int64_t count, void *to, int64_t at)
{
    float by = scale * (1.0f / 127);
    typedef int8_t bytes __attribute__((vector_size(LANES)));
    for (int64_t i = 0; i < count; i += LANES) {
        bytes some = {0};
        memcpy(&some, codes + first + i, (size_t)ZR_MIN(LANES, count - i));
        vf x = __builtin_convertvector(some, vf) * by;
        vf_put_as(type, to, at + i, count - i, x);
    }
}

// Widens columns [column, column + columns) of rows [row, row + rows) of a product's B, as it lies,
// into rows without gaps.
INLINE void codes_widen(zero_dtype type, const zr_operands *of, int64_t row, int64_t rows,
                        int64_t column, int64_t columns, void *to)
{
    const zr_product *p = of->product;
    int64_t width = ZR_B_WIDTH(p), bytes = zr_weight_code_bytes(p->format, width),
            scales = zr_weight_row_scales(p->format, width);
    const code_levels levels = levels_load();
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *codes = (const uint8_t *)of->b + (row + r) * bytes;
        const float *scale = of->scales + (row + r) * scales;
        if (p->format == ZR_WEIGHT_NF4)
            nf4_widen(type, codes, scale, &levels, column, columns, to, r * columns);
        else
            int8_widen(type, (const int8_t *)codes, *scale, column, columns, to, r * columns);
    }
}

#endif
