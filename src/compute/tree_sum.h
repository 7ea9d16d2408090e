// Sums over the ranks' contributions (contract 3), in one fixed order, whichever rank or thread
// adds; and copies of their shards. Kernels of the processor's backends.
#ifndef ZR_COMPUTE_TREE_SUM_H
#define ZR_COMPUTE_TREE_SUM_H

#include "compute/tree_ops.h"

// to->data[i] = [to->data[i] + (to->data[stride + i] + ...] tree sum over r of src[r][i] (type
// `dtype`). Every addition is in fp32 and rounded once to fp32; the result is rounded once to
// to->dtype. Vectorised.
void zr_tree_sum(const zr_sum_target *to, zero_dtype dtype, const void *const *src, int ranks,
                 int64_t count, int threads);

// The same of sources in blocks of codes of `bits` bits (base/blocks.h); count: a multiple of
// ZR_BLOCK.
void zr_tree_sum_blocks(const zr_sum_target *to, int bits, const void *const *src, int ranks,
                        int64_t count, int threads);

// coded_sums.c
// out(count) = elements from `first` on of codes in blocks. Both are multiples of ZR_BLOCK.
void zr_widen_block_range(int bits, const void *encoded, int64_t first, int64_t count, float *out);
// Encodes x(count), whole blocks.
void zr_narrow_blocks(int bits, const float *x, int64_t count, void *out);
// Widens all elements of whole blocks to dtype. The codes may end where what they become ends.
void zr_widen_blocks(int bits, const void *encoded, int64_t elems, zero_dtype dtype, void *out,
                     int threads);

// A leaf of the tree: sources that are added while memory is read once.
typedef enum zr_tree_leaf {
    ZR_LEAF_ADD,  // out += src[0]
    ZR_LEAF_PAIR, // out = src[0] + src[1]
    ZR_LEAF_FOUR, // out = (src[0] + src[1]) + (src[2] + src[3])
} zr_tree_leaf;

// Computes a leaf with the fastest instructions of this processor: reads elements from `first` on
// and widens them from F32, BF16 or F16; out(count) overlaps no source.
void zr_tree_leaf_sum(zr_tree_leaf leaf, zero_dtype dtype, float *out, const void *const *src,
                      int64_t first, int64_t count);
// The same bits, in portable code that every processor runs.
void zr_tree_leaf_sum_portable(zr_tree_leaf leaf, zero_dtype dtype, float *out,
                               const void *const *src, int64_t first, int64_t count);

// Bytes of a copy. A smaller one is better left in the cache, where its reader finds it.
#define ZR_STREAM_FROM (4 << 20)

// Copies; from ZR_STREAM_FROM bytes on it does not load the destination into the cache, because an
// all-gather writes far more than a cache holds.
void zr_stream_copy(void *dst, const void *src, int64_t bytes, int threads);
void zr_stream_bytes(void *dst, const void *src, int64_t bytes);

#endif
