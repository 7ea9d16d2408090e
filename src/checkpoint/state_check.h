// What the "state" of a manifest may say: every number that a training goes on with, and its range.
#ifndef ZR_CHECKPOINT_STATE_CHECK_H
#define ZR_CHECKPOINT_STATE_CHECK_H

#include "base/json.h"

// ZERO_ERR_DATA with key, value and range of the first number that is missing, of another kind or
// out of its range. where: the file, for the message.
zero_status zr_state_check(const json_t *state, const char *where, zero_error *error);
// The number that row i of the table is of: "step", "loss_scale.scale"; NULL: there are no more.
const char *zr_state_check_key(int i);

#endif
