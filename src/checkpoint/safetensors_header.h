// The header of one safetensors file, and the format's element types; shared by the files of this
// room that read and write it.
#ifndef ZR_CHECKPOINT_SAFETENSORS_HEADER_H
#define ZR_CHECKPOINT_SAFETENSORS_HEADER_H

#include "checkpoint/safetensors.h"

#define ZR_ST_HEADER_LIMIT 100000000 // bytes of JSON that the reference reader accepts

typedef struct zr_st_dtype {
    const char *name;
    int bits; // of an element
} zr_st_dtype;

// NULL for a name that the format does not have. The rows of one table: a later one is written
// earlier in a file.
const zr_st_dtype *zr_st_dtype_find(const char *name);
const zr_st_dtype *zr_st_dtype_of(zero_dtype dtype);

// elements x bits / 8 of a shape; false where that overflows or is no whole number of bytes.
// Dimensions are not negative.
bool zr_st_bytes(const zr_st_dtype *dtype, int dims, const int64_t *shape, int64_t *bytes);

// Reads and checks the header of the open file `fd`; *tensors (zr_free, and each name) are in the
// order of their offsets.
// ZERO_ERR_DATA with path and tensor.
zero_status zr_st_header_read(int fd, const char *path, int file, zr_st_tensor **tensors,
                              int *count, zero_error *error);

#endif
