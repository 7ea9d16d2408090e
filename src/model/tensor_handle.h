// How the arithmetic of a unit names one of its tensors. Who describes the unit's pieces fills
// the handles once (lm_build.c); layers/ read parameters and write gradients through them, and so
// know nothing of pieces.
#ifndef ZR_MODEL_TENSOR_HANDLE_H
#define ZR_MODEL_TENSOR_HANDLE_H

#include "base/errors.h"
#include <zero/model.h>

typedef struct zr_tp_split { // how tensor parallelism splits the whole tensor: see zero_tensor_desc
    int axis, parts;
} zr_tp_split;

typedef struct zr_tensor_handle {
    int piece, tensor; // where its first tile lies; the others are the pieces that follow, of one
                       // tensor each. piece -1: the unit has no such tensor
    int tiles;         // 1: it is whole, and there during the whole call; more: they are streamed
    int64_t step;      // rows or columns of a tile, but the last
    bool trains;       // false: it is frozen, nobody asks for its gradient
    zr_tp_split tp;
} zr_tensor_handle;

bool zr_tensor_exists(const zr_tensor_handle *of);
// Around the use of a tile; a whole tensor (tile 0 of 1) is there anyway.
zero_status zr_tensor_begin(zero_context *context, const zr_tensor_handle *of, int tile);
zero_status zr_tensor_end(zero_context *context, const zr_tensor_handle *of, int tile);
// zero_parameter and zero_gradient of a tile; NULL where the unit has no such tensor. The gradient
// is NULL also where the tensor does not train: then nothing is computed for it.
const void *zr_tensor_values(const zero_context *context, const zr_tensor_handle *of, int tile);
float *zr_tensor_gradient(zero_context *context, const zr_tensor_handle *of, int tile, int *add);
// Notes in a unit's sizes that its backward reads the tensor.
void zr_tensor_read_in_backward(const zr_tensor_handle *of, zero_unit_sizes *sizes);

#endif
