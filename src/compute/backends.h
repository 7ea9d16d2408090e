// The backends of this build, and what they share: checks of products, the threshold of dropout,
// the scale of a block, exact sums of squares, the sum over slices of a vocabulary. Only compute/
// includes this.
#ifndef ZR_COMPUTE_BACKENDS_H
#define ZR_COMPUTE_BACKENDS_H

#include "compute/compute.h"

#include <math.h>
#include <string.h>

extern const zr_backend zr_ref_backend;
extern const zr_backend zr_cpu_backend_portable;
// In builds for x86-64.
extern const zr_backend zr_cpu_backend_avx2;
extern const zr_backend zr_cpu_backend_avx512;
extern const zr_backend zr_cpu_backend_avx512_bf16;
// The kernels of avx512_bf16, with oneDNN's products in bf16, which use tiles; in builds with
// oneDNN.
extern const zr_backend zr_cpu_backend_amx;

// The head of the kernel of a kind of operation: function(queue, shape, its operands).
#define ZR_KERNEL(function, kind, shape_)                                                          \
    void function(zr_queue *queue,                                                                 \
                  const zr_##shape_ *shape ZR_OPERANDS_##kind(ZR_OPERAND_PARAMETER))
// The case of a switch over kinds that calls it; FUNCTION(kind) is its name.
#define ZR_OPERAND_ARGUMENT(name, type, access, storage, elements) , at->name
#define ZR_KERNEL_CASE(kind_, shape_, ...)                                                         \
    case ZR_OP_##kind_: {                                                                          \
        __typeof__(op->at.kind_) *at = (void *)&op->at.kind_;                                      \
        FUNCTION(kind_)(queue, &op->shape.shape_ ZR_OPERANDS_##kind_(ZR_OPERAND_ARGUMENT));        \
        break;                                                                                     \
    }

// Does the work of square_sums_exact, by square_sums on the queue's backend.
void zr_square_parts_add(zr_queue *queue, const zr_square_parts *of, const zr_square_part *parts,
                         const void *g, zr_exact *sums);

// Refuses a product that no backend computes; the message says why.
zero_status zr_product_check(const zr_product *product, zero_error *error);
// The same of a backend that wants rows of A and D without space between them.
zero_status zr_product_check_dense(const zr_product *product, zero_error *error);

// Returns the threshold below which a random word drops its element: the least integer >= p * 2^32,
// so that comparing with it is the same as comparing with the real number.
static inline uint64_t zr_dropout_threshold(float p)
{
    double exact = (double)p * 4294967296.0;
    uint64_t whole = (uint64_t)exact;
    return whole + ((double)whole < exact);
}

// Returns what a kept element is multiplied by.
static inline float zr_dropout_factor(float p) { return p < 1 ? 1 / (1 - p) : 0; }

// Returns the part of all slices of a vocabulary as if they were one, from the row's part of slice
// t at parts[t*stride]; slices >= 1. One slice's own part comes back bit for bit, except that the
// sum is NaN if the row has no logit above -infinity, and so no loss.
zr_loss_part zr_loss_parts_join(const zr_loss_part *parts, int slices, int64_t stride);

#endif
