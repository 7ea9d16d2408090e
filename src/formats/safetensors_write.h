// Writes the weights of a source as Hugging Face's files: model.safetensors, or shards and their
// index. It takes one block of memory, whatever their size.
#ifndef ZR_FORMATS_SAFETENSORS_WRITE_H
#define ZR_FORMATS_SAFETENSORS_WRITE_H

#include "formats/source.h"

typedef struct zr_export {
    const char *directory; // exists; the files do not
    bool keeps_dtypes;     // the source's; otherwise real numbers become:
    zero_dtype dtype;      // F32, BF16, F16
    // The most bytes of tensors in a file, unless a single tensor is larger; 0 for one file.
    int64_t shard_bytes;
    // The name of a single file; NULL: model.safetensors. Its shards always have that.
    const char *file;
    const char *prefix;          // before all names; NULL: names are those of Hugging Face's models
    zr_source_progress progress; // optional; called with the bytes that were read
    void *user;
    // The results.
    int files, tensors;
    int64_t bytes; // bytes of tensors written
    // Finite numbers that the dtype cannot hold: they became infinite.
    int64_t overflowed;
} zr_export;

// Returns when every file is on the disk. Tensors go into files in the source's order, split as
// Hugging Face's writers do.
zero_status zr_export_weights(zr_source *source, zr_export *export, zero_error *error);

// From tensor_names.c: the names of a source's tensors in written files. Our models have GPT-2's
// names bare (wte.weight), Hugging Face's files have them after "transformer."; wrapped torch
// models have all of theirs after "module.".
typedef enum zr_naming { ZR_NAMES_OURS, ZR_NAMES_HUGGING_FACE } zr_naming;

// *out (zr_tensor_names_free) is (tensor_count) new strings; NULL for a tensor that is not written
// (GPT-2's mask buffers, a head of tokens where an adapter has one of labels).
zero_status zr_tensor_names(const zr_source *source, const zr_source_vector *vector,
                            zr_naming naming, char ***out, zero_error *error);
// Returns whether the name is that of a buffer that older exports of transformers contain and its
// models compute again: GPT-2's masks (h.0.attn.bias, h.0.attn.masked_bias), rotary frequencies and
// tables of them. transformers ignores the first two, vLLM the tables as well.
bool zr_tensor_is_buffer(const char *name);
void zr_tensor_names_free(char **names, int count); // NULL is allowed

// Returns how many bytes of a file's prefix, "base_model.model.transformer.", stand before a name:
// all of them, or those that are peft's before the head of labels, which is next to the model.
int zr_tensor_prefix_bytes(const char *name, const char *prefix);

#endif
