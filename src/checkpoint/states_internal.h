// Between states_save.c and states_load.c.
#ifndef ZR_CHECKPOINT_STATES_INTERNAL_H
#define ZR_CHECKPOINT_STATES_INTERNAL_H

#include "checkpoint/states.h"

char *zr_states_path(const char *directory, const char *vector, zero_error *error); // DIR/NAME.safetensors; zr_free
// Place of a tensor in the view's list. Ranges of a tensor follow each other, so `last`, the place of the last one, is looked at first.
int zr_view_find(const zr_weight_view *view, const zero_tensor_desc *tensor, int last);

#endif
