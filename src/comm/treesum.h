// Sums over the ranks' contributions (contract 3), in one fixed order, whichever rank or thread
// adds; and copies of their shards.
#ifndef ZR_COMM_TREESUM_H
#define ZR_COMM_TREESUM_H

#include "base/errors.h"
#include <zero/tensor.h>

// Where a reduced shard goes: data(shard_elems) = tree sum, in fp32, of the ranks' contributions,
// to which earlier sums are added before it is rounded once, to dtype. data may be the own shard of
// the own region, if dtype is the operand's.
typedef struct zr_sum_target {
    void *data;
    zero_dtype dtype; // F32, BF16 or F16
    int adds;         // earlier sums at data, data + stride, ...; the last is added first
    int64_t stride;   // elements
} zr_sum_target;

// to->data[i] = [to->data[i] + (to->data[stride + i] + ...] tree sum over r of src[r][i] (type
// `dtype`). Every addition is in fp32 and rounded once to fp32; the result is rounded once to
// to->dtype. Vectorised.
void zr_tree_sum(const zr_sum_target *to, zero_dtype dtype, const void *const *src, int ranks,
                 int64_t count, int threads);

// The leaves of the tree: what is added while memory is read once. They read elements from `first`
// on and widen them; out(count) overlaps no source.
typedef void zr_tree_leaf(float *out, const void *const *src, int64_t first, int64_t count);

typedef struct zr_tree_leaves {
    zr_tree_leaf *add;  // out += src[0]
    zr_tree_leaf *pair; // out = src[0] + src[1]
    zr_tree_leaf *four; // out = (src[0] + src[1]) + (src[2] + src[3])
} zr_tree_leaves;

// Returns the fastest functions for sources of F32, BF16 or F16 that this processor runs.
const zr_tree_leaves *zr_tree_leaves_of(zero_dtype dtype);
// Returns those that every processor runs, with the same bits.
const zr_tree_leaves *zr_tree_leaves_portable(zero_dtype dtype);

// Bytes of a copy. A smaller one is better left in the cache, where its reader finds it.
#define ZR_STREAM_FROM (4 << 20)

// Copies; from ZR_STREAM_FROM bytes on it does not load the destination into the cache, because an
// all-gather writes far more than a cache holds.
void zr_comm_copy(void *dst, const void *src, int64_t bytes, int threads);
void zr_comm_copy_streaming(void *dst, const void *src, int64_t bytes);

#endif
