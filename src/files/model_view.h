// The engine's shards as the ranges of whole tensors that checkpoint/ reads and writes.
#ifndef ZR_FILES_MODEL_VIEW_H
#define ZR_FILES_MODEL_VIEW_H

#include "checkpoint/weight_files.h"
#include "engine/engine_inner.h"

typedef struct zr_model_view { // stays where it is while its view is used
    zr_weight_view view;
    zero_engine *engine;
    zr_vector vector;
    // (tensor_count) those that the vector has, tiled ones put together
    const zero_tensor_desc **listed;
    // (tensor_count) the same, by zr_plan_tensor.number; NULL: it has none
    const zero_tensor_desc **by_number;
    zero_tensor_desc *joined; // (tensor_count)
} zr_model_view;

// vector: ZR_VECTOR_MASTER for the weights as they are kept, of all tensors; an optimizer's state,
// of those that are trained. Not collective.
zero_status zr_model_view_create(zero_engine *engine, zr_vector vector, zr_model_view *out,
                                 zero_error *error);
void zr_model_view_free(zr_model_view *view); // zeroed ones are fine

#endif
