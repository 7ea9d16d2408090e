// A low-rank adapter added to what is read of a model (model/lora.h):
//
//   W' = W + s B A          A (rank, in), B (out, rank), s: zr_lora_scale
//
// so that everything that takes a source also takes a model with its adapter. It needs memory for
// one A and one B, and for a block of numbers. An adapter's head of labels takes the place of the
// model's, or of its head of tokens.
#ifndef ZR_FORMATS_SOURCE_MERGE_H
#define ZR_FORMATS_SOURCE_MERGE_H

#include "formats/source.h"
#include "model/architecture.h"

// Adds the adapter in `weights`, a file that is opened here, to a source with a model's weights.
// config: the model's, with its adapters. widens: weights that are adapted become fp32; otherwise
// they keep the type of their file, and are rounded to it once. Returns ZERO_ERR_DATA, with the
// tensor, for an adapter whose tensors are not those of its configuration, or not of this model.
// zr_source_close also closes the adapter.
zero_status zr_source_merge(zr_source *source, const char *weights, const zr_lm_config *config,
                            bool widens, zero_error *error);

// For tensor_names.c: returns whether a tensor of the weights is left out, because the adapter has
// a head of labels instead.
bool zr_merge_leaves_out(const zr_source *source, int tensor);

// For source.c.
zero_status zr_merge_read(zr_source *source, int tensor, int64_t first, int64_t bytes, void *out,
                          zero_error *error);
void zr_merge_free(struct zr_merge *merge); // NULL is allowed

#endif
