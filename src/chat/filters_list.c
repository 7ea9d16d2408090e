// Filters of lists and of whatever has items: length, first, join, map, select and others.
#include "chat/rendering.h"

#include <string.h>

static zero_status filter_length(zr_rendering *r, const zr_chat_value *self,
                                 const zr_call_values *v, zr_chat_value *out)
{
    int64_t length;
    ZERO_TRY(zr_value_length(r, self, &length));
    *out = zr_value_of_integer(length);
    return ZERO_OK;
}

static zero_status new_list(zr_rendering *r, zr_chat_value_kind kind, size_t count,
                            zr_chat_value *out)
{
    *out = zr_value_new_list(&r->memory, kind, count);
    return out->kind == ZR_KIND_MISSING ? zr_rendering_no_memory(r) : zr_rendering_steps(r, count);
}

static zero_status copy_items(zr_rendering *r, const zr_chat_value *self, zr_chat_value_kind kind,
                              bool backwards, zr_chat_value *out)
{
    zr_chat_value *items;
    size_t count;
    ZERO_TRY(zr_value_iterate(r, self, &items, &count));
    ZERO_TRY(new_list(r, kind, count, out));
    for (size_t i = 0; i < count; i++)
        zr_value_push(out, items[backwards ? count - 1 - i : i]);
    return ZERO_OK;
}

static zero_status filter_list(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    return copy_items(r, self, ZR_KIND_LIST, false, out);
}

static zero_status filter_reverse(zr_rendering *r, const zr_chat_value *self,
                                  const zr_call_values *v, zr_chat_value *out)
{
    zr_chat_value none = zr_value_of_text("", 0), reversed;
    if (self->kind == ZR_KIND_GENERATOR)
        return zr_rendering_fail(r, "reverse of a generator: make it a list first");
    ZERO_TRY(copy_items(r, self, ZR_KIND_GENERATOR, true, &reversed));
    *out = reversed;
    return self->kind == ZR_KIND_TEXT
               ? zr_text_join(r, &none, reversed.list->items, reversed.list->count, out)
               : ZERO_OK;
}

static zero_status filter_first(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    zr_chat_value *items;
    size_t count;
    ZERO_TRY(zr_value_iterate(r, self, &items, &count));
    *out = count ? items[0] : zr_value_undefined("the first item", 14);
    return ZERO_OK;
}

static zero_status filter_last(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    zr_chat_value *items;
    size_t count;
    if (self->kind == ZR_KIND_GENERATOR)
        return zr_rendering_fail(r, "last of a generator: make it a list first");
    ZERO_TRY(zr_value_iterate(r, self, &items, &count));
    *out = count ? items[count - 1] : zr_value_undefined("the last item", 13);
    return ZERO_OK;
}

// One step of "a.b.0".
static zero_status attribute_step(zr_rendering *r, const zr_chat_value *of, const char *part,
                                  size_t length, zr_chat_value *out)
{
    int64_t number = 0;
    bool digits = length > 0 && length < 18;
    for (size_t i = 0; i < length; i++) {
        digits &= part[i] >= '0' && part[i] <= '9';
        number = digits ? 10 * number + (part[i] - '0') : 0;
    }
    zr_chat_value key = digits ? zr_value_of_integer(number) : zr_value_of_text(part, length);
    return zr_get_item(r, of, &key, out);
}

zero_status zr_attribute_of(zr_rendering *r, const zr_chat_value *item, const zr_chat_value *name,
                            zr_chat_value *out)
{
    zr_chat_value at = *item;
    if (name->kind != ZR_KIND_TEXT)
        return zr_get_item(r, item, name, out);
    const char *part = name->text.data, *end = part + name->text.length;
    for (;;) {
        const char *point = memchr(part, '.', (size_t)(end - part));
        zr_chat_value of = at;
        ZERO_TRY(attribute_step(r, &of, part, (size_t)((point ? point : end) - part), &at));
        if (!point)
            break;
        part = point + 1;
    }
    *out = at;
    return ZERO_OK;
}

