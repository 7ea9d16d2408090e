// The part of a model that this rank computes: one of the library's own models is cut into slices
// as the configuration says; any other model is used as it is.
#ifndef ZR_SETUP_MODEL_PART_H
#define ZR_SETUP_MODEL_PART_H

#include "config/config.h"
#include "model/architecture.h"
#include <zero/model.h>

typedef struct zr_model_part {
    const zero_model *model; // to be used
    zero_model *made;        // NULL: the model itself is used
} zr_model_part;

// Checks that a model of this shape, which messages call `name`, can be cut as the configuration
// says. ZERO_ERR_CONFIG, with the numbers and what would fit.
zero_status zr_model_part_check(const zr_lm_config *shape, const char *name,
                                const zr_config *config, zero_error *error);
// Makes the part of tensor rank `tensor_rank`. `model`, which messages call `name`, outlives it.
// Not collective.
// ZERO_ERR_CONFIG: the model cannot be cut so, with the numbers and what would fit.
// ZERO_ERR_UNSUPPORTED: a program's own model has no split.
zero_status zr_model_part_make(const zero_model *model, const char *name, const zr_config *config,
                               int tensor_rank, zr_model_part *out, zero_error *error);
void zr_model_part_free(zr_model_part *part); // a zeroed one is allowed

#endif
