// How the arithmetic of a unit refers to one of its tensors. The code that describes the unit's
// flat parameters fills in the handles once (lm_build.c). layers/ reads parameters and writes
// gradients through them, and so needs to know nothing about flat parameters.
#ifndef ZR_MODEL_TENSOR_HANDLE_H
#define ZR_MODEL_TENSOR_HANDLE_H

#include "base/errors.h"
#include <zero/model.h>

typedef struct zr_tp_split { // how tensor parallelism splits the whole tensor: see zero_tensor_desc
    int axis, parts;
} zr_tp_split;

typedef struct zr_tensor_handle {
    int flat_param,
        tensor;   // the place of its first tile; the others are the flat parameters that follow, of
                  // one tensor each. flat parameter -1: the unit has no such tensor
    int tiles;    // 1: it is whole and stays during the call; more: the tiles are streamed
    int64_t step; // rows or columns of every tile except the last
    bool trains;  // false: it is frozen, and its gradient is never asked for
    zr_tp_split tp;
} zr_tensor_handle;

bool zr_tensor_exists(const zr_tensor_handle *of);
// Begin and end the use of a tile. A whole tensor (tile 0 of 1) is always there.
zero_status zr_tensor_begin(zero_context *context, const zr_tensor_handle *of, int tile);
zero_status zr_tensor_end(zero_context *context, const zr_tensor_handle *of, int tile);
// Return zero_parameter and zero_gradient of a tile, or NULL if the unit has no such tensor. The
// gradient is also NULL if the tensor does not train, and nothing is then computed for it.
const void *zr_tensor_values(const zero_context *context, const zr_tensor_handle *of, int tile);
float *zr_tensor_gradient(zero_context *context, const zr_tensor_handle *of, int tile, int *add);
// Notes in a unit's sizes that its backward reads the tensor.
void zr_tensor_read_in_backward(const zr_tensor_handle *of, zero_unit_sizes *sizes);

#endif
