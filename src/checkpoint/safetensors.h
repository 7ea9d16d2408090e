// safetensors: u64 little-endian N | N bytes of JSON header | tensors, row-major, little-endian.
//
//   0        8              8+N                      size
//   [ N u64 ][ JSON header  ][ tensor | tensor | ... ]     offsets in the header count from 8+N
//
// The reader refuses whatever the reference reader refuses, and is stricter on duplicates and
// unknown fields.
#ifndef ZR_CHECKPOINT_SAFETENSORS_H
#define ZR_CHECKPOINT_SAFETENSORS_H

#include "base/alloc.h"
#include <zero/tensor.h>

typedef struct zr_st_tensor {
    char *name;
    const char *dtype; // "F32", "BF16", ...; points into a static table
    int dims;
    int64_t shape[8];
    int64_t begin, end; // file offsets, absolute
    int file;           // index into the set's files
} zr_st_tensor;

typedef struct zr_st_set { // the tensors of a file, or of the shards that an index names
    int file_count, tensor_count;
    char **paths;          // (file_count)
    int *fds;              // (file_count)
    zr_st_tensor *tensors; // (tensor_count), sorted by name
} zr_st_set;

// Opens DIR/model.safetensors, or DIR/model.safetensors.index.json and its shards; or one file when
// the path ends in .safetensors.
zero_status zr_st_open(const char *path, zr_st_set *out, zero_error *error);
void zr_st_close(zr_st_set *set);
// With or without the prefix "transformer." in the file. NULL where absent.
const zr_st_tensor *zr_st_find(const zr_st_set *set, const char *name);
// Elements [first, first+count) of a tensor, converted to fp32 (F32, F16, BF16, F64).
zero_status zr_st_read(const zr_st_set *set, const zr_st_tensor *tensor, int64_t first,
                       int64_t count, float *out, zero_error *error);

// Writing: header computed from the table alone (every rank computes the same), then ranges in any
// order by anyone.
typedef struct zr_st_layout {
    zr_buffer header; // the 8 bytes, the JSON, padding
    int64_t *begin;   // (count) absolute offset of tensor i in the order given
    int64_t total;    // file bytes
} zr_st_layout;

typedef struct zr_st_entry {
    const char *name;
    zero_dtype dtype;
    int dims;
    const int64_t *shape;
    // instead of dtype, for those that only safetensors has a name of; NULL: dtype
    const char *stored;
} zr_st_entry;
// Orders by dtype rank, then name, as the reference writer does; `prefix` is put before every name
// ("transformer." or "").
zero_status zr_st_layout_create(const zr_st_entry *entries, int count, const char *prefix,
                                zr_st_layout *out, zero_error *error);
void zr_st_layout_free(zr_st_layout *layout);

#endif
