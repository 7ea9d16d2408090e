// A GGUF file as a source of weights: tensors have the names, shapes and order of Hugging Face's
// files. What was quantised is read as fp32.
#ifndef ZR_FORMATS_SOURCE_GGUF_H
#define ZR_FORMATS_SOURCE_GGUF_H

#include "formats/gguf.h"
#include "formats/source.h"
#include "model/architecture.h"

// ZERO_ERR_DATA for a file that lacks a tensor of its model, or has one more; ZERO_ERR_UNSUPPORTED
// for a model that is not computed here.
zero_status zr_source_open_gguf(const char *path, zr_source *out, zero_error *error);
// The file and its model's configuration; the source's kind is ZR_SOURCE_GGUF.
const zr_gguf *zr_source_gguf(const zr_source *source);
const zr_lm_config *zr_source_gguf_config(const zr_source *source);

#endif
