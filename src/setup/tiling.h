// Memory-centric tiling of our own models: from the configuration to the shape that a model is built by.
#ifndef ZR_SETUP_TILING_H
#define ZR_SETUP_TILING_H

#include "config/config.h"
#include "model/architecture.h"

// Whether the shape was whole, or had other tiles: then a model of it has to be built anew.
bool zr_tiling_apply(const zr_config *config, zr_lm_config *shape);
enum { ZR_TILINGS = 9 };
extern const zr_tiles zr_tilings[ZR_TILINGS]; // from the fewest on; the table of tokens is the largest weight of most models
bool zr_tiling_was_said(const zr_config *config); // by the file or a flag

// Collective. Where the model does not fit, and nothing was said of tiles: the fewest with which it does are chosen and said, in the
// configuration and in the shape, which has then changed; where none does nothing does. options: as the engine will be made, of a model without tiles.
zero_status zr_tiling_choose(const zero_options *options, zr_config *config, zr_lm_config *shape, bool *changed, zero_error *error);
// ZERO_ERR_CONFIG where the configuration asks for tiles that the model, built before, does not have.
zero_status zr_tiling_check(const zr_config *config, const zero_model *model, zero_error *error);

#endif
