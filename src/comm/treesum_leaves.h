// Between treesum.c and treesum_leaves.c: what is added in one pass over memory.
#ifndef ZR_COMM_TREESUM_LEAVES_H
#define ZR_COMM_TREESUM_LEAVES_H

#include "base/dtype.h"

// Elements from `first` on, widened as they are read; out(count) overlaps no source.
typedef void zr_tree_leaf(float *out, const void *const *src, int64_t first, int64_t count);

typedef struct zr_tree_leaves {
    zr_tree_leaf *add;  // out += src[0]
    zr_tree_leaf *pair; // out = src[0] + src[1]
    zr_tree_leaf *four; // out = (src[0] + src[1]) + (src[2] + src[3])
} zr_tree_leaves;

// Of sources of F32, BF16 or F16: the fastest that this processor runs.
const zr_tree_leaves *zr_tree_leaves_of(zero_dtype dtype);
// Those that every processor runs, with the same bits.
const zr_tree_leaves *zr_tree_leaves_portable(zero_dtype dtype);

#endif
