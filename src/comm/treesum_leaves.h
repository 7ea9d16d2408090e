// Between treesum.c and treesum_leaves.c: what is added while memory is read once.
#ifndef ZR_COMM_TREESUM_LEAVES_H
#define ZR_COMM_TREESUM_LEAVES_H

#include "base/dtype.h"

// Reads elements from `first` on and widens them; out(count) overlaps no source.
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

#endif
