// How the arithmetic of a unit refers to one of its tensors. lm_build.c fills in the handles when
// it describes the unit's flat parameters. layers/ reads parameters and writes gradients through
// them, so it does not depend on how tensors are packed into flat parameters.
#ifndef ZR_MODEL_TENSOR_HANDLE_H
#define ZR_MODEL_TENSOR_HANDLE_H

#include "base/errors.h"
#include <zero/model.h>

typedef struct zr_tp_split { // how tensor parallelism splits the whole tensor: see zero_tensor_desc
    int axis, parts;
} zr_tp_split;

typedef struct zr_tensor_handle {
    // The place of its first tile; the others are the flat parameters that follow, of one tensor
    // each. flat_param is -1 if the unit has no such tensor.
    int flat_param, tensor;
    int tiles;    // 1 if it is whole and stays during the call; more if its tiles are streamed
    int64_t step; // rows or columns of every tile except the last
    bool trains;  // false if it is frozen: it has no gradient
    zr_tp_split tp;
} zr_tensor_handle;

bool zr_tensor_exists(const zr_tensor_handle *of);
// Acquire and release a tile. A whole tensor (tile 0 of 1) is always there.
zero_status zr_tensor_acquire(zero_context *context, const zr_tensor_handle *of, int tile);
zero_status zr_tensor_release(zero_context *context, const zr_tensor_handle *of, int tile);
// Return zero_parameter and zero_gradient of a tile, or NULL if the unit has no such tensor. The
// gradient is also NULL if the tensor does not train, and nothing is then computed for it.
const void *zr_tensor_values(const zero_context *context, const zr_tensor_handle *of, int tile);
float *zr_tensor_gradient(zero_context *context, const zr_tensor_handle *of, int tile, int *add);
// Notes in a unit's sizes that its backward reads the tensor.
void zr_tensor_read_in_backward(const zr_tensor_handle *of, zero_unit_sizes *sizes);

#endif
