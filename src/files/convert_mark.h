// receipt.json of a model that zero convert has made: what it wrote, so that --overwrite removes
// that and nothing else.
//
//   {"files":{"config.json":612,"model.safetensors":8192},"format":"libzero conversion
//   1","weights":null}
//
// Names and bytes; nothing is said of the weights (files/receipt.h).
#ifndef ZR_FILES_CONVERT_MARK_H
#define ZR_FILES_CONVERT_MARK_H

#include "base/errors.h"

// Lists what lies in the directory, which is complete but for this.
zero_status zr_convert_mark_write(const char *directory, zero_error *error);
// ZERO_ERR_USAGE where libzero has not written the model that lies there, or something in it: the
// message names each such file.
zero_status zr_convert_mark_check(const char *directory, zero_error *error);

#endif
