// The sum over the ranks' contributions, in the one order of contract 3 (tree_sum.h). compute.h
// states what holds for all operations, op.h how they are declared.
#ifndef ZR_COMPUTE_TREE_OPS_H
#define ZR_COMPUTE_TREE_OPS_H

#include "base/blocks.h"
#include "compute/operand.h"

// Where a reduced shard goes: data(shard_elems) = tree sum, in fp32, of the ranks' contributions,
// to which earlier sums are added before it is rounded once, to dtype. data may be the own shard of
// the own region, if dtype is the operand's.
typedef struct zr_sum_target {
    void *data;
    zero_dtype dtype; // F32, BF16 or F16
    int adds;         // earlier sums at data, data + stride, ...; the last is added first
    int64_t stride;   // elements
    // 8 or 4: the sum becomes codes of that many bits in blocks (base/blocks.h), and nothing is
    // added to it; 0: elements of dtype.
    int bits;
} zr_sum_target;

typedef struct zr_tree {
    zero_dtype dtype; // of the contributions
    int source_bits;  // those are codes of that many bits in blocks, in whole blocks; 0: of dtype
    int ranks;        // at most ZR_MOST_SOURCES
    int64_t count;    // elements
    zr_sum_target to; // its data is the operand `out`
} zr_tree;

enum { ZR_MOST_SOURCES = ZR_HOST_BYTES / (int)sizeof(void *) };

static inline int64_t zr_tree_source_bytes(const zr_tree *s) // of each contribution
{
    return s->source_bits ? zr_block_bytes(s->source_bits, s->count)
                          : s->count * (int64_t)zero_dtype_bytes(s->dtype);
}

static inline int64_t zr_tree_out_elements(const zr_tree *s) // of codes: bytes
{
    return s->to.bits ? zr_block_bytes(s->to.bits, s->count)
                      : ZR_MAX(s->to.adds - 1, 0) * s->to.stride + s->count;
}

// sources: the addresses of the contributions (ranks), which are read where they lie.
#define ZR_OPERANDS_tree_sum(AT)                                                                   \
    AT(sources, const void *const *, ZR_HOST, ZERO_I64, s->ranks)                                  \
    AT(out, void *, s->to.adds ? ZR_BOTH : ZR_WRITTEN, s->to.bits ? ZERO_U8 : s->to.dtype,         \
       zr_tree_out_elements(s))

#define ZR_TREE_OPS(OP) OP(tree_sum, tree, element, 0, s->ranks *zr_tree_source_bytes(s))

#endif
