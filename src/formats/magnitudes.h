// What the magnitudes of adapters (model/lora.h) are before a training: the norms of the rows of
// the weights beside them, as files have these or, of a base in codes, as these are decoded.
#ifndef ZR_FORMATS_MAGNITUDES_H
#define ZR_FORMATS_MAGNITUDES_H

#include "formats/weight_files.h"

typedef struct zr_magnitudes_options {
    zr_weight_format format; // of the model's weights
    bool outputs_first;      // weights lie as (out, in), otherwise as (in, out)
} zr_magnitudes_options;

// Collective. Sets the magnitudes of a view of tensors that train from the files of the model that
// is adapted, which have been loaded; other tensors keep their values.
zero_status zr_magnitudes_load(zero_comm *comm, const char *directory, const zr_weight_view *view,
                               const zr_magnitudes_options *how, zero_error *error);

#endif
