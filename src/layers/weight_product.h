// Products with the weight of a linear, plain or in codes (base/quantised.h). linear.c calls them.
#ifndef ZR_LAYERS_WEIGHT_PRODUCT_H
#define ZR_LAYERS_WEIGHT_PRODUCT_H

#include "base/quantised.h"
#include "compute/compute.h"
#include "model/tensor_handle.h"

struct zr_linear;

typedef struct zr_quantised_weight { // of a linear
    zr_weight_format format;         // plain: the weight has none of these
    // The scales of its blocks, and what the scales of the whole weight share (nf4).
    const zr_tensor_handle *scales, *shared;
} zr_quantised_weight;

// Returns the bytes of scratch that the weight needs, a multiple of 64.
size_t zr_weight_scratch(const struct zr_linear *linear);
// Multiplies `a` with the whole weight as the product's B. operand: as in zr_op_product; scratch:
// (zr_weight_scratch) bytes.
void zr_weight_multiply(zero_context *context, const struct zr_linear *linear,
                        const zr_product *product, const void *a, const void *operand, void *d,
                        void *scratch);
// squares(out) = the sum of squares of each output's weights. scratch: as above.
void zr_weight_square_rows(zero_context *context, const struct zr_linear *linear, float *squares,
                           void *scratch);
// Notes that backward reads the weight.
void zr_weight_read_in_backward(const struct zr_linear *linear, zero_unit_sizes *sizes);

#endif
