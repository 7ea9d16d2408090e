// Packs B of a product to panels of words, as cpu_product_pack.h describes them.
#ifndef ZR_COMPUTE_CPU_PRODUCT_PACK_B_H
#define ZR_COMPUTE_CPU_PRODUCT_PACK_B_H

#include "compute/cpu/cpu_product_tile.h"

#define AHEAD 4 // steps of B that are packed together while later ones are fetched

// Packs B stored as (k,n): `depth` rows of `columns` elements.
INLINE void pack_b_steps(zero_dtype type, bool pairs, const void *b, int64_t first, int64_t step,
                         int64_t columns, int64_t depth, float *to)
{
    const int64_t words = words_of(pairs, depth), rows = pairs ? 2 : 1; // rows of a word
    for (int64_t t0 = 0; t0 < words; t0 += AHEAD) {
        float *panel = to + t0 * NR;
        int64_t steps = ZR_MIN(AHEAD, words - t0), width;
        for (int64_t j = 0; j < columns; j += width, panel += NR * words) {
            width = panel_columns(columns - j);
            for (int64_t t = 0; t < steps; t++) {
                int64_t row = (t0 + t) * rows, from = first + row * step + j;
                for (int64_t r = 0; r < rows; r++) {
                    prefetch_as(type, b, from + (AHEAD * rows + r) * step);
                    prefetch_as(type, b, from + (AHEAD * rows + r) * step + width - 1);
                }
                for (int64_t v = 0; v < width; v += LANES)
                    vf_store(panel + t * NR + v, words_across(type, pairs, 0, b, from + v, step,
                                                              width - v, depth - row));
            }
        }
    }
}

// Packs B stored as (n,k): `columns` rows of `depth` elements become columns.
INLINE void pack_b_rows(zero_dtype type, bool pairs, const void *b, int64_t first, int64_t step,
                        int64_t columns, int64_t depth, float *to)
{
    const int64_t words = words_of(pairs, depth), of_word = pairs ? 2 : 1; // elements of a word
    int64_t width;
    for (int64_t j = 0; j < columns; j += width, to += NR * words) {
        width = panel_columns(columns - j);
        for (int64_t v = 0; v < width; v += LANES)
            for (int64_t t = 0; t < words; t += LANES) {
                vf r[LANES];
                int64_t at = t * of_word, from = first + (j + v) * step + at;
                if (at % line_of(type) == 0)
                    for (int64_t i = LANES; i < 2 * LANES; i++)
                        prefetch_as(type, b, from + i * step);
                word_rows_get(type, pairs, b, from, step, width - v, depth - at, r);
                transpose(r);
                for (int64_t i = 0; i < ZR_MIN(LANES, words - t); i++)
                    vf_store(to + (t + i) * NR + v, r[i]);
            }
    }
}

#endif
