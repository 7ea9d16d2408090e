// Tensors by their names, however many there are and in whatever order.
#ifndef ZR_CHECKPOINT_NAME_INDEX_H
#define ZR_CHECKPOINT_NAME_INDEX_H

#include "base/errors.h"

typedef struct zr_named {
    const char *name;
    int number;
} zr_named;

// Allocates *out (count), sorted by name, of names that name_of gives for 0 .. count-1 and that
// outlive it; zr_free.
zero_status zr_name_index_create(const char *(*name_of)(const void *user, int number),
                                 const void *user, int count, zr_named **out, zero_error *error);
// the number; -1 where absent
int zr_name_index_find(const zr_named *index, int count, const char *name);

#endif
