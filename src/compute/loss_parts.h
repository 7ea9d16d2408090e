// What the slices of a vocabulary say of a row together, for every backend.
#ifndef ZR_COMPUTE_LOSS_PARTS_H
#define ZR_COMPUTE_LOSS_PARTS_H

#include "compute/row_ops.h"

// Returns the part of all slices as if they were one, from the row's part of slice t at
// parts[t*stride]; slices >= 1. One slice's own part comes back bit for bit, but that the sum is
// NaN where the row has no logit above -infinity, and so no loss.
zr_loss_part zr_loss_parts_join(const zr_loss_part *parts, int slices, int64_t stride);

#endif
