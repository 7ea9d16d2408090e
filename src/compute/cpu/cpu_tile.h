// The register tile from which attention is built: out(MR, NR) [+]= A(MR, count) B(count, NR).
//
//              count                NR = two vectors
//         +-----------+          +------+
//   MR    | A         |   count  | B    |     twelve sums in registers, one broadcast and two loads
//  rows   +-----------+          |      |     at a time; with sixteen registers nothing is spilled.
//                                +------+     Each sum runs over `count` in order.
#ifndef ZR_COMPUTE_CPU_TILE_H
#define ZR_COMPUTE_CPU_TILE_H

#include "compute/cpu/cpu_pairs.h"

#define MR 6
#define NR (2 * LANES)
// Adds x times two vectors of B to two sums.
#define TILE_PAIR(s0, s1)                                                                          \
    s0 = vf_add_product(pairs, s0, x, b0), s1 = vf_add_product(pairs, s1, x, b1)

// Computes one tile of words; `count` counts them, and `pairs` says what they are. Element (r, t)
// of A lies at a[r*a_row + t*a_step], row t of B at b + t*b_step. With `add` the product is added
// to out, otherwise it is stored there.
INLINE void tile_product(bool pairs, const float *a, int64_t a_row, int64_t a_step, const float *b,
                         int64_t b_step, int64_t count, float *out, int64_t out_step, int add)
{
    vf s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0}, s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0},
       s40 = {0}, s41 = {0}, s50 = {0}, s51 = {0};
    if (add) {
        s00 = vf_load(out), s01 = vf_load(out + LANES);
        s10 = vf_load(out + out_step), s11 = vf_load(out + out_step + LANES);
        s20 = vf_load(out + 2 * out_step), s21 = vf_load(out + 2 * out_step + LANES);
        s30 = vf_load(out + 3 * out_step), s31 = vf_load(out + 3 * out_step + LANES);
        s40 = vf_load(out + 4 * out_step), s41 = vf_load(out + 4 * out_step + LANES);
        s50 = vf_load(out + 5 * out_step), s51 = vf_load(out + 5 * out_step + LANES);
    }
    for (int64_t t = 0; t < count; t++) {
        vf b0 = vf_load(b), b1 = vf_load(b + LANES);
        vf x = vf_all(a[0]);
        TILE_PAIR(s00, s01), x = vf_all(a[a_row]);
        TILE_PAIR(s10, s11), x = vf_all(a[2 * a_row]);
        TILE_PAIR(s20, s21), x = vf_all(a[3 * a_row]);
        TILE_PAIR(s30, s31), x = vf_all(a[4 * a_row]);
        TILE_PAIR(s40, s41), x = vf_all(a[5 * a_row]);
        TILE_PAIR(s50, s51);
        a += a_step;
        b += b_step;
    }
    vf_store(out, s00), vf_store(out + LANES, s01);
    vf_store(out + out_step, s10), vf_store(out + out_step + LANES, s11);
    vf_store(out + 2 * out_step, s20), vf_store(out + 2 * out_step + LANES, s21);
    vf_store(out + 3 * out_step, s30), vf_store(out + 3 * out_step + LANES, s31);
    vf_store(out + 4 * out_step, s40), vf_store(out + 4 * out_step + LANES, s41);
    vf_store(out + 5 * out_step, s50), vf_store(out + 5 * out_step + LANES, s51);
}

#endif
