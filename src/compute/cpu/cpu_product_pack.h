// Packs operands of products to fp32 panels, each one stream, in the order in which tiles read.
//
//   A  MR rows, in chunks of LANES steps  [row 0: t=0..LANES-1] ... [row MR-1: t=0..LANES-1]
//                                         [row 0: t=LANES.. ] ...
//   B  NR columns                         [t=0: NR] [t=1: NR] ...
//
// Zeros fill up the last panel (rows or columns) and A's last chunk (steps). In storage, the rows
// or steps of an operand lie `step` elements apart, beginning at element `first`.
#ifndef ZR_COMPUTE_CPU_PRODUCT_PACK_H
#define ZR_COMPUTE_CPU_PRODUCT_PACK_H

#include "compute/cpu/cpu_product_tile.h"
#include "compute/cpu/cpu_square.h"

#define A_PANEL(depth) (MR * ZR_ROUND_UP(depth, LANES))
#define AHEAD 4 // steps of B that are packed together while later ones are fetched

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

// Packs B stored as (k,n): `depth` steps of `columns` elements.
INLINE void pack_b_steps(zero_dtype type, const void *b, int64_t first, int64_t step,
                         int64_t columns, int64_t depth, float *to)
{
    for (int64_t t0 = 0; t0 < depth; t0 += AHEAD) {
        float *panel = to + t0 * NR;
        int64_t steps = ZR_MIN(AHEAD, depth - t0), width;
        for (int64_t j = 0; j < columns; j += width, panel += NR * depth) {
            width = panel_columns(columns - j);
            for (int64_t t = 0; t < steps; t++) {
                int64_t from = first + (t0 + t) * step + j;
                prefetch_as(type, b, from + AHEAD * step);
                prefetch_as(type, b, from + AHEAD * step + width - 1);
                for (int64_t v = 0; v < width; v += LANES)
                    vf_store(panel + t * NR + v, vf_get_as(type, b, from + v, width - v));
            }
        }
    }
}

// Packs A stored as (m,k): `rows` rows of `depth` elements.
INLINE void pack_a_rows(zero_dtype type, int gelu, const void *a, int64_t first, int64_t step,
                        int64_t rows, int64_t depth, float *to)
{
    for (int64_t i = 0; i < rows; i += MR)
        for (int64_t t = 0; t < depth; t += LANES, to += MR * LANES) {
            int64_t from = first + i * step + t, left = depth - t;
            if (t % line_of(type) == 0)
                for (int64_t r = 0; r < MR; r++)
                    prefetch_as(type, a, from + (MR + r) * step);
            if (__builtin_expect(i + MR <= rows && left >= LANES, 1))
                for (int64_t r = 0; r < MR; r++)
                    vf_store(to + r * LANES, packed_a(type, gelu, a, from + r * step, LANES));
            else
                for (int64_t r = 0; r < MR; r++)
                    vf_store(to + r * LANES, i + r < rows
                                                 ? packed_a(type, gelu, a, from + r * step, left)
                                                 : (vf){0});
        }
}

// Packs up to LANES steps (`steps` exist) of `columns` fp32 elements: a chunk of each panel.
INLINE void pack_a_chunks(const float *from, int64_t step, int64_t columns, int64_t steps,
                          int64_t panel, float *to)
{
    for (int64_t i = 0; i < columns; i += MR, to += panel)
        for (int64_t part = 0; part < MR; part += LANES) {
            vf r[LANES];
            rows_get(ZERO_F32, from, i + part, step, steps, ZR_MAX(0, columns - i - part), r);
            transpose(r);
            for (int64_t c = 0; c < ZR_MIN(LANES, MR - part); c++)
                vf_store(to + (part + c) * LANES, r[c]);
        }
}

// Packs A stored as (k,m): `depth` steps of `columns` elements. What is not plain fp32 is converted
// in `rows` first, which has LANES * ZR_ROUND_UP(columns, LANES) floats.
INLINE void pack_a_steps(zero_dtype type, int gelu, const void *a, int64_t first, int64_t step,
                         int64_t columns, int64_t depth, float *to, float *rows)
{
    int64_t row = ZR_ROUND_UP(columns, LANES);
    for (int64_t t = 0; t < depth; t += LANES, to += MR * LANES) {
        int64_t steps = ZR_MIN(LANES, depth - t), from = first + t * step;
        for (int64_t s = LANES; s < 2 * LANES; s++)
            for (int64_t i = 0; i < columns; i += line_of(type))
                prefetch_as(type, a, from + s * step + i);
        if (type == ZERO_F32 && !gelu) {
            pack_a_chunks((const float *)a + from, step, columns, steps, A_PANEL(depth), to);
            continue;
        }
        for (int64_t s = 0; s < steps; s++)
            for (int64_t i = 0; i < columns; i += LANES)
                vf_store(rows + s * row + i,
                         packed_a(type, gelu, a, from + s * step + i, columns - i));
        pack_a_chunks(rows, row, columns, steps, A_PANEL(depth), to);
    }
}

// Packs B stored as (n,k): `columns` rows of `depth` elements become columns.
INLINE void pack_b_rows(zero_dtype type, const void *b, int64_t first, int64_t step,
                        int64_t columns, int64_t depth, float *to)
{
    int64_t width;
    for (int64_t j = 0; j < columns; j += width, to += NR * depth) {
        width = panel_columns(columns - j);
        for (int64_t v = 0; v < width; v += LANES)
            for (int64_t t = 0; t < depth; t += LANES) {
                vf r[LANES];
                int64_t from = first + (j + v) * step + t;
                if (t % line_of(type) == 0)
                    for (int64_t i = LANES; i < 2 * LANES; i++)
                        prefetch_as(type, b, from + i * step);
                rows_get(type, b, from, step, width - v, depth - t, r);
                transpose(r);
                for (int64_t i = 0; i < ZR_MIN(LANES, depth - t); i++)
                    vf_store(to + (t + i) * NR + v, r[i]);
            }
    }
}

// Packs rows i .. i+rows-1, steps t .. t+depth-1 of op(A). row: as `rows` of pack_a_steps.
static inline void pack_a(const zr_operands *of, int64_t i, int64_t rows, int64_t t, int64_t depth,
                          float *to, float *row)
{
    const zr_product *p = of->product;
    if (p->trans_a && p->gelu_a)
        WITH_TYPE(TYPE, p->dtype,
                  pack_a_steps(TYPE, 1, of->a, t * p->m + i, p->m, rows, depth, to, row));
    else if (p->trans_a)
        WITH_TYPE(TYPE, p->dtype,
                  pack_a_steps(TYPE, 0, of->a, t * p->m + i, p->m, rows, depth, to, row));
    else if (p->gelu_a)
        WITH_TYPE(TYPE, p->dtype, pack_a_rows(TYPE, 1, of->a, i * p->k + t, p->k, rows, depth, to));
    else
        WITH_TYPE(TYPE, p->dtype, pack_a_rows(TYPE, 0, of->a, i * p->k + t, p->k, rows, depth, to));
}

#endif
