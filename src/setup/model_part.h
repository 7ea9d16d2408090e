// What a configuration makes of a model: the tiles of its shape (model_tiles.c), and the part that
// this rank computes. One of the library's own models is cut into slices as the configuration says;
// any other model is used as it is.
#ifndef ZR_SETUP_MODEL_PART_H
#define ZR_SETUP_MODEL_PART_H

#include "config/config.h"
#include "model/architecture.h"
#include <zero/engine.h>

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

// model_tiles.c, for our own models: memory-centric tiling. Sets the tiles that the configuration
// gives. Returns whether the shape had other tiles before, so that a model built from it has to be
// built again.
bool zr_model_tiles_apply(const zr_config *config, zr_lm_config *shape);
enum { ZR_TILINGS = 9 };
// From the fewest tiles on. The token table is divided first, because it is the largest weight of
// most models.
extern const zr_tiles zr_tilings[ZR_TILINGS];
bool zr_model_tiles_are_given(const zr_config *config); // in the file, or by a flag

// Collective; called before a model of the shape is built. If the whole model does not fit and the
// configuration does not mention tiles, chooses and reports the fewest with which it fits, in the
// configuration and in the shape. If it fits with none of them, the shape is unchanged. `options`
// are those of the engine to be made; their model is not read. The shape is unchanged, too, if the
// model has slices, which cannot be cut into tiles.
zero_status zr_model_tiles_choose(const zero_options *options, zr_config *config,
                                  zr_lm_config *shape, zero_error *error);
// Returns ZERO_ERR_CONFIG if the configuration asks for tiles that the model, already built, does
// not have.
zero_status zr_model_tiles_check(const zr_config *config, const zero_model *model,
                                 zero_error *error);

#endif
