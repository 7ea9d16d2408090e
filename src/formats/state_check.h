// Checks the "state" of a manifest: every number from which a training continues, and its range.
#ifndef ZR_FORMATS_STATE_CHECK_H
#define ZR_FORMATS_STATE_CHECK_H

#include "base/json.h"

// ZERO_ERR_DATA with key, value and range of the first number that is missing, of another kind or
// out of range. `where` names the file in the message.
zero_status zr_state_check(const json_t *state, const char *where, zero_error *error);
// Returns the key of row i of the table, such as "step" or "loss_scale.scale"; NULL after the last
// row.
const char *zr_state_check_key(int i);

#endif
