// Shared by states_save.c and states_load.c.
#ifndef ZR_CHECKPOINT_STATES_INTERNAL_H
#define ZR_CHECKPOINT_STATES_INTERNAL_H

#include "checkpoint/states.h"

// Returns DIR/NAME.safetensors (zr_free).
char *zr_states_path(const char *directory, const char *vector, zero_error *error);

#endif
