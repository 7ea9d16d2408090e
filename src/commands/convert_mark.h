// receipt.json of a model that zero convert has made: it lists what was written, so that
// --overwrite removes that and nothing else.
//
//   {"files":{"config.json":612,"model.safetensors":8192},"format":"libzero conversion 1",
//    "weights":null}
//
// It lists names and bytes, and says nothing of the weights (checkpoint/receipt.h).
#ifndef ZR_COMMANDS_CONVERT_MARK_H
#define ZR_COMMANDS_CONVERT_MARK_H

#include "base/errors.h"

// Lists what lies in the directory, which is complete except for this file.
zero_status zr_convert_mark_write(const char *directory, zero_error *error);
// ZERO_ERR_USAGE if libzero has not written the model that lies there, or some of its files; the
// message names each such file.
zero_status zr_convert_mark_check(const char *directory, zero_error *error);

#endif
