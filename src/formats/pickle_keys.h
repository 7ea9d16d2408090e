// An index of a pickle's dict by key, for many look-ups in a large dict: zr_pickle_get walks over
// all keys for each.
#ifndef ZR_FORMATS_PICKLE_KEYS_H
#define ZR_FORMATS_PICKLE_KEYS_H

#include "formats/name_index.h"
#include "formats/pickle.h"

typedef struct zr_pickle_keys {
    const zr_pickle_value *dict; // NULL: no keys
    // (count) Numbers pairs from the last to the first, because what was set last counts.
    zr_named *index;
    int count;
} zr_pickle_keys;

// `dict` may also be an object, whose attributes are then indexed; NULL and other values have no
// keys. It must outlive *out, which zr_pickle_keys_free frees.
zero_status zr_pickle_keys_create(const zr_pickle_value *dict, zr_pickle_keys *out,
                                  zero_error *error);
// Like zr_pickle_get; names must not be empty.
const zr_pickle_value *zr_pickle_keys_find(const zr_pickle_keys *keys, const char *name);
void zr_pickle_keys_free(zr_pickle_keys *keys);

#endif
