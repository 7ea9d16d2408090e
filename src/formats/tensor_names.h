// The names that a source's tensors get in what is written of it. Our models have GPT-2's names
// bare (wte.weight), Hugging Face's files have them after "transformer."; wrapped torch models have
// all of theirs after "module.".
#ifndef ZR_FORMATS_TENSOR_NAMES_H
#define ZR_FORMATS_TENSOR_NAMES_H

#include "formats/source.h"

typedef enum zr_naming { ZR_NAMES_OURS, ZR_NAMES_HUGGING_FACE } zr_naming;

// *out (zr_tensor_names_free) is (tensor_count) new strings, NULL for a tensor that is not written
// (GPT-2's mask buffers).
zero_status zr_tensor_names(const zr_source *source, const zr_source_vector *vector,
                            zr_naming naming, char ***out, zero_error *error);
// Returns whether the name is that of a buffer that older exports of transformers contain and its
// models compute again: GPT-2's masks (h.0.attn.bias, h.0.attn.masked_bias), rotary frequencies and
// tables of them. transformers ignores the first two, vLLM the tables as well.
bool zr_tensor_is_buffer(const char *name);
void zr_tensor_names_free(char **names, int count); // NULL is allowed

#endif
