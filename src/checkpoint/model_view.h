// The engine's shards, as the ranges of whole tensors that checkpoint/ reads and writes.
#ifndef ZR_CHECKPOINT_MODEL_VIEW_H
#define ZR_CHECKPOINT_MODEL_VIEW_H

#include "formats/weight_files.h"
#include "engine/engine_api.h"
#include "model/architecture.h"

typedef enum zr_view_purpose {
    ZR_VIEW_SAVES, // has what this rank writes: of what several ranks hold, one has it
    ZR_VIEW_LOADS, // has all that this rank holds, to be filled
    // The same, to be compared: without tied copies that are one update older than what they copy.
    ZR_VIEW_COMPARES,
} zr_view_purpose;

typedef struct zr_model_view { // must not move while its view is used
    zr_weight_view view;
    zero_engine *engine;
    zr_vector vector;
    zr_view_purpose purpose;
    // (view.tensor_count) The tensors that the vector has, with tiled ones joined; of a part of a
    // model those of the whole.
    const zero_tensor_desc **listed;
    // The same by zr_plan_tensor.number; NULL: the vector does not have it.
    const zero_tensor_desc **by_number;
    zero_tensor_desc *joined; // by zr_plan_tensor.number: tiled tensors of a model that is whole
} zr_model_view;

// Not collective. `vector` is ZR_VECTOR_MASTER for the weights as they are kept, with all tensors,
// or an optimizer's state, with those that are trained.
zero_status zr_model_view_create(zero_engine *engine, zr_vector vector, zr_view_purpose purpose,
                                 zr_model_view *out, zero_error *error);
// Says where files have the head of a language model, and what it may repeat.
void zr_weights_name_head(const zr_lm_config *config, zr_weights_load_options *how);
void zr_model_view_free(zr_model_view *view); // a zeroed one is allowed

#endif
