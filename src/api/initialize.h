// zero_initialize in two halves, so that jobs of api/ can bring a configuration that they have resolved themselves.
#ifndef ZR_API_INITIALIZE_H
#define ZR_API_INITIALIZE_H

#include "engine/create.h"

zr_settings zr_settings_of(const zr_config *config, bool inference);

// Collective. `options` without its configuration; takes `config`, resolved, also when it fails.
zero_status zr_engine_make(const zero_options *options, zr_config *config, zero_engine **out, zero_error *error);

#endif
