// The innermost part of our own products: a tile of sums in registers.
//
// Invariant: a sum is one chain of fused multiply-adds in the order of k (in a pair of bf16 the
// second element comes first), which begins with zero or with the value that it is added to. Where
// k is cut, the chain goes through memory unrounded. So neither the cuts nor the tile in which an
// element lies changes a bit.
#ifndef ZR_COMPUTE_CPU_PRODUCT_TILE_H
#define ZR_COMPUTE_CPU_PRODUCT_TILE_H

#include "compute/cpu/cpu_product_words.h"

#define MR 4
#if LANES == 4
#define VECTORS 2 // unfused products need registers of their own
#else
#define VECTORS 3
#endif
#define NR (VECTORS * LANES)
#define THIN_ROWS 8 // D's rows up to which B is not packed

// Returns the columns of the next panel when `left` columns are left. No panel has a single vector:
// its few sums would wait for each other.
static inline int64_t panel_columns(int64_t left)
{
    bool pairs = VECTORS == 3 && left > 3 * LANES && left <= 4 * LANES;
    return pairs ? 2 * LANES : left < NR ? left : NR;
}

typedef struct zr_operands { // a product and its buffers
    const zr_product *product;
    const void *a, *b, *operand;
    void *d;
} zr_operands;

// A tile of sums in registers, MR rows of up to VECTORS vectors:
//
//              depth              vectors   twelve sums; for each of `depth` steps three loads and
//         +-----------+          +------+   four broadcasts. With sixteen registers nothing is
//   MR    | A         |  depth   | B    |   spilled, and as little as possible lies between the
//  rows   +-----------+          |      |   multiply-adds: this counts where two threads share a
//                                +------+   core.
typedef struct tile { // not an array, which would lie in memory
    vf s00, s01, s02, s10, s11, s12, s20, s21, s22, s30, s31, s32;
} tile;

INLINE vf tile_get(int vectors, int v, const float *from)
{
    return v < vectors ? vf_load(from + v * LANES) : (vf){0};
}

INLINE void tile_row(int vectors, const float *from, vf *s0, vf *s1, vf *s2)
{
    *s0 = vf_load(from), *s1 = tile_get(vectors, 1, from), *s2 = tile_get(vectors, 2, from);
}

INLINE void tile_put(int vectors, float *to, vf s0, vf s1, vf s2)
{
    vf_store(to, s0);
    if (vectors > 1)
        vf_store(to + LANES, s1);
    if (vectors > 2)
        vf_store(to + 2 * LANES, s2);
}

#define TILE_ROW(y, s0, s1, s2)                                                                    \
    s0 = vf_add_product(pairs, s0, y, x0), s1 = vf_add_product(pairs, s1, y, x1),                  \
    s2 = vf_add_product(pairs, s2, y, x2)

INLINE void tile_step(bool pairs, int vectors, const float *a, const float *b, tile *s)
{
    vf x0 = vf_load(b), x1 = tile_get(vectors, 1, b), x2 = tile_get(vectors, 2, b), y;
    y = vf_all(a[0 * LANES]), TILE_ROW(y, s->s00, s->s01, s->s02);
    y = vf_all(a[1 * LANES]), TILE_ROW(y, s->s10, s->s11, s->s12);
    y = vf_all(a[2 * LANES]), TILE_ROW(y, s->s20, s->s21, s->s22);
    y = vf_all(a[3 * LANES]), TILE_ROW(y, s->s30, s->s31, s->s32);
}

// Sums over panels a and b, laid out as in cpu_product_pack.h. `sums` has rows that are `step`
// apart; they are added to, or set if `fresh`. A bias that is not NULL is added at the end.
INLINE void tile_sum(bool pairs, int vectors, const float *a, const float *b, int64_t depth,
                     bool fresh, float *sums, int64_t step, const float *bias)
{
    tile s = {0};
    if (!fresh) {
        tile_row(vectors, sums, &s.s00, &s.s01, &s.s02);
        tile_row(vectors, sums + step, &s.s10, &s.s11, &s.s12);
        tile_row(vectors, sums + 2 * step, &s.s20, &s.s21, &s.s22);
        tile_row(vectors, sums + 3 * step, &s.s30, &s.s31, &s.s32);
    }
    for (; depth >= LANES; depth -= LANES, a += MR * LANES, b += NR * LANES)
#pragma GCC unroll 16
        for (int t = 0; t < LANES; t++)
            tile_step(pairs, vectors, a + t, b + t * NR, &s);
    for (int64_t t = 0; t < depth; t++)
        tile_step(pairs, vectors, a + t, b + t * NR, &s);
    if (bias) {
        vf x0 = vf_load(bias), x1 = tile_get(vectors, 1, bias), x2 = tile_get(vectors, 2, bias);
        s.s00 += x0, s.s10 += x0, s.s20 += x0, s.s30 += x0;
        s.s01 += x1, s.s11 += x1, s.s21 += x1, s.s31 += x1;
        s.s02 += x2, s.s12 += x2, s.s22 += x2, s.s32 += x2;
    }
    tile_put(vectors, sums, s.s00, s.s01, s.s02);
    tile_put(vectors, sums + step, s.s10, s.s11, s.s12);
    tile_put(vectors, sums + 2 * step, s.s20, s.s21, s.s22);
    tile_put(vectors, sums + 3 * step, s.s30, s.s31, s.s32);
}

#endif