static zero_status filter_join(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    zr_chat_value *items, texts, between = zr_value_of_text("", 0);
    size_t count;
    if (v->at[0].kind != ZR_KIND_MISSING)
        ZERO_TRY(zr_value_to_text(r, &v->at[0], &between));
    ZERO_TRY(zr_value_iterate(r, self, &items, &count));
    ZERO_TRY(new_list(r, ZR_KIND_LIST, count, &texts));
    for (size_t i = 0; i < count; i++) {
        zr_chat_value item = items[i], text;
        if (v->at[1].kind != ZR_KIND_MISSING && v->at[1].kind != ZR_KIND_NONE)
            ZERO_TRY(zr_attribute_of(r, &items[i], &v->at[1], &item));
        ZERO_TRY(zr_value_to_text(r, &item, &text));
        zr_value_push(&texts, text);
    }
    return zr_text_join(r, &between, texts.list->items, texts.list->count, out);
}

static zero_status filter_items(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    const zr_value_dict *dict = NULL;
    if (self->kind != ZR_KIND_DICT && self->kind != ZR_KIND_UNDEFINED)
        return zr_rendering_fail(r, "items of a %s", zr_value_type(self));
    if (self->kind == ZR_KIND_DICT && !(dict = zr_value_members(&r->memory, self)))
        return zr_rendering_no_memory(r);
    ZERO_TRY(new_list(r, ZR_KIND_GENERATOR, dict ? dict->count : 0, out));
    for (size_t i = 0; dict && i < dict->count; i++) {
        zr_chat_value pair;
        ZERO_TRY(new_list(r, ZR_KIND_TUPLE, 2, &pair));
        zr_value_push(&pair, dict->keys[i]);
        zr_value_push(&pair, dict->values[i]);
        zr_value_push(out, pair);
    }
    return ZERO_OK;
}

static const zr_chat_value *find_keyword(const zr_call_values *v, const char *name)
{
    for (int i = 0; i < v->named_count; i++)
        if (v->named[i].length == strlen(name) &&
            !memcmp(v->named[i].name, name, v->named[i].length))
            return &v->named[i].value;
    return NULL;
}

// Applies the filter or test that the first argument names, with the arguments after it.
static zero_status apply_named(zr_rendering *r, bool is_filter, const zr_chat_value *item,
                               const zr_call_values *v, int skipped, zr_chat_value *out)
{
    zr_chat_value name;
    zr_call_values rest = *v;
    ZERO_TRY(zr_argument_text(r, &v->at[skipped], NULL, &name));
    const zr_builtin *row = is_filter ? zr_filter_find(name.text.data, name.text.length)
                                      : zr_test_find(name.text.data, name.text.length);
    if (!row)
        return zr_rendering_fail(r, "the %s \"%.*s\" is not built", is_filter ? "filter" : "test",
                                 (int)name.text.length, name.text.data);
    rest.at += skipped + 1;
    rest.count -= skipped + 1;
    return zr_builtin_apply(r, row, item, &rest, out);
}

static zero_status map_item(zr_rendering *r, const zr_chat_value *item, const zr_call_values *v,
                            zr_chat_value *out)
{
    const zr_chat_value *attribute = find_keyword(v, "attribute"),
                        *otherwise = find_keyword(v, "default");
    if (v->count)
        return apply_named(r, true, item, v, 0, out);
    if (!attribute || v->named_count > 1 + (otherwise != NULL))
        return zr_rendering_fail(r, "map needs the name of a filter, or attribute=");
    ZERO_TRY(zr_attribute_of(r, item, attribute, out));
    if (out->kind == ZR_KIND_UNDEFINED && otherwise)
        *out = *otherwise;
    return ZERO_OK;
}

// As in Jinja, map and select take what is not true for what has no items.
static zero_status iterate_if_true(zr_rendering *r, const zr_chat_value *self,
                                   zr_chat_value **items, size_t *count)
{
    *count = 0;
    return zr_value_is_true(self) ? zr_value_iterate(r, self, items, count) : ZERO_OK;
}

