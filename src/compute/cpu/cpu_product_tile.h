// The innermost part of our products: a tile of MR x NR sums in registers, and how finished sums become elements of D.
//
//              depth              NR = two vectors
//         +-----------+          +------+
//   MR    | A         |  depth   | B    |     twelve sums, six broadcasts and two loads for each of `depth` steps; with sixteen
//  rows   +-----------+          |      |     registers nothing is spilled
//                                +------+
//
// Invariant: a sum is one chain of fused multiply-adds in the order of k, begun with zero or with what it is added to. The
// chain goes through memory, unrounded, where k is cut, so neither that nor the tile that an element falls in changes a bit.
#ifndef ZR_COMPUTE_CPU_PRODUCT_TILE_H
#define ZR_COMPUTE_CPU_PRODUCT_TILE_H

#include "compute/compute.h"
#include "compute/cpu/cpu_math.h"

#define MR 6
#define NR (2 * LANES)
#define THIN_ROWS 8 // of D, up to which nothing is packed

typedef struct zr_operands { // a product and what it runs on
    const zr_product *product;
    const void *a, *b, *operand;
    void *d;
} zr_operands;

// a, b: panels as cpu_product_pack.h lays them out. from: the sums so far, NULL: zero; `step` lies between the rows of from and
// of to. bias (NR) is added at the end where it is not NULL.
static inline void tile_sum(const float *a, const float *b, int64_t depth, const float *from, float *to, int64_t step,
                            const float *bias)
{
    vf s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0}, s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0}, s40 = {0}, s41 = {0},
       s50 = {0}, s51 = {0};
    if (from) {
        s00 = vf_load(from), s01 = vf_load(from + LANES), from += step;
        s10 = vf_load(from), s11 = vf_load(from + LANES), from += step;
        s20 = vf_load(from), s21 = vf_load(from + LANES), from += step;
        s30 = vf_load(from), s31 = vf_load(from + LANES), from += step;
        s40 = vf_load(from), s41 = vf_load(from + LANES), from += step;
        s50 = vf_load(from), s51 = vf_load(from + LANES);
    }
    for (int64_t t = 0; t < depth; t++) {
        vf b0 = vf_load(b), b1 = vf_load(b + LANES), x;
        x = vf_all(a[0]), s00 += x * b0, s01 += x * b1;
        x = vf_all(a[1]), s10 += x * b0, s11 += x * b1;
        x = vf_all(a[2]), s20 += x * b0, s21 += x * b1;
        x = vf_all(a[3]), s30 += x * b0, s31 += x * b1;
        x = vf_all(a[4]), s40 += x * b0, s41 += x * b1;
        x = vf_all(a[5]), s50 += x * b0, s51 += x * b1;
        a += MR;
        b += NR;
    }
    if (bias) {
        vf b0 = vf_load(bias), b1 = vf_load(bias + LANES);
        s00 += b0, s10 += b0, s20 += b0, s30 += b0, s40 += b0, s50 += b0;
        s01 += b1, s11 += b1, s21 += b1, s31 += b1, s41 += b1, s51 += b1;
    }
    vf_store(to, s00), vf_store(to + LANES, s01), to += step;
    vf_store(to, s10), vf_store(to + LANES, s11), to += step;
    vf_store(to, s20), vf_store(to + LANES, s21), to += step;
    vf_store(to, s30), vf_store(to + LANES, s31), to += step;
    vf_store(to, s40), vf_store(to + LANES, s41), to += step;
    vf_store(to, s50), vf_store(to + LANES, s51);
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
