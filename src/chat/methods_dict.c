// Methods of dictionaries and lists, as far as they only read. Those that change their object are
// rows without a function: Jinja's sandbox has them undefined.
#include "chat/rendering.h"

#include <string.h>

static zero_status new_view(zr_rendering *r, const zr_chat_value *self, const char *name,
                            const zr_value_dict **dict, zr_chat_value *out)
{
    *dict = zr_value_members(&r->memory, self);
    *out = *dict ? zr_value_new_list(&r->memory, ZR_KIND_VIEW, (*dict)->count)
                 : (zr_chat_value){.kind = ZR_KIND_MISSING};
    if (out->kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    out->list->view = name;
    return zr_rendering_steps(r, (*dict)->count);
}

static zero_status dict_items(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    const zr_value_dict *dict;
    ZERO_TRY(new_view(r, self, "dict_items", &dict, out));
    for (size_t i = 0; i < dict->count; i++) {
        zr_chat_value pair = zr_value_new_list(&r->memory, ZR_KIND_TUPLE, 2);
        if (pair.kind == ZR_KIND_MISSING)
            return zr_rendering_no_memory(r);
        zr_value_push(&pair, dict->keys[i]);
        zr_value_push(&pair, dict->values[i]);
        zr_value_push(out, pair);
    }
    return ZERO_OK;
}

static zero_status dict_keys(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                             zr_chat_value *out)
{
    const zr_value_dict *dict;
    ZERO_TRY(new_view(r, self, "dict_keys", &dict, out));
    for (size_t i = 0; i < dict->count; i++)
        zr_value_push(out, dict->keys[i]);
    return ZERO_OK;
}

static zero_status dict_values(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    const zr_value_dict *dict;
    ZERO_TRY(new_view(r, self, "dict_values", &dict, out));
    for (size_t i = 0; i < dict->count; i++)
        zr_value_push(out, dict->values[i]);
    return ZERO_OK;
}

static zero_status dict_get(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                            zr_chat_value *out)
{
    const zr_value_dict *dict = zr_value_members(&r->memory, self);
    if (!dict)
        return zr_rendering_no_memory(r);
    if (!zr_value_is_key(&v->at[0]))
        return zr_rendering_fail(r, "a %s cannot be a key", zr_value_type(&v->at[0]));
    ZERO_TRY(zr_rendering_steps(r, dict->count / 16));
    const zr_chat_value *value = zr_value_find(dict, &v->at[0]);
    *out = value ? *value : v->at[1].kind == ZR_KIND_MISSING ? zr_value_none() : v->at[1];
    return ZERO_OK;
}

// A dictionary and a list never change, so they are their own copies.
static zero_status copy_self(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                             zr_chat_value *out)
{
    *out = *self;
    return ZERO_OK;
}

static zero_status find_in_list(zr_rendering *r, const zr_chat_value *self,
                                const zr_chat_value *wanted, int64_t *first, int64_t *times)
{
    const zr_value_list *list = zr_value_items(&r->memory, self);
    if (!list)
        return zr_rendering_no_memory(r);
    *first = -1;
    *times = 0;
    for (size_t i = 0; i < list->count; i++) {
        bool equal;
        ZERO_TRY(zr_value_equal(r, &list->items[i], wanted, &equal));
        if (equal && !(*times)++)
            *first = (int64_t)i;
    }
    return ZERO_OK;
}

static zero_status list_index(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    int64_t first = 0, times = 0;
    ZERO_TRY(find_in_list(r, self, &v->at[0], &first, &times));
    *out = zr_value_of_integer(first);
    return times ? ZERO_OK : zr_rendering_fail(r, "index of what is not in the list");
}

static zero_status list_count(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    int64_t first = 0, times = 0;
    ZERO_TRY(find_in_list(r, self, &v->at[0], &first, &times));
    *out = zr_value_of_integer(times);
    return ZERO_OK;
}

const zr_builtin zr_methods_dict[] = {
    {"items", "", 0, dict_items},
    {"keys", "", 0, dict_keys},
    {"values", "", 0, dict_values},
    {"get", "key default", 1, dict_get},
    {"copy", "", 0, copy_self},
    {"clear", "", 0, NULL},
    {"pop", "", 0, NULL},
    {"popitem", "", 0, NULL},
    {"setdefault", "", 0, NULL},
    {"update", "", 0, NULL},
    {0},
};

const zr_builtin zr_methods_list[] = {
    {"index", "value", 1, list_index},
    {"count", "value", 1, list_count},
    {"copy", "", 0, copy_self},
    {"append", "", 0, NULL},
    {"clear", "", 0, NULL},
    {"extend", "", 0, NULL},
    {"insert", "", 0, NULL},
    {"pop", "", 0, NULL},
    {"remove", "", 0, NULL},
    {"reverse", "", 0, NULL},
    {"sort", "", 0, NULL},
    {0},
};
