// Adafactor's averages of rows or of columns as tensors of one dimension, which have the names of
// the tensors that they are kept of. Each is one range, in the first part of the view.
#ifndef ZR_CHECKPOINT_FACTORS_VIEW_H
#define ZR_CHECKPOINT_FACTORS_VIEW_H

#include "checkpoint/model_view.h"

typedef struct zr_factors_view { // must not move while its view is used
    zr_weight_view view;
    zero_engine *engine;
    bool of_rows, saves;             // saves: only those that this rank saves
    zero_tensor_desc *descs;         // (view.tensor_count)
    const zero_tensor_desc **listed; // the same
    int *numbers;                    // (view.tensor_count) zr_plan_tensor.number
} zr_factors_view;

// Not collective. A view of no tensors is allowed.
zero_status zr_factors_view_create(zero_engine *engine, bool of_rows, zr_view_purpose purpose,
                                   zr_factors_view *out, zero_error *error);
void zr_factors_view_free(zr_factors_view *view); // a zeroed one is allowed

#endif
