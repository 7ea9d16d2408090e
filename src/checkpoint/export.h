// The weights of a source as Hugging Face's files: model.safetensors, or shards and their index.
// One block of memory, whatever their size.
#ifndef ZR_CHECKPOINT_EXPORT_H
#define ZR_CHECKPOINT_EXPORT_H

#include "checkpoint/tensor_names.h"

typedef struct zr_export {
    const char *directory; // which is there; the files are not
    bool keeps_dtypes;     // of the source; else real numbers become:
    zero_dtype dtype;      // F32, BF16, F16
    int64_t shard_bytes;   // of tensors in a file, but that one tensor may be larger; 0: one file
    zr_source_progress progress; // optional: with the bytes that were read
    void *user;
    // what came of it
    int files, tensors;
    int64_t bytes;      // of tensors, written
    int64_t overflowed; // finite numbers that the dtype cannot hold: they became infinite
} zr_export;

// Every file is on the disk when it returns. Tensors go into files in the source's order, as
// Hugging Face's writers split them.
zero_status zr_export_weights(zr_source *source, zr_export *export, zero_error *error);

#endif
