// Reads Thrift's compact protocol, in which Parquet writes its footer and its pages' headers.
//
//   zr_thrift_field f = {0};
//   while (zr_thrift_next(t, &f))
//       if (f.id == 3)
//           rows = zr_thrift_integer(t, &f);
//       else
//           zr_thrift_skip(t, &f);
//
// The error is sticky: after bytes that are no Thrift, or too few, `failed` is set, every value is
// 0, and no structure has another field.
#ifndef ZR_DATA_PARQUET_THRIFT_H
#define ZR_DATA_PARQUET_THRIFT_H

#include "base/errors.h"

typedef enum zr_thrift_type {
    ZR_THRIFT_END = 0,
    ZR_THRIFT_TRUE = 1,
    ZR_THRIFT_FALSE = 2,
    ZR_THRIFT_BYTE = 3,
    ZR_THRIFT_I16 = 4,
    ZR_THRIFT_I32 = 5,
    ZR_THRIFT_I64 = 6,
    ZR_THRIFT_DOUBLE = 7,
    ZR_THRIFT_BINARY = 8,
    ZR_THRIFT_LIST = 9,
    ZR_THRIFT_SET = 10,
    ZR_THRIFT_MAP = 11,
    ZR_THRIFT_STRUCT = 12,
} zr_thrift_type;

typedef struct zr_thrift {
    const uint8_t *at, *end;
    bool failed;
} zr_thrift;

typedef struct zr_thrift_field { // of a structure; {0} before the first one
    int64_t id;
    zr_thrift_type type;
} zr_thrift_field;

typedef struct zr_thrift_text {
    const char *data;
    size_t length;
} zr_thrift_text;

uint64_t zr_thrift_varint(zr_thrift *t);
int64_t zr_thrift_zigzag(zr_thrift *t);

// Reads the header of the next field; false at the structure's end.
bool zr_thrift_next(zr_thrift *t, zr_thrift_field *field);
// Skips the value of a field.
void zr_thrift_skip(zr_thrift *t, const zr_thrift_field *field);

// The values. One of another type than the caller wants is an error.
int64_t zr_thrift_integer(zr_thrift *t, const zr_thrift_field *field);
bool zr_thrift_flag(zr_thrift *t, const zr_thrift_field *field);
zr_thrift_text zr_thrift_binary(zr_thrift *t, const zr_thrift_field *field);
// Returns the number of a list's items, which are all of *type and of at least a byte each.
int64_t zr_thrift_list(zr_thrift *t, const zr_thrift_field *field, zr_thrift_type type);
// Enters a structure: returns whether the field is one.
bool zr_thrift_struct(zr_thrift *t, const zr_thrift_field *field);

#endif
