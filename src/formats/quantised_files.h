// Weights in codes (base/quantised.h) out of a set of files: made of plain weights as they are
// read, in pieces, or read as transformers saves them with bitsandbytes. A weight W of a model,
// (out, in), has up to three tensors of bytes in a view, whose names are those of the model:
//
//   W                 codes
//   W.absmax          scales
//   W.nested_absmax   nf4: what the scales share (base/quantised.h)
//
// In files of transformers the codes of nf4 are "W", (out x in / 2, 1), with "W.absmax",
// "W.nested_absmax" and, as JSON, "W.quant_state.bitsandbytes__nf4"; those of int8 are "W", (out,
// in), with its scales in "SCB" in place of "weight".
#ifndef ZR_FORMATS_QUANTISED_FILES_H
#define ZR_FORMATS_QUANTISED_FILES_H

#include "base/quantised.h"
#include "formats/safetensors.h"

typedef struct zr_codes zr_codes;

zero_status zr_codes_open(const zr_st_set *set, zr_weight_format format, zr_codes **out,
                          zero_error *error);
void zr_codes_close(zr_codes *codes); // NULL is allowed
// Checks that the files have what a tensor of bytes is made of. `directory` is for messages.
zero_status zr_codes_check(zr_codes *codes, const char *directory, const zero_tensor_desc *tensor,
                           zero_error *error);
// Reads bytes [first, first + count) of a tensor. Scales of nf4 need a pass over the whole weight;
// those of the last weights are kept.
zero_status zr_codes_read(zr_codes *codes, const zero_tensor_desc *tensor, int64_t first,
                          int64_t count, void *out, zero_error *error);
// Returns whether a tensor of the files belongs to a weight in codes.
bool zr_codes_uses(const zr_codes *codes, const char *name);

#endif
