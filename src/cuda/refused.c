// Kinds of operations that a card does not compute.
#include "cuda/launch.h"

// REFUSED(kind, shape)
#define REFUSED(kind, shape_)                                                                      \
    ZR_KERNEL(zr_cuda_##kind, kind, shape_) { zr_cuda_queue_refuse(queue, NULL); }

REFUSED(quantised_product, product)
REFUSED(decode_scales, scale_codes)
REFUSED(neighbour_sum, neighbours)
REFUSED(momentum_direction, update)
REFUSED(orthogonal_update, update)
REFUSED(weighted_sum, weighted)
REFUSED(factor_sums, factored)
REFUSED(factored_squares, factored)
REFUSED(factored_update, factored)
