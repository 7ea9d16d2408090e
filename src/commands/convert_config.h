// The configuration of a model that zero_convert reads.
#ifndef ZR_COMMANDS_CONVERT_CONFIG_H
#define ZR_COMMANDS_CONVERT_CONFIG_H

#include "formats/source.h"
#include "model/architecture.h"

// Reads it from model_dir or, if that is NULL, from the source or the directory that belongs to it.
// Returns ZERO_ERR_DATA if there is none; `purpose` is for messages: what needs it. Returns
// ZERO_ERR_UNSUPPORTED for weights in codes.
zero_status zr_convert_config(const zr_source *source, const char *model_dir, const char *purpose,
                              zr_lm_config *out, zero_error *error);

#endif
