// The engine's shards as ranges of whole tensors, which checkpoint/ reads and writes.
#ifndef ZR_CHECKPOINT_MODEL_VIEW_H
#define ZR_CHECKPOINT_MODEL_VIEW_H

#include "formats/weight_files.h"
#include "engine/engine_api.h"
#include "model/architecture.h"

typedef enum zr_view_purpose {
    ZR_VIEW_SAVES, // the ranges that this rank writes; one rank has those that several hold
    ZR_VIEW_LOADS, // all ranges that this rank holds, to be filled
    // The same, to be compared: without tied copies that are one update older than their owner.
    ZR_VIEW_COMPARES,
} zr_view_purpose;

typedef enum zr_view_tensors {
    ZR_VIEW_ALL,
    ZR_VIEW_TRAINED,
    ZR_VIEW_BASE, // of the model that adapters adapt: what is frozen, and a head of labels
} zr_view_tensors;

typedef struct zr_model_view { // must not move while its view is used
    zr_weight_view view;
    zero_engine *engine;
    zr_vector vector;
    zr_view_tensors which;
    zr_view_purpose purpose;
    bool beside; // it is saved by a thread beside steps (zr_guard)
    bool filled; // tensors that do not have the vector have their weights
    // (view.tensor_count) The tensors that the vector has, with tiles joined. For a part of a
    // model: the tensors of the whole.
    const zero_tensor_desc **listed;
    // The same by zr_plan_tensor.number; NULL if the vector does not have the tensor.
    const zero_tensor_desc **by_number;
    bool *in_codes;           // (view.tensor_count)
    zero_tensor_desc *joined; // by zr_plan_tensor.number: tiled tensors of a model that is whole
} zr_model_view;

// Not collective. `vector` is ZR_VECTOR_MASTER for the weights as they are kept, of all tensors or
// of some, or an optimizer's state, of those that are trained in any case.
zero_status zr_model_view_create(zero_engine *engine, zr_vector vector, zr_view_tensors which,
                                 zr_view_purpose purpose, zr_model_view *out, zero_error *error);
// The same for a model's files, of the average of the weights; frozen tensors have their weights.
zero_status zr_model_view_of_average(zero_engine *engine, zr_view_tensors which, zr_model_view *out,
                                     zero_error *error);
// Returns which tensors a checkpoint of the engine has: where a model has adapters, the others are
// those of the model that it adapts, which nothing changes.
zr_view_tensors zr_view_of_checkpoint(const zero_engine *engine);
// Sets the names in files of a language model's head and of the table that it may repeat.
void zr_weights_name_head(const zr_lm_config *config, zr_weights_options *how);
void zr_model_view_free(zr_model_view *view); // a zeroed one is allowed

#endif
