// The magnitudes of a linear's adapter (DoRA, model/lora.h): what it computes in place of the
// linear's own product, and the gradients of its magnitudes m. linear.c calls it.
//
//   c = m / ||W + s B A||, a factor for each output; the norm is a constant in backward
//   forward    y = W x + (c - 1) W x' + c s B A x' + b           x' = dropout(x)
//   backward   dm = sums over rows of dy (W x' + s B A x') / ||W + s B A||
//              dx = dy W + dropout((c - 1) dy W + s (c dy B) A)
//
// Without dropout x' is x, so that y = c (W x + s B A x) + b and dx is that of a plain adapter for
// c dy. The norms follow from
//
//   ||W_i + s (B A)_i||^2 = ||W_i||^2 + s B_i (2 A W_i + s A A^T B_i)
//
// so that no sum of matrices is made. Backward computes c and W x' again.
//
// In a slice of a model (model/lm_slices.h) a linear has some rows of W, and all of this is true of
// them; or some columns of W and A, and all of B and m. The squares are then sums over slices, like
// y and dm; c stands before x' in each slice's part of y, so that the squares are summed first:
//
//   squares    slice 0 .. T-1: zr_magnitude_squares     summed, and kept for backward
//   forward    slice 0 .. T-1: y without b              summed
#ifndef ZR_LAYERS_MAGNITUDE_H
#define ZR_LAYERS_MAGNITUDE_H

#include "compute/compute.h"
#include "model/tensor_handle.h"

struct zr_linear;

bool zr_linear_has_magnitude(const struct zr_linear *linear);
// Returns the bytes of scratch that magnitudes need, a multiple of 64; 0 without them. All others
// are called only for a linear that has them. scratch: (zr_linear_scratch) bytes.
size_t zr_magnitude_scratch(const struct zr_linear *linear);
// squares(out) = those of the norms of rows; of a slice's columns, its part of these.
void zr_magnitude_squares(zero_context *context, const struct zr_linear *linear, float *squares,
                          void *scratch);
// y(rows, out), of `type`: the linear's, or fp32.
void zr_magnitude_forward(zero_context *context, const struct zr_linear *linear, const void *x,
                          zero_dtype type, void *y, void *scratch);
// Begins backward: computes c, and if `trains` the gradient of m. Returns c dy (rows, out), of
// which the adapter's gradients are computed as those of a plain one; it lies in the scratch.
const void *zr_magnitude_backward(zero_context *context, const struct zr_linear *linear,
                                  bool trains, const void *x, const void *dy, void *scratch);
// After zr_magnitude_backward, where the adapter has dropout: dx(rows, in) = (c - 1) dy W.
void zr_magnitude_backward_input(zero_context *context, const struct zr_linear *linear, float *dx,
                                 void *scratch);
// Appends the products that magnitudes add to those of the linear and its adapter.
void zr_magnitude_products(const struct zr_linear *linear, bool training, zero_unit_sizes *sizes);

#endif