static zero_status filter_map(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    zr_chat_value *items, mapped;
    size_t count;
    ZERO_TRY(iterate_if_true(r, self, &items, &count));
    ZERO_TRY(new_list(r, ZR_KIND_GENERATOR, count, out));
    for (size_t i = 0; i < count; i++) {
        ZERO_TRY(map_item(r, &items[i], v, &mapped));
        zr_value_push(out, mapped);
    }
    return ZERO_OK;
}

// Keeps the items for which a test, or the truth, is as wanted. `attribute`: the test is of an
// attribute, which the first argument names.
static zero_status choose(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                          bool attribute, bool wanted, zr_chat_value *out)
{
    zr_chat_value *items, tested, result;
    size_t count;
    if (attribute && !v->count)
        return zr_rendering_fail(r, "the name of an attribute is missing");
    ZERO_TRY(iterate_if_true(r, self, &items, &count));
    ZERO_TRY(new_list(r, ZR_KIND_GENERATOR, count, out));
    for (size_t i = 0; i < count; i++) {
        tested = items[i];
        if (attribute)
            ZERO_TRY(zr_attribute_of(r, &items[i], &v->at[0], &tested));
        result = tested;
        if (v->count > attribute)
            ZERO_TRY(apply_named(r, false, &tested, v, attribute, &result));
        if (zr_value_is_true(&result) == wanted)
            zr_value_push(out, items[i]);
    }
    return ZERO_OK;
}

static zero_status filter_select(zr_rendering *r, const zr_chat_value *self,
                                 const zr_call_values *v, zr_chat_value *out)
{
    return choose(r, self, v, false, true, out);
}

static zero_status filter_reject(zr_rendering *r, const zr_chat_value *self,
                                 const zr_call_values *v, zr_chat_value *out)
{
    return choose(r, self, v, false, false, out);
}

static zero_status filter_selectattr(zr_rendering *r, const zr_chat_value *self,
                                     const zr_call_values *v, zr_chat_value *out)
{
    return choose(r, self, v, true, true, out);
}

static zero_status filter_rejectattr(zr_rendering *r, const zr_chat_value *self,
                                     const zr_call_values *v, zr_chat_value *out)
{
    return choose(r, self, v, true, false, out);
}

static zero_status filter_batch(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    zr_chat_value *items, row;
    size_t count;
    int64_t width;
    ZERO_TRY(zr_argument_integer(r, &v->at[0], 0, &width));
    if (width < 1)
        return zr_rendering_fail(r, "batch needs a number of items above 0");
    ZERO_TRY(zr_value_iterate(r, self, &items, &count));
    width = ZR_MIN(width, (int64_t)count + (v->at[1].kind == ZR_KIND_MISSING ? 0 : width));
    ZERO_TRY(new_list(r, ZR_KIND_GENERATOR, count, out));
    for (size_t i = 0; i < count; i += (size_t)width) {
        ZERO_TRY(new_list(r, ZR_KIND_LIST, (size_t)width, &row));
        for (size_t k = i; k < i + (size_t)width; k++)
            if (k < count)
                zr_value_push(&row, items[k]);
            else if (v->at[1].kind != ZR_KIND_MISSING && v->at[1].kind != ZR_KIND_NONE)
                zr_value_push(&row, v->at[1]);
        zr_value_push(out, row);
    }
    return ZERO_OK;
}

const zr_builtin zr_filters_list[] = {
    {"length", "", 0, filter_length},
    {"count", "", 0, filter_length},
    {"list", "", 0, filter_list},
    {"reverse", "", 0, filter_reverse},
    {"first", "", 0, filter_first},
    {"last", "", 0, filter_last},
    {"join", "d attribute", 0, filter_join},
    {"items", "", 0, filter_items},
    {"map", NULL, 0, filter_map},
    {"select", NULL, 0, filter_select},
    {"reject", NULL, 0, filter_reject},
    {"selectattr", NULL, 0, filter_selectattr},
    {"rejectattr", NULL, 0, filter_rejectattr},
    {"batch", "linecount fill_with", 1, filter_batch},
    {0},
};
