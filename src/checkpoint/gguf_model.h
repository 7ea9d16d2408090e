// What a GGUF file has next to the tensors: the tokenizer, the chat template, and, made of them,
// the files of a model directory.
#ifndef ZR_CHECKPOINT_GGUF_MODEL_H
#define ZR_CHECKPOINT_GGUF_MODEL_H

#include "formats/gguf.h"
#include "formats/source.h"
#include "tokenizer/token_list.h"

// Writes the keys of the tokenizer, and of the chat template (NULL: there is none).
void zr_gguf_put_tokenizer(zr_gguf_writer *w, const zr_token_list *list, const char *template);
// Reads the tokenizer; *out has no tokens if the file has none. ZERO_ERR_UNSUPPORTED for a kind
// that is not built; ZERO_ERR_DATA with path and key. zr_token_list_free.
zero_status zr_gguf_read_tokenizer(const zr_gguf *gguf, zr_token_list *out, zero_error *error);

// Writes config.json, the tokenizer and the chat template of a GGUF source into `directory`. dtype:
// the weights' type for config.json. *has_tokenizer: whether the file has a tokenizer.
zero_status zr_gguf_model_files(const zr_source *source, const char *dtype, const char *directory,
                                bool *has_tokenizer, zero_error *error);

#endif
