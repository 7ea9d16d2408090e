// safetensors: u64 little-endian N | N bytes of JSON header | tensors, row-major, little-endian.
//
//   0        8              8+N                      size
//   [ N u64 ][ JSON header  ][ tensor | tensor | ... ]     offsets in the header count from 8+N
//
// The reader refuses whatever the reference reader refuses; it is stricter with duplicates and
// unknown fields.
#ifndef ZR_FORMATS_SAFETENSORS_H
#define ZR_FORMATS_SAFETENSORS_H

#include "base/alloc.h"
#include <zero/tensor.h>

typedef struct zr_st_tensor {
    char *name;
    const char *dtype; // "F32", "BF16", ...; points into a static table
    int dims;
    int64_t shape[8];
    int64_t begin, end; // absolute offsets in the file
    int file;           // index in the set's files
} zr_st_tensor;

typedef struct zr_st_set { // the tensors of one file, or of all shards that an index names
    int file_count, tensor_count;
    char **paths;          // (file_count)
    int *fds;              // (file_count)
    zr_st_tensor *tensors; // (tensor_count), sorted by name
} zr_st_set;

// Opens DIR/model.safetensors, or DIR/model.safetensors.index.json and its shards, or else
// DIR/adapter_model.safetensors; or a single file if the path ends in .safetensors.
zero_status zr_st_open(const char *path, zr_st_set *out, zero_error *error);
void zr_st_close(zr_st_set *set);
// Removes `prefix` from the names of all tensors, or peft's own part of it from that of a head of
// labels. ZERO_ERR_DATA for a tensor whose name does not begin with it.
zero_status zr_st_strip_prefix(zr_st_set *set, const char *prefix, zero_error *error);
// Finds a tensor by its name, which may have the prefix "transformer." in the file, or another name
// that transformers has given it since. NULL if there is no such tensor.
const zr_st_tensor *zr_st_find(const zr_st_set *set, const char *name);
// Reads elements [first, first+count) of a tensor, converted to fp32 (from F32, F16, BF16, F64).
zero_status zr_st_read(const zr_st_set *set, const zr_st_tensor *tensor, int64_t first,
                       int64_t count, float *out, zero_error *error);

// For writing: the header is computed from the table alone (every rank computes the same one), then
// any rank writes ranges in any order.
typedef struct zr_st_layout {
    zr_buffer header; // the 8 bytes, the JSON, padding
    int64_t *begin;   // (count) absolute offset of tensor i in the given order
    int64_t total;    // file bytes
} zr_st_layout;

typedef struct zr_st_entry {
    const char *name;
    zero_dtype dtype;
    int dims;
    const int64_t *shape;
    // The name of a dtype that zero_dtype does not have, in place of dtype; NULL to use dtype.
    const char *stored;
} zr_st_entry;
// Orders by dtype rank, then by name, as the reference writer does. `prefix` ("transformer." or "")
// is put before every name.
zero_status zr_st_layout_create(const zr_st_entry *entries, int count, const char *prefix,
                                zr_st_layout *out, zero_error *error);
void zr_st_layout_free(zr_st_layout *layout);

// The element types of the format and the header of one file, for the files that read and write
// them.
//
// The most bytes of JSON that the reference reader accepts.
#define ZR_ST_HEADER_LIMIT 100000000

typedef struct zr_st_dtype {
    const char *name;
    int bits; // of an element
} zr_st_dtype;

// Finds a type; NULL for a name that the format does not have. All are rows of one table; tensors
// of a later row are written earlier in a file.
const zr_st_dtype *zr_st_dtype_find(const char *name);
const zr_st_dtype *zr_st_dtype_of(zero_dtype dtype);

// Computes elements x bits / 8 of a shape, whose dimensions must not be negative. Returns false if
// that overflows or is not a whole number of bytes.
bool zr_st_bytes(const zr_st_dtype *dtype, int dims, const int64_t *shape, int64_t *bytes);

// Reads and checks the header of the open file `fd`. *tensors (zr_free it and each name) are in the
// order of their offsets. ZERO_ERR_DATA with path and tensor.
zero_status zr_st_header_read(int fd, const char *path, int file, zr_st_tensor **tensors,
                              int *count, zero_error *error);

#endif
