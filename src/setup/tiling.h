// Memory-centric tiling of our own models: from the configuration to the shape that a model is
// built by.
#ifndef ZR_SETUP_TILING_H
#define ZR_SETUP_TILING_H

#include "config/config.h"
#include "model/architecture.h"

// The tiles that the configuration says. Whether the shape was whole, or had others: then a model
// that was built of it before is another.
bool zr_tiling_apply(const zr_config *config, zr_lm_config *shape);
enum { ZR_TILINGS = 9 };
// from the fewest on; the table of tokens is the largest weight of most models
extern const zr_tiles zr_tilings[ZR_TILINGS];
bool zr_tiling_was_said(const zr_config *config); // by the file or a flag

// Collective, before a model of the shape is built. Where none would fit, and nothing was said of
// tiles: the fewest with which it does are chosen and said, in the configuration and in the shape;
// where none does the shape stays. options: as the engine will be made; the model in it is not
// read.
zero_status zr_tiling_choose(const zero_options *options, zr_config *config, zr_lm_config *shape,
                             zero_error *error);
// ZERO_ERR_CONFIG where the configuration asks for tiles that the model, built before, does not
// have.
zero_status zr_tiling_check(const zr_config *config, const zero_model *model, zero_error *error);

#endif
