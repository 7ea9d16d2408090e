// Packs operands of products to panels, each one stream, in the order in which tiles read. A panel
// consists of words: fp32 elements, or pairs of bf16 (cpu_product_words.h). A step is a word of k.
//
//   A  MR rows, in chunks of LANES steps  [row 0: t=0..LANES-1] ... [row MR-1: t=0..LANES-1]
//                                         [row 0: t=LANES.. ] ...
//   B  NR columns                         [t=0: NR] [t=1: NR] ...
//
// Zeros fill up the last panel (rows or columns), A's last chunk (steps) and the last pair. In
// storage, the rows or columns of an operand lie `step` elements apart, beginning at element
// `first`; `depth` counts elements of k. B is packed by cpu_product_pack_b.h.
#ifndef ZR_COMPUTE_CPU_PRODUCT_PACK_H
#define ZR_COMPUTE_CPU_PRODUCT_PACK_H

#include "compute/cpu/cpu_product_tile.h"

#define A_PANEL(depth) (MR * ZR_ROUND_UP(depth, LANES))

// Packs A stored as (m,k): `rows` rows of `depth` elements.
INLINE void pack_a_rows(zero_dtype type, bool pairs, int gelu, const void *a, int64_t first,
                        int64_t step, int64_t rows, int64_t depth, float *to)
{
    const int64_t chunk = pairs ? 2 * LANES : LANES; // elements
    for (int64_t i = 0; i < rows; i += MR)
        for (int64_t t = 0; t < depth; t += chunk, to += MR * LANES) {
            int64_t from = first + i * step + t, left = depth - t;
            if (t % line_of(type) == 0)
                for (int64_t r = 0; r < MR; r++)
                    prefetch_as(type, a, from + (MR + r) * step);
            if (__builtin_expect(i + MR <= rows && left >= chunk, 1))
                for (int64_t r = 0; r < MR; r++)
                    vf_store(to + r * LANES,
                             words_along(type, pairs, gelu, a, from + r * step, chunk));
            else
                for (int64_t r = 0; r < MR; r++)
                    vf_store(to + r * LANES,
                             i + r < rows ? words_along(type, pairs, gelu, a, from + r * step, left)
                                          : (vf){0});
        }
}

// Packs up to LANES steps (`steps` exist) of `columns` words: a chunk of each panel.
INLINE void pack_a_chunks(const float *from, int64_t step, int64_t columns, int64_t steps,
                          int64_t panel, float *to)
{
    const int64_t end = ZR_ROUND_UP(columns, MR);
    for (int64_t i = 0; i < end; i += LANES) {
        vf r[LANES];
        rows_get(ZERO_F32, from, i, step, steps, columns - i, r);
        transpose(r);
        for (int64_t c = 0; c < ZR_MIN(LANES, end - i); c++)
            vf_store(to + (i + c) / MR * panel + (i + c) % MR * LANES, r[c]);
    }
}

// Packs A stored as (k,m): `depth` rows of `columns` elements. What is not plain fp32 becomes words
// in `rows` first, which has LANES * ZR_ROUND_UP(columns, LANES) floats.
INLINE void pack_a_steps(zero_dtype type, bool pairs, int gelu, const void *a, int64_t first,
                         int64_t step, int64_t columns, int64_t depth, float *to, float *rows)
{
    const int64_t row = ZR_ROUND_UP(columns, LANES), words = words_of(pairs, depth),
                  of_word = pairs ? 2 : 1; // rows of a word
    for (int64_t t = 0; t < words; t += LANES, to += MR * LANES) {
        int64_t steps = ZR_MIN(LANES, words - t), from = first + t * of_word * step;
        for (int64_t s = LANES * of_word; s < 2 * LANES * of_word; s++)
            for (int64_t i = 0; i < columns; i += line_of(type))
                prefetch_as(type, a, from + s * step + i);
        if (type == ZERO_F32 && !gelu) {
            pack_a_chunks((const float *)a + from, step, columns, steps, A_PANEL(words), to);
            continue;
        }
        for (int64_t s = 0; s < steps; s++)
            for (int64_t i = 0; i < columns; i += LANES)
                vf_store(rows + s * row + i,
                         words_across(type, pairs, gelu, a, from + s * of_word * step + i, step,
                                      columns - i, depth - (t + s) * of_word));
        pack_a_chunks(rows, row, columns, steps, A_PANEL(words), to);
    }
}

INLINE void pack_a_as(zero_dtype type, bool pairs, int gelu, const zr_operands *of, int64_t i,
                      int64_t rows, int64_t t, int64_t depth, float *to, float *row)
{
    const zr_product *p = of->product;
    if (p->trans_a)
        pack_a_steps(type, pairs, gelu, of->a, t * p->m + i, p->m, rows, depth, to, row);
    else
        pack_a_rows(type, pairs, gelu, of->a, i * p->k + t, p->k, rows, depth, to);
}

// Packs rows i .. i+rows-1, elements t .. t+depth-1 of op(A). row: as `rows` of pack_a_steps.
static inline void pack_a(const zr_operands *of, int64_t i, int64_t rows, int64_t t, int64_t depth,
                          float *to, float *row)
{
    const zr_product *p = of->product;
    if (HAS_PAIRS && in_pairs(p) && p->gelu_a)
        pack_a_as(ZERO_BF16, true, 1, of, i, rows, t, depth, to, row);
    else if (HAS_PAIRS && in_pairs(p))
        pack_a_as(ZERO_BF16, true, 0, of, i, rows, t, depth, to, row);
    else if (p->gelu_a)
        WITH_TYPE(TYPE, p->dtype, pack_a_as(TYPE, false, 1, of, i, rows, t, depth, to, row));
    else
        WITH_TYPE(TYPE, p->dtype, pack_a_as(TYPE, false, 0, of, i, rows, t, depth, to, row));
}

#endif
