// The innermost part of our own products: a tile of sums in registers.
//
// Invariant: a sum is one chain of fused multiply-adds in the order of k (in a pair of bf16 the
// second element comes first), which begins with zero or with the value that it is added to. Where
// k is cut, the chain goes through memory unrounded. So neither the cuts nor the tile in which an
// element lies changes a bit.
#ifndef ZR_COMPUTE_CPU_PRODUCT_TILE_H
#define ZR_COMPUTE_CPU_PRODUCT_TILE_H

#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_product_words.h"

#if LANES == 16
#define MR 8
#else
#define MR 4
#endif
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
    const float *scales; // of a B in codes
    void *d;
} zr_operands;

// cpu_product_thin.c: products of up to THIN_ROWS rows, for cpu_product.c. B is plain, or lies as
// (n,k).
size_t ZR_CPU_TABLE(zr_cpu_thin_scratch)(const zr_queue *queue, const zr_product *product);
void ZR_CPU_TABLE(zr_cpu_thin_product)(zr_queue *queue, const zr_operands *of);

// A tile of sums in registers, MR rows of up to VECTORS vectors:
//
//              depth              vectors   twelve sums; for each of `depth` steps three loads and
//         +-----------+          +------+   four broadcasts. With sixteen registers nothing is
//   MR    | A         |  depth   | B    |   spilled, and as little as possible lies between the
//  rows   +-----------+          |      |   multiply-adds: this counts where two threads share a
//                                +------+   core. AVX-512 has registers for twice as many rows.
#if LANES == 16
#define TILE_ROWS(of) of(0) of(1) of(2) of(3) of(4) of(5) of(6) of(7)
#else
#define TILE_ROWS(of) of(0) of(1) of(2) of(3)
#endif

#define TILE_SUMS(r) vf s##r##0, s##r##1, s##r##2;
typedef struct tile { // not an array, which would lie in memory
    TILE_ROWS(TILE_SUMS)
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

#define TILE_ADD(r)                                                                                \
    y = vf_all(a[(r)*LANES]);                                                                      \
    s->s##r##0 = vf_add_product(pairs, s->s##r##0, y, x0);                                         \
    s->s##r##1 = vf_add_product(pairs, s->s##r##1, y, x1);                                         \
    s->s##r##2 = vf_add_product(pairs, s->s##r##2, y, x2);

INLINE void tile_step(bool pairs, int vectors, const float *a, const float *b, tile *s)
{
    vf x0 = vf_load(b), x1 = tile_get(vectors, 1, b), x2 = tile_get(vectors, 2, b), y;
    TILE_ROWS(TILE_ADD)
}

#define TILE_GET(r) tile_row(vectors, sums + (r)*step, &s.s##r##0, &s.s##r##1, &s.s##r##2);
#define TILE_BIAS(r) s.s##r##0 += x0, s.s##r##1 += x1, s.s##r##2 += x2;
#define TILE_PUT(r) tile_put(vectors, sums + (r)*step, s.s##r##0, s.s##r##1, s.s##r##2);

// Sums over panels a and b, laid out as in cpu_product_pack.h. `sums` has rows that are `step`
// apart; they are added to, or set if `fresh`. A bias that is not NULL is added at the end.
INLINE void tile_sum(bool pairs, int vectors, const float *a, const float *b, int64_t depth,
                     bool fresh, float *sums, int64_t step, const float *bias)
{
    tile s = {0};
    if (!fresh) {
        TILE_ROWS(TILE_GET)
    }
    for (; depth >= LANES; depth -= LANES, a += MR * LANES, b += NR * LANES)
#pragma GCC unroll 16
        for (int t = 0; t < LANES; t++)
            tile_step(pairs, vectors, a + t, b + t * NR, &s);
    for (int64_t t = 0; t < depth; t++)
        tile_step(pairs, vectors, a + t, b + t * NR, &s);
    if (bias) {
        vf x0 = vf_load(bias), x1 = tile_get(vectors, 1, bias), x2 = tile_get(vectors, 2, bias);
        TILE_ROWS(TILE_BIAS)
    }
    TILE_ROWS(TILE_PUT)
}

#endif
