// Structs that callers fill in; their first field, struct_size, says which version the caller
// knows.
//
// Fields are only added at the end, after what was padding, and 0 or NULL in a new field means what
// the library did before the field existed. So the struct of an older program is a prefix of
// today's, and that of a newer program can be taken as long as it uses nothing new.
#ifndef ZR_BASE_STRUCT_TAKE_H
#define ZR_BASE_STRUCT_TAKE_H

#include "base/errors.h"

// Bytes of a struct up to and including `field`: the size of the version whose last field it was.
#define ZR_STRUCT_UPTO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

// Copies the caller's struct at `from` to `to`, of `size` bytes. Fields that an older struct lacks
// become zero, and struct_size becomes `size`. `name` is the struct's name for the message.
// ZERO_ERR_USAGE if the struct is smaller than `first`, or larger than `size` with anything but
// zeros after that.
zero_status zr_struct_take(const char *name, const void *from, size_t first, void *to, size_t size,
                           zero_error *error);

#endif
