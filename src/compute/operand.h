// What the declarations of operands (op.h) are made of, and operands that change from step to step.
#ifndef ZR_COMPUTE_OPERAND_H
#define ZR_COMPUTE_OPERAND_H

#include "base/errors.h"
#include "base/random.h"
#include <zero/tensor.h>

// What an operation does with an operand. ZR_AUX: it is small beside the others, or read in part,
// so that its bytes are not counted. ZR_LENT: it lies in memory of the program's own, which no plan
// reserves. ZR_SCRATCH: how many bytes is up to the backend (zr_op_scratch); 64-byte aligned.
// ZR_HOST: an array of the host's, read when the operation is submitted and never later; at most
// ZR_HOST_BYTES.
typedef enum zr_access {
    ZR_READ = 1,
    ZR_WRITTEN = 2,
    ZR_BOTH = ZR_READ | ZR_WRITTEN,
    ZR_AUX = 4,
    ZR_SCRATCH = ZR_BOTH | ZR_AUX | 8,
    ZR_LENT = 16,
    ZR_HOST = ZR_READ | ZR_AUX | 32
} zr_access;
enum { ZR_HOST_BYTES = 4096 };

// Operands of dropout and of the loss. The engine sets them at the beginning of a step, and the
// last unit the last two for its micro-batch.
typedef struct zr_step_values {
    uint64_t seed, step; // of the masks of dropout
    float loss_factor;   // by which the gradient of a row's loss is multiplied
    double targets;      // by which the sum of the rows' losses is divided
} zr_step_values;

// A mask of dropout within a step; zr_mask_key gives the key of zr_dropout_keep.
typedef struct zr_mask {
    uint64_t micro_batch, unit; // as in zero_context
    uint32_t site;              // within the unit
} zr_mask;

static inline uint64_t zr_mask_key(const zr_mask *mask, const zr_step_values *values)
{
    return zr_site_key(values->seed, values->step, mask->micro_batch, mask->unit, mask->site);
}

#endif
