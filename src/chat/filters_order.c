// Filters that compare: sort, dictsort, unique, min, max; and sum.
#include "chat/rendering.h"

#include <string.h>

static zero_status order_values(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                                int *sign)
{
    return zr_value_compare(r, a, b, "<", sign);
}

// What an item is compared by: an attribute, in lower case unless the case counts.
static zero_status make_key(zr_rendering *r, const zr_chat_value *item,
                            const zr_chat_value *attribute, bool case_counts, zr_chat_value *out)
{
    zr_chat_value key = *item;
    if (attribute && attribute->kind != ZR_KIND_MISSING && attribute->kind != ZR_KIND_NONE)
        ZERO_TRY(zr_attribute_of(r, item, attribute, &key));
    *out = key;
    return key.kind == ZR_KIND_TEXT && !case_counts ? zr_text_change_case(r, &key, false, out)
                                                    : ZERO_OK;
}

static zero_status take_copy(zr_rendering *r, const zr_chat_value *self, zr_chat_value *out)
{
    zr_chat_value *items;
    size_t count;
    ZERO_TRY(zr_value_iterate(r, self, &items, &count));
    ZERO_TRY(zr_rendering_steps(r, count));
    *out = zr_value_new_list(&r->memory, ZR_KIND_LIST, count);
    if (out->kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (size_t i = 0; i < count; i++)
        zr_value_push(out, items[i]);
    return ZERO_OK;
}

static zero_status make_keys(zr_rendering *r, const zr_chat_value *list,
                             const zr_chat_value *attribute, bool case_counts, zr_chat_value *out)
{
    *out = zr_value_new_list(&r->memory, ZR_KIND_LIST, list->list->count);
    if (out->kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (size_t i = 0; i < list->list->count; i++) {
        zr_chat_value key;
        ZERO_TRY(make_key(r, &list->list->items[i], attribute, case_counts, &key));
        zr_value_push(out, key);
    }
    return ZERO_OK;
}

static zero_status filter_sort(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    zr_chat_value keys;
    ZERO_TRY(take_copy(r, self, out));
    ZERO_TRY(make_keys(r, out, &v->at[2], zr_argument_boolean(&v->at[1], false), &keys));
    return zr_value_sort(r, keys.list->items, out->list->items, out->list->count,
                         zr_argument_boolean(&v->at[0], false), order_values);
}

static zero_status filter_dictsort(zr_rendering *r, const zr_chat_value *self,
                                   const zr_call_values *v, zr_chat_value *out)
{
    const zr_value_dict *dict =
        self->kind == ZR_KIND_DICT ? zr_value_members(&r->memory, self) : NULL;
    zr_chat_value by, keys = {0};
    if (!dict)
        return self->kind == ZR_KIND_DICT
                   ? zr_rendering_no_memory(r)
                   : zr_rendering_fail(r, "dictsort of a %s", zr_value_type(self));
    ZERO_TRY(zr_argument_text(r, &v->at[1], "key", &by));
    bool by_value = zr_value_text_is(&by, "value");
    if (!by_value && !zr_value_text_is(&by, "key"))
        return zr_rendering_fail(r, "dictsort by \"%.*s\": it must be \"key\" or \"value\"",
                                 (int)by.text.length, by.text.data);
    *out = zr_value_new_list(&r->memory, ZR_KIND_LIST, dict->count);
    if (out->kind != ZR_KIND_MISSING)
        keys = zr_value_new_list(&r->memory, ZR_KIND_LIST, dict->count);
    if (keys.kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (size_t i = 0; i < dict->count; i++) {
        zr_chat_value key, pair = zr_value_new_list(&r->memory, ZR_KIND_TUPLE, 2);
        if (pair.kind == ZR_KIND_MISSING)
            return zr_rendering_no_memory(r);
        zr_value_push(&pair, dict->keys[i]);
        zr_value_push(&pair, dict->values[i]);
        zr_value_push(out, pair);
        ZERO_TRY(make_key(r, by_value ? &dict->values[i] : &dict->keys[i], NULL,
                          zr_argument_boolean(&v->at[0], false), &key));
        zr_value_push(&keys, key);
    }
    return zr_value_sort(r, keys.list->items, out->list->items, out->list->count,
                         zr_argument_boolean(&v->at[2], false), order_values);
}

static zero_status filter_unique(zr_rendering *r, const zr_chat_value *self,
                                 const zr_call_values *v, zr_chat_value *out)
{
    zr_chat_value list, keys;
    size_t kept = 0;
    ZERO_TRY(take_copy(r, self, &list));
    ZERO_TRY(make_keys(r, &list, &v->at[1], zr_argument_boolean(&v->at[0], false), &keys));
    for (size_t i = 0; i < list.list->count; i++) {
        bool seen = false;
        if (!zr_value_is_key(&keys.list->items[i]))
            return zr_rendering_fail(r, "unique of a %s", zr_value_type(&keys.list->items[i]));
        for (size_t k = 0; !seen && k < kept; k++)
            ZERO_TRY(zr_value_equal(r, &keys.list->items[i], &keys.list->items[k], &seen));
        if (seen)
            continue;
        keys.list->items[kept] = keys.list->items[i];
        list.list->items[kept++] = list.list->items[i];
    }
    list.list->count = kept;
    *out = list;
    out->kind = ZR_KIND_GENERATOR;
    return ZERO_OK;
}

static zero_status take_extreme(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                int wanted, zr_chat_value *out)
{
    zr_chat_value list, keys;
    size_t best = 0;
    ZERO_TRY(take_copy(r, self, &list));
    ZERO_TRY(make_keys(r, &list, &v->at[1], zr_argument_boolean(&v->at[0], false), &keys));
    for (size_t i = 1; i < list.list->count; i++) {
        int sign;
        ZERO_TRY(zr_value_compare(r, &keys.list->items[i], &keys.list->items[best],
                                  wanted < 0 ? "<" : ">", &sign));
        best = sign == wanted ? i : best;
    }
    *out = list.list->count ? list.list->items[best] : zr_value_undefined("an item", 7);
    return ZERO_OK;
}

static zero_status filter_min(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    return take_extreme(r, self, v, -1, out);
}

static zero_status filter_max(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    return take_extreme(r, self, v, 1, out);
}

static zero_status filter_sum(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    zr_chat_value *items;
    size_t count;
    ZERO_TRY(zr_value_iterate(r, self, &items, &count));
    *out = v->at[1].kind == ZR_KIND_MISSING ? zr_value_of_integer(0) : v->at[1];
    if (out->kind == ZR_KIND_TEXT)
        return zr_rendering_fail(r, "sum of texts: join them");
    for (size_t i = 0; i < count; i++) {
        zr_chat_value left = *out, item;
        ZERO_TRY(make_key(r, &items[i], &v->at[0], true, &item));
        ZERO_TRY(zr_operate(r, ZR_OP_ADD, &left, &item, out));
    }
    return ZERO_OK;
}

const zr_builtin zr_filters_order[] = {
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {"min", "case_sensitive attribute", 0, filter_min},
    {"max", "case_sensitive attribute", 0, filter_max},
    {"sum", "attribute start", 0, filter_sum},
    {0},
};
