// Attention on tensor cores, what forward and backward share: tiles of a head's rows in shared
// memory, filled up to WIDTH elements with zeros, and products of them.
//
// A block has 64 rows of its own, 16 a warp, and goes through the rows of the other side tile by
// tile; the next tile comes while one is worked on. A tile lies in pieces of sixteen bytes, piece c
// of row r at c ^ r % 8, so that the eight rows that a load names lie in different banks. Factors
// of products are rounded to the type, probabilities and their gradients too; sums are fp32. Rows
// that are not there are zeros, and never seen.
#ifndef ZR_CUDA_ATTENTION_TILES_H
#define ZR_CUDA_ATTENTION_TILES_H

#include "attention.h"
#include "mma.h"

#define ZR_LOG2_E 1.44269504088896340736f
#define ZR_LN_2 0.693147180559945309417f

namespace zr {

enum {
    BLOCK_ROWS = 64, // 16 a warp
    THREADS = 128
};

// Where a thread is: rows `row` and row + 8 of a block are those of its fragments.
struct place {
    int lane, warp, group, pair, row;
};

__device__ __forceinline__ place place_of_thread()
{
    const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);
    return place{lane, warp, lane / 4, lane % 4, 16 * warp + lane / 4};
}

template <int WIDTH> __device__ __forceinline__ int piece_at(int row, int piece)
{
    return row * (WIDTH / 8) + (piece ^ (row & 7));
}

// Begins to copy rows first to first + ROWS - 1.
template <int WIDTH, int ROWS>
__device__ __forceinline__ void fetch(uint4 *tile, const uint16_t *from, int64_t step, int first,
                                      int end, int dim)
{
    ZR_UNROLL
    for (int n = 0; n < ROWS * WIDTH / 8 / THREADS; n++) {
        const int i = n * THREADS + (int)threadIdx.x, row = i / (WIDTH / 8),
                  piece = i % (WIDTH / 8);
        const bool there = first + row < end && 8 * piece < dim;
        zr_copy_async(tile + piece_at<WIDTH>(row, piece),
                      there ? from + (first + row) * step + 8 * piece : from, !there);
    }
}

// Of columns 16 c of a tile: the rows 16 n of the right factor x', as two fragments of 8 rows.
template <int WIDTH>
__device__ __forceinline__ void load_right(uint32_t b[4], const uint4 *tile, const place &at, int n,
                                           int c)
{
    const int matrix = at.lane / 8;
    zr_load_matrices(
        b, tile + piece_at<WIDTH>(16 * n + 8 * (matrix / 2) + at.lane % 8, 2 * c + matrix % 2));
}

// The right factor x itself: its rows 16 n, as two fragments of 8 columns from 16 c on.
template <int WIDTH>
__device__ __forceinline__ void load_right_transposed(uint32_t b[4], const uint4 *tile,
                                                      const place &at, int n, int c)
{
    const int matrix = at.lane / 8;
    zr_load_transposed(
        b, tile + piece_at<WIDTH>(16 * n + 8 * (matrix % 2) + at.lane % 8, 2 * c + matrix / 2));
}

// The left factor: the warp's 16 rows, columns from 16 c on.
template <int WIDTH>
__device__ __forceinline__ void load_left(uint32_t a[4], const uint4 *tile, const place &at, int c)
{
    const int matrix = at.lane / 8;
    zr_load_matrices(a, tile + piece_at<WIDTH>(16 * at.warp + 8 * (matrix % 2) + at.lane % 8,
                                               2 * c + matrix / 2));
}

// sums (16 x WIDTH) += weights (16 x COLUMNS) tile
template <int TYPE, int WIDTH, int COLUMNS>
__device__ __forceinline__ void multiply_columns(float (*sums)[4], const float (*weights)[4],
                                                 const uint4 *tile, const place &at)
{
    ZR_UNROLL
    for (int n = 0; n < COLUMNS / 16; n++) {
        const float *left = weights[2 * n], *right = weights[2 * n + 1];
        const uint32_t a[4] = {pack<TYPE>(left[0], left[1]), pack<TYPE>(left[2], left[3]),
                               pack<TYPE>(right[0], right[1]), pack<TYPE>(right[2], right[3])};
        ZR_UNROLL
        for (int c = 0; c < WIDTH / 16; c++) {
            uint32_t b[4];
            load_right_transposed<WIDTH>(b, tile, at, n, c);
            ZR_MMA_OF(TYPE, sums[2 * c], a, b);
            ZR_MMA_OF(TYPE, sums[2 * c + 1], a, b + 2);
        }
    }
}

// Whether a counter of dropout has four keys of one row, from a multiple of four on: then the lanes
// that have elements of it share it.
__device__ __forceinline__ bool shares_counters(const attention_head &at)
{
    return at.seq % 4 == 0;
}

// kept_keys with shared counters: of the two lanes that have four keys of rows `row` and row + 8,
// each finds those of one row, four bits a fragment, and gives them to the other.
template <int FRAGMENTS>
__device__ __forceinline__ uint32_t kept_keys_shared(const attention_head &at, int row, int key,
                                                     int pair)
{
    const int odd = pair % 2;
    const uint64_t counter = mask_element(at, row + 8 * odd, key + pair / 2 * 4) / 4;
    uint32_t mine = 0;
    ZR_NO_UNROLL
    for (int n = 0; n < FRAGMENTS; n++)
        mine |= dropout_keep_four(at.key, counter + (uint32_t)(2 * n), at.threshold) << 4 * n;
    const uint32_t others = __shfl_xor_sync(~0u, mine, 1);
    const uint32_t first = odd ? others : mine, second = odd ? mine : others;
    return (first >> 2 * odd & 0x33333333u) | (second >> 2 * odd & 0x33333333u) << 2;
}

// Bit 4 n + i: whether dropout keeps element i of fragment n of scores, whose rows are queries. All
// lanes of the warp come here.
template <int FRAGMENTS>
__device__ __forceinline__ uint32_t kept_keys(const attention_head &at, int row, int key, int pair)
{
    if (shares_counters(at))
        return kept_keys_shared<FRAGMENTS>(at, row, key, pair);
    const uint64_t first = mask_element(at, row, key + 2 * pair);
    uint32_t bits = 0;
    ZR_NO_UNROLL
    for (int n = 0; n < 2 * FRAGMENTS; n++)
        bits |= dropout_keep_pair(at.key,
                                  first + (uint64_t)(n % 2 * 8) * (uint32_t)at.seq +
                                      (uint32_t)(n / 2 * 8),
                                  at.threshold)
                << 2 * n;
    return bits;
}

// Stores rows `row` and row + 8, where there are such, times a factor each.
template <int TYPE, int WIDTH>
__device__ __forceinline__ void store_rows(const float (*sums)[4], float factor, float factor8,
                                           uint16_t *to, int64_t step, int row, int end, int dim,
                                           int pair)
{
    ZR_UNROLL
    for (int r = 0; r < 2; r++)
        ZR_UNROLL
    for (int n = 0; n < WIDTH / 8; n++)
        if (row + 8 * r < end && 8 * n < dim)
            *(uint32_t *)(to + (row + 8 * r) * step + 8 * n + 2 * pair) =
                pack<TYPE>(sums[n][2 * r] * (r ? factor8 : factor),
                           sums[n][2 * r + 1] * (r ? factor8 : factor));
}

} // namespace zr

#endif
