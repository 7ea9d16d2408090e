// An index of tensors by name, for any number of them in any order.
#ifndef ZR_FORMATS_NAME_INDEX_H
#define ZR_FORMATS_NAME_INDEX_H

#include "base/errors.h"

typedef struct zr_named {
    const char *name;
    int number;
} zr_named;

// Allocates *out (count; zr_free), sorted by the names that name_of returns for 0 .. count-1. The
// names must outlive it.
zero_status zr_name_index_create(const char *(*name_of)(const void *user, int number),
                                 const void *user, int count, zr_named **out, zero_error *error);
// Returns the name's number; -1 if the index does not have it.
int zr_name_index_find(const zr_named *index, int count, const char *name);

#endif
