// The scratch of a product of which only the shape is known, as a unit names it.
#ifndef ZR_COMPUTE_PRODUCT_SCRATCH_H
#define ZR_COMPUTE_PRODUCT_SCRATCH_H

#include "compute/compute.h"
#include <zero/model.h>

// Bytes that a product of operands of that type needs at most, whatever its epilogue.
size_t zr_product_scratch(zr_queue *queue, zero_dtype dtype, const zero_product_shape *shape);

#endif
