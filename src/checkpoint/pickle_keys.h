// A dict of a pickle by its keys, for those that have many of both: zr_pickle_get walks through all
// of them for each.
#ifndef ZR_CHECKPOINT_PICKLE_KEYS_H
#define ZR_CHECKPOINT_PICKLE_KEYS_H

#include "checkpoint/name_index.h"
#include "checkpoint/pickle.h"

typedef struct zr_pickle_keys {
    const zr_pickle_value *dict; // NULL: it has no keys
    // (count) of its pairs from the last to the first: what was set last counts
    zr_named *index;
    int count;
} zr_pickle_keys;

// dict: or an object, for its attributes; NULL and other values have no keys. It outlives *out,
// which zr_pickle_keys_free frees.
zero_status zr_pickle_keys_create(const zr_pickle_value *dict, zr_pickle_keys *out,
                                  zero_error *error);
// as zr_pickle_get; names are not empty
const zr_pickle_value *zr_pickle_keys_find(const zr_pickle_keys *keys, const char *name);
void zr_pickle_keys_free(zr_pickle_keys *keys);

#endif
