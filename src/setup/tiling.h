// Memory-centric tiling of our own models: the step from the configuration to the shape from which
// a model is built.
#ifndef ZR_SETUP_TILING_H
#define ZR_SETUP_TILING_H

#include "config/config.h"
#include "model/architecture.h"

// Sets the tiles that the configuration gives. Returns whether the shape had other tiles before, so
// that a model built from it has to be built again.
bool zr_tiling_apply(const zr_config *config, zr_lm_config *shape);
enum { ZR_TILINGS = 9 };
// From the fewest tiles on. The token table is divided first, because it is the largest weight of
// most models.
extern const zr_tiles zr_tilings[ZR_TILINGS];
bool zr_tiling_was_said(const zr_config *config); // Returns whether the file or a flag gave any.

// Collective; called before a model of the shape is built. If the whole model does not fit and the
// configuration does not mention tiles, chooses and reports the fewest with which it fits, in the
// configuration and in the shape. If it fits with none of them, the shape is unchanged. `options`
// are those of the engine to be made; their model is not read. The shape is unchanged, too, if the
// model has slices, which cannot be cut into tiles.
zero_status zr_tiling_choose(const zero_options *options, zr_config *config, zr_lm_config *shape,
                             zero_error *error);
// Returns ZERO_ERR_CONFIG if the configuration asks for tiles that the model, already built, does
// not have.
zero_status zr_tiling_check(const zr_config *config, const zero_model *model, zero_error *error);

#endif
