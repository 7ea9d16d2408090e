// Reads the values that a pickle held.
#include "formats/pickle.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

const zr_pickle_value *zr_pickle_get(const zr_pickle_value *dict, const char *key)
{
    size_t length = strlen(key);
    if (zr_pickle_is(dict, ZR_PICKLE_OBJECT))
        dict = dict->object.attributes;
    if (!zr_pickle_is(dict, ZR_PICKLE_DICT))
        return NULL;
    // Backwards, because the value that was set last counts.
    for (size_t i = dict->items.count; i >= 2; i -= 2) {
        const zr_pickle_value *name = dict->items.at[i - 2];
        if (name->kind == ZR_PICKLE_TEXT && name->text.length == length &&
            !memcmp(name->text.at, key, length))
            return dict->items.at[i - 1];
    }
    return NULL;
}

const zr_pickle_value *zr_pickle_at(const zr_pickle_value *list, size_t index)
{
    bool is_list = zr_pickle_is(list, ZR_PICKLE_TUPLE) || zr_pickle_is(list, ZR_PICKLE_LIST);
    return is_list && index < list->items.count ? list->items.at[index] : NULL;
}

bool zr_pickle_number(const zr_pickle_value *value, double *out)
{
    if (zr_pickle_is(value, ZR_PICKLE_OBJECT))
        value = zr_pickle_at(value->object.arguments, 0);
    if (!value || (value->kind != ZR_PICKLE_BOOL && value->kind != ZR_PICKLE_INTEGER &&
                   value->kind != ZR_PICKLE_REAL))
        return false;
    *out = value->kind == ZR_PICKLE_REAL ? value->real : (double)value->integer;
    return true;
}

bool zr_pickle_integer(const zr_pickle_value *value, int64_t *out)
{
    double number;
    if (zr_pickle_is(value, ZR_PICKLE_OBJECT))
        value = zr_pickle_at(value->object.arguments, 0);
    if (zr_pickle_is(value, ZR_PICKLE_OBJECT) || !zr_pickle_number(value, &number))
        return false;
    if (value->kind != ZR_PICKLE_REAL) {
        *out = value->integer;
        return true;
    }
    if (number != floor(number) || fabs(number) > 9007199254740992.0) // 2^53
        return false;
    *out = (int64_t)number;
    return true;
}

const char *zr_pickle_text(const zr_pickle_value *value)
{
    bool plain =
        zr_pickle_is(value, ZR_PICKLE_TEXT) && strlen(value->text.at) == value->text.length;
    return plain ? value->text.at : NULL;
}

// Returns where the key of pair `number` stands; pairs are counted from the last.
static size_t pickle_keys_place_of(const zr_pickle_value *dict, int number)
{
    return dict->items.count / 2 * 2 - 2 * ((size_t)number + 1);
}

static const char *key_of_dict(const void *user, int number)
{
    const zr_pickle_value *dict = user;
    const char *key = zr_pickle_text(dict->items.at[pickle_keys_place_of(dict, number)]);
    return key ? key : ""; // names are never empty
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
    return zr_name_index_create(key_of_dict, dict, out->count, &out->index, error);
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
