// How the language models of lm_build.c and their parts (lm_cut.c) are stored. Each unit has one
// storage, so that its names, descriptions, flat parameters and handles live exactly as long as the
// model. Private to these files.
#ifndef ZR_MODEL_LM_STORAGE_H
#define ZR_MODEL_LM_STORAGE_H

#include "model/lm_build.h"

#define ZR_LM_NAME_BYTES 80
#define ZR_LM_GROUPS 2 // of zr_unit_tensor.group

typedef struct zr_unit_storage {
    char name[ZR_LM_NAME_BYTES];
    // Of its tensors, as the design numbers them, then of its tiles.
    char (*names)[ZR_LM_NAME_BYTES];
    zero_tensor_desc *tensors; // of its flat parameters, one flat parameter after another
    zero_flat_param_desc *flat_params;
    zero_flat_param_ref *borrowed;                  // NULL: it borrows nothing
    int name_count, tensor_count, flat_param_count; // so far
    zr_lm_unit hyper;
} zr_unit_storage;

typedef struct zr_lm_storage {
    zero_model model; // first, because zr_lm_free gets its address
    zr_lm_design design;
    const zr_lm_frozen *frozen; // set while the model is built; NULL: all tensors train
    zero_unit *units;           // (model.unit_count)
    zr_unit_storage *storage;   // (model.unit_count)
} zr_lm_storage;

// Returns the unit's tensors as the design has them, and their number.
const zr_unit_tensor *zr_lm_design_of(const zr_lm_storage *storage, int unit, int *count);

#endif
