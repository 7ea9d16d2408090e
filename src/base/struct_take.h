// Structs that callers fill in and whose first field, struct_size, says which version they know.
//
// Fields are only added at the end, after what was padding, and 0 or NULL in one that is new means
// what the library did before it. So the struct of an older program is a prefix of today's, and
// that of a newer one can be taken as long as it uses nothing new.
#ifndef ZR_BASE_STRUCT_TAKE_H
#define ZR_BASE_STRUCT_TAKE_H

#include "base/errors.h"

// Bytes of a struct up to and with this field: of its first version, if the field was its last.
#define ZR_STRUCT_UPTO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

// Copies the caller's struct at `from` to `to`, of `size` bytes: what an older one lacks is zero,
// and struct_size is `size`. name: of the struct, for the message. ZERO_ERR_USAGE for one that is
// smaller than `first`, and for one that is larger than `size` and not zero after that.
zero_status zr_struct_take(const char *name, const void *from, size_t first, void *to, size_t size,
                           zero_error *error);

#endif
