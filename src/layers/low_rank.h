// The low-rank adapter of a linear (model/lora.h): what it adds to the linear's output and to the
// gradient of its input, and the gradients of A and B. linear.c calls it.
//
//   forward    t = s x A^T            y += t B^T
//   backward   u = s dy B             dx += u A      dA = u^T x      dB = dy^T t
//
// x is gelu(x) where the linear has gelu, and then goes through dropout. Backward computes t again:
// it is rank columns of as many as x has. In 16 bits t and u are rounded once, after the factor s;
// what is added to is fp32, so that each sum is rounded once, too.
#ifndef ZR_LAYERS_LOW_RANK_H
#define ZR_LAYERS_LOW_RANK_H

#include "compute/compute.h"
#include "model/tensor_handle.h"

typedef struct zr_low_rank {
    int64_t rank;                  // 0: the linear has no adapter
    float scale;                   // s
    const zr_tensor_handle *a, *b; // (rank, in), (out, rank)
    // (out) What scales the rows of W + s B A (magnitude.h); it may not exist.
    const zr_tensor_handle *magnitude;
    float dropout; // 0 in evaluation
    zr_mask mask;
    // Where a slice's part of a gradient goes that is a sum over slices; NULL: the gradient is
    // computed as a whole.
    float *part_a, *part_b, *part_magnitude;
    // true: the weight has a slice's columns, so that norms are sums over slices. With magnitudes
    // `squares` (out) then has their squares (zr_magnitude_squares).
    bool of_columns;
    const float *squares;
} zr_low_rank;

struct zr_linear;

// All of these do nothing for a linear without adapter. scratch: (zr_low_rank_scratch) bytes.
size_t zr_low_rank_scratch(const struct zr_linear *linear);
// Returns a place in the scratch for (rows, in) or (rows, out) in fp32; NULL where the linear
// itself computes in fp32.
float *zr_low_rank_sum(const struct zr_linear *linear, void *scratch);
// Returns what the adapter reads: x, or gelu and dropout of it, in the scratch.
const void *zr_low_rank_input(zero_context *context, const struct zr_linear *linear, const void *x,
                              void *scratch);
// Adds to y (rows, out).
void zr_low_rank_forward(zero_context *context, const struct zr_linear *linear, const void *x,
                         float *y, void *scratch);
// Computes the gradients of A and B.
void zr_low_rank_backward_tensors(zero_context *context, const struct zr_linear *linear,
                                  const void *x, const void *dy, void *scratch);
// Adds to dx (rows, in), before the factor of gelu'. again: u is computed here; otherwise
// zr_low_rank_backward_tensors has just left it in the scratch. With magnitudes dy has their
// factors in both calls (zr_magnitude_backward).
void zr_low_rank_backward_input(zero_context *context, const struct zr_linear *linear,
                                const void *dy, float *dx, bool again, void *scratch);
// Appends the products of forward and, if `training`, of backward.
void zr_low_rank_products(const struct zr_linear *linear, bool training, zero_unit_sizes *sizes);
// Notes what backward reads for the gradients of the adapter: A and B, and with magnitudes these
// and the weight.
void zr_low_rank_read_in_backward(const struct zr_linear *linear, zero_unit_sizes *sizes);

#endif
