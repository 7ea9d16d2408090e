#include "formats/pickle_keys.h"

#include "base/alloc.h"

// Returns where the key of pair `number` stands; pairs are counted from the last.
static size_t pickle_keys_place_of(const zr_pickle_value *dict, int number)
{
    return dict->items.count / 2 * 2 - 2 * ((size_t)number + 1);
}

static const char *key_of(const void *user, int number)
{
    const zr_pickle_value *dict = user;
    const char *key = zr_pickle_text(dict->items.at[pickle_keys_place_of(dict, number)]);
    return key ? key : ""; // no name is empty
}

zero_status zr_pickle_keys_create(const zr_pickle_value *dict, zr_pickle_keys *out,
                                  zero_error *error)
{
    *out = (zr_pickle_keys){0};
    if (zr_pickle_is(dict, ZR_PICKLE_OBJECT))
        dict = dict->object.attributes;
    if (!zr_pickle_is(dict, ZR_PICKLE_DICT))
        return ZERO_OK;
    out->dict = dict;
    out->count = (int)(dict->items.count / 2);
    return zr_name_index_create(key_of, dict, out->count, &out->index, error);
}

const zr_pickle_value *zr_pickle_keys_find(const zr_pickle_keys *keys, const char *name)
{
    int number = keys->dict ? zr_name_index_find(keys->index, keys->count, name) : -1;
    return number < 0 ? NULL : keys->dict->items.at[pickle_keys_place_of(keys->dict, number) + 1];
}

void zr_pickle_keys_free(zr_pickle_keys *keys)
{
    zr_free(keys->index);
    *keys = (zr_pickle_keys){0};
}
