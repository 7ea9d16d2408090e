// The engine's shards, as the ranges of whole tensors that checkpoint/ reads and writes.
#ifndef ZR_FILES_MODEL_VIEW_H
#define ZR_FILES_MODEL_VIEW_H

#include "checkpoint/weight_files.h"
#include "engine/engine_inner.h"

typedef struct zr_model_view { // must not move while its view is used
    zr_weight_view view;
    zero_engine *engine;
    zr_vector vector;
    // (tensor_count) The tensors that the vector has, with tiled ones joined.
    const zero_tensor_desc **listed;
    // The same by zr_plan_tensor.number (tensor_count); NULL: the vector does not have it.
    const zero_tensor_desc **by_number;
    zero_tensor_desc *joined; // (tensor_count)
} zr_model_view;

// Not collective. `vector` is ZR_VECTOR_MASTER for the weights as they are kept, with all tensors,
// or an optimizer's state, with those that are trained.
zero_status zr_model_view_create(zero_engine *engine, zr_vector vector, zr_model_view *out,
                                 zero_error *error);
void zr_model_view_free(zr_model_view *view); // a zeroed one is allowed

#endif
