// The header of one safetensors file, and the element types of the format; for this room's files
// that read and write them.
#ifndef ZR_FORMATS_SAFETENSORS_HEADER_H
#define ZR_FORMATS_SAFETENSORS_HEADER_H

#include "formats/safetensors.h"

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
