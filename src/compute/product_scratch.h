// The scratch of a product of which only the shape is known, because a unit states no more.
#ifndef ZR_COMPUTE_PRODUCT_SCRATCH_H
#define ZR_COMPUTE_PRODUCT_SCRATCH_H

#include "compute/compute.h"
#include <zero/model.h>

// Returns the most bytes that a product of operands of this type can need, whatever its epilogue.
size_t zr_product_scratch(zr_queue *queue, zero_dtype dtype, const zero_product_shape *shape);

#endif
