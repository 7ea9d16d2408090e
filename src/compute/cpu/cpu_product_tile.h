// The innermost part of our products: a tile of sums in registers, and how finished sums become elements of D.
//
// Invariant: a sum is one chain of fused multiply-adds in the order of k, begun with zero or with what it is added to. The
// chain goes through memory, unrounded, where k is cut, so neither that nor the tile that an element falls in changes a bit.
#ifndef ZR_COMPUTE_CPU_PRODUCT_TILE_H
#define ZR_COMPUTE_CPU_PRODUCT_TILE_H

#include "compute/compute.h"
#include "compute/cpu/cpu_math.h"

#define MR 4
#if LANES == 4
#define VECTORS 2 // products that are not fused into sums take registers of their own
#else
#define VECTORS 3
#endif
#define NR (VECTORS * LANES)
#define THIN_ROWS 2 // of D, up to which B is not packed

// Columns of the next panel where `left` columns are left. None of one vector alone: its few sums would wait for each other.
static inline int64_t panel_columns(int64_t left)
{
    bool pairs = VECTORS == 3 && left > 3 * LANES && left <= 4 * LANES;
    return pairs ? 2 * LANES : left < NR ? left : NR;
}

typedef struct zr_operands { // a product and what it runs on
    const zr_product *product;
    const void *a, *b, *operand;
    void *d;
} zr_operands;

// A tile of sums in registers, MR rows of up to VECTORS vectors:
//
//              depth              vectors
//         +-----------+          +------+
//   MR    | A         |  depth   | B    |     twelve sums; for each of `depth` steps three loads and four broadcasts. With sixteen
//  rows   +-----------+          |      |     registers nothing is spilled, and as little as can be stands between the
//                                +------+     multiply-adds, which shows where two threads share a core.
//
typedef struct tile { // named one by one: an array would live in memory
    vf s00, s01, s02, s10, s11, s12, s20, s21, s22, s30, s31, s32;
} tile;

INLINE vf tile_get(int vectors, int v, const float *from)
{
    return v < vectors ? vf_load(from + v * LANES) : (vf){0};
}

INLINE void tile_put(int vectors, float *to, vf s0, vf s1, vf s2)
{
    vf_store(to, s0);
    if (vectors > 1)
        vf_store(to + LANES, s1);
    if (vectors > 2)
        vf_store(to + 2 * LANES, s2);
}

INLINE void tile_step(int vectors, const float *a, const float *b, tile *s)
{
    vf x0 = vf_load(b), x1 = tile_get(vectors, 1, b), x2 = tile_get(vectors, 2, b), y;
    y = vf_all(a[0 * LANES]), s->s00 += y * x0, s->s01 += y * x1, s->s02 += y * x2;
    y = vf_all(a[1 * LANES]), s->s10 += y * x0, s->s11 += y * x1, s->s12 += y * x2;
    y = vf_all(a[2 * LANES]), s->s20 += y * x0, s->s21 += y * x1, s->s22 += y * x2;
    y = vf_all(a[3 * LANES]), s->s30 += y * x0, s->s31 += y * x1, s->s32 += y * x2;
}

// a, b: panels as cpu_product_pack.h lays them out. from: the sums so far, NULL: zero; `step` lies between the rows of from and
// of to. bias is added at the end where it is not NULL.
INLINE void tile_sum(int vectors, const float *a, const float *b, int64_t depth, const float *from, float *to, int64_t step,
                     const float *bias)
{
    tile s = {0};
    if (from) {
        s.s00 = vf_load(from), s.s01 = tile_get(vectors, 1, from), s.s02 = tile_get(vectors, 2, from), from += step;
        s.s10 = vf_load(from), s.s11 = tile_get(vectors, 1, from), s.s12 = tile_get(vectors, 2, from), from += step;
        s.s20 = vf_load(from), s.s21 = tile_get(vectors, 1, from), s.s22 = tile_get(vectors, 2, from), from += step;
        s.s30 = vf_load(from), s.s31 = tile_get(vectors, 1, from), s.s32 = tile_get(vectors, 2, from);
    }
    for (; depth >= LANES; depth -= LANES, a += MR * LANES, b += NR * LANES)
#pragma GCC unroll 16
        for (int t = 0; t < LANES; t++)
            tile_step(vectors, a + t, b + t * NR, &s);
    for (int64_t t = 0; t < depth; t++)
        tile_step(vectors, a + t, b + t * NR, &s);
    if (bias) {
        vf x0 = vf_load(bias), x1 = tile_get(vectors, 1, bias), x2 = tile_get(vectors, 2, bias);
        s.s00 += x0, s.s10 += x0, s.s20 += x0, s.s30 += x0;
        s.s01 += x1, s.s11 += x1, s.s21 += x1, s.s31 += x1;
        s.s02 += x2, s.s12 += x2, s.s22 += x2, s.s32 += x2;
    }
    tile_put(vectors, to, s.s00, s.s01, s.s02);
    tile_put(vectors, to + step, s.s10, s.s11, s.s12);
    tile_put(vectors, to + 2 * step, s.s20, s.s21, s.s22);
    tile_put(vectors, to + 3 * step, s.s30, s.s31, s.s32);
}

INLINE void sums_biased(zero_dtype type, const void *bias, int64_t j, int64_t count, float *sums)
{
    for (int64_t c = 0; c < count; c += LANES)
        vf_put(sums + c, count - c, vf_get(sums + c, count - c) + vf_get_as(type, bias, j + c, count - c));
}

INLINE void sums_sloped(zero_dtype type, const void *pre, int64_t at, int64_t count, float *sums)
{
    for (int64_t c = 0; c < count; c += LANES)
        vf_put(sums + c, count - c,
               vf_get(sums + c, count - c) * vf_gelu_slope(vf_get_as(type, pre, at + c, count - c)));
}

INLINE void sums_stored(zero_dtype type, const float *sums, int64_t count, void *d, int64_t at)
{
    for (int64_t c = 0; c < count; c += LANES)
        vf_put_as(type, d, at + c, count - c, vf_get(sums + c, count - c));
}

// Elements (i, j) .. (i, j+count-1) of D from their finished sums, which are overwritten.
static inline void sums_finish(const zr_operands *of, int64_t i, int64_t j, int64_t count, float *sums)
{
    const zr_product *p = of->product;
    int64_t at = i * p->n + j;
    if (p->epilogue == ZR_EPILOGUE_BIAS)
        WITH_TYPE(TYPE, p->dtype, sums_biased(TYPE, of->operand, j, count, sums));
    else if (p->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
        WITH_TYPE(TYPE, p->dtype, sums_sloped(TYPE, of->operand, at, count, sums));
    WITH_TYPE(TYPE, p->out, sums_stored(TYPE, sums, count, of->d, at));
}

#endif
