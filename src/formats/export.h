// Writes the weights of a source as Hugging Face's files: model.safetensors, or shards and their
// index. It takes one block of memory, whatever their size.
#ifndef ZR_FORMATS_EXPORT_H
#define ZR_FORMATS_EXPORT_H

#include "formats/tensor_names.h"

typedef struct zr_export {
    const char *directory; // exists; the files do not
    bool keeps_dtypes;     // the source's; otherwise real numbers become:
    zero_dtype dtype;      // F32, BF16, F16
    // Bytes of tensors in a file, which only a single larger tensor exceeds; 0: one file.
    int64_t shard_bytes;
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

#endif
