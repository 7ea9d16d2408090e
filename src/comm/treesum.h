// Sums over the ranks' contributions (contract 3), in one fixed order, whichever rank or thread
// adds.
#ifndef ZR_COMM_TREESUM_H
#define ZR_COMM_TREESUM_H

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

#endif
