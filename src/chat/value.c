#include "chat/value.h"

#include <string.h>

const char *zr_value_type(const zr_chat_value *v)
{
    static const char *const names[] = {[ZR_KIND_MISSING] = "missing",
                                        [ZR_KIND_UNDEFINED] = "Undefined",
                                        [ZR_KIND_NONE] = "NoneType",
                                        [ZR_KIND_BOOLEAN] = "bool",
                                        [ZR_KIND_INTEGER] = "int",
                                        [ZR_KIND_REAL] = "float",
                                        [ZR_KIND_TEXT] = "str",
                                        [ZR_KIND_LIST] = "list",
                                        [ZR_KIND_TUPLE] = "tuple",
                                        [ZR_KIND_DICT] = "dict",
                                        [ZR_KIND_RANGE] = "range",
                                        [ZR_KIND_VIEW] = "dict_items",
                                        [ZR_KIND_GENERATOR] = "generator",
                                        [ZR_KIND_NAMESPACE] = "Namespace",
                                        [ZR_KIND_FUNCTION] = "function",
                                        [ZR_KIND_METHOD] = "method",
                                        [ZR_KIND_MACRO] = "Macro",
                                        [ZR_KIND_LOOP] = "LoopContext"};
    return v->kind == ZR_KIND_VIEW ? v->list->view : names[v->kind];
}

static size_t count_of_list(const zr_value_list *list)
{
    return list->json ? json_array_size(list->json) : list->count;
}

static size_t count_of_dict(const zr_value_dict *dict)
{
    return dict->json ? json_object_size(dict->json) : dict->count;
}

bool zr_value_is_true(const zr_chat_value *v)
{
    switch (v->kind) {
    case ZR_KIND_MISSING:
    case ZR_KIND_UNDEFINED:
    case ZR_KIND_NONE: return false;
    case ZR_KIND_BOOLEAN: return v->boolean;
    case ZR_KIND_INTEGER: return v->integer != 0;
    case ZR_KIND_REAL: return v->real != 0;
    case ZR_KIND_TEXT: return v->text.length != 0;
    case ZR_KIND_LIST:
    case ZR_KIND_TUPLE:
    case ZR_KIND_VIEW: return count_of_list(v->list) != 0;
    case ZR_KIND_DICT: return count_of_dict(v->dict) != 0;
    case ZR_KIND_RANGE: return v->range->count != 0;
    default: return true;
    }
}

bool zr_value_text_is(const zr_chat_value *v, const char *text)
{
    size_t length = strlen(text);
    return v->kind == ZR_KIND_TEXT && v->text.length == length &&
           !memcmp(v->text.data, text, length);
}

zr_chat_value zr_value_of_json(zr_value_memory *memory, const json_t *json)
{
    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_OBJECT: {
        zr_value_dict *dict = zr_value_memory_take(memory, sizeof *dict);
        if (!dict)
            return (zr_chat_value){.kind = ZR_KIND_MISSING};
        dict->json = json;
        return (zr_chat_value){.kind = ZR_KIND_DICT, .dict = dict};
    }
    case JSON_ARRAY: {
        zr_value_list *list = zr_value_memory_take(memory, sizeof *list);
        if (!list)
            return (zr_chat_value){.kind = ZR_KIND_MISSING};
        list->json = json;
        return (zr_chat_value){.kind = ZR_KIND_LIST, .list = list};
    }
    case JSON_STRING: return zr_value_of_text(json_string_value(json), json_string_length(json));
    case JSON_INTEGER: return zr_value_of_integer(json_integer_value(json));
    case JSON_REAL: return zr_value_of_real(json_real_value(json));
    case JSON_TRUE: return zr_value_of_boolean(true);
    case JSON_FALSE: return zr_value_of_boolean(false);
    default: return zr_value_none();
    }
}

zr_value_list *zr_value_items(zr_value_memory *memory, const zr_chat_value *v)
{
    zr_value_list *list = v->list;
    if (!list->json)
        return list;
    size_t count = json_array_size(list->json);
    zr_chat_value *items = zr_value_memory_take(memory, count * sizeof *items);
    for (size_t i = 0; items && i < count; i++) {
        items[i] = zr_value_of_json(memory, json_array_get(list->json, i));
        if (items[i].kind == ZR_KIND_MISSING)
            return NULL;
    }
    if (!items)
        return NULL;
    *list = (zr_value_list){.items = items, .count = count};
    return list;
}

zr_value_dict *zr_value_members(zr_value_memory *memory, const zr_chat_value *v)
{
    zr_value_dict *dict = v->dict;
    const char *key;
    json_t *value;
    if (!dict->json)
        return dict;
    size_t count = json_object_size(dict->json), at = 0;
    zr_chat_value *keys = zr_value_memory_take(memory, 2 * count * sizeof *keys);
    if (!keys)
        return NULL;
    json_object_foreach((json_t *)dict->json, key, value)
    {
        keys[at] = zr_value_of_text(key, strlen(key));
        keys[count + at] = zr_value_of_json(memory, value);
        if (keys[count + at++].kind == ZR_KIND_MISSING)
            return NULL;
    }
    *dict =
        (zr_value_dict){.keys = keys, .values = keys + count, .count = count, .capacity = count};
    return dict;
}

zr_chat_value zr_value_new_list(zr_value_memory *memory, zr_chat_value_kind kind, size_t count)
{
    zr_value_list *list = zr_value_memory_take(memory, sizeof *list);
    // A product that overflowed would be far above any limit.
    zr_chat_value *items = list && count <= memory->limit / sizeof *items
                               ? zr_value_memory_take(memory, count * sizeof *items)
                               : NULL;
    memory->over |= list && count > memory->limit / sizeof *items;
    if (!items)
        return (zr_chat_value){.kind = ZR_KIND_MISSING};
    list->items = items;
    return (zr_chat_value){.kind = kind, .list = list};
}

zr_chat_value zr_value_new_dict(zr_value_memory *memory, zr_chat_value_kind kind)
{
    zr_value_dict *dict = zr_value_memory_take(memory, sizeof *dict);
    return dict ? (zr_chat_value){.kind = kind, .dict = dict}
                : (zr_chat_value){.kind = ZR_KIND_MISSING};
}

bool zr_value_is_key(const zr_chat_value *v)
{
    bool hashable =
        v->kind != ZR_KIND_LIST && v->kind != ZR_KIND_DICT && v->kind != ZR_KIND_NAMESPACE;
    for (size_t i = 0; v->kind == ZR_KIND_TUPLE && i < v->list->count; i++)
        hashable &=
            v->list->items[i].kind != ZR_KIND_LIST && v->list->items[i].kind != ZR_KIND_DICT;
    return hashable;
}

// Whether two keys are equal; those of tuples compare by their scalar items.
static bool same_key(const zr_chat_value *a, const zr_chat_value *b)
{
    if (zr_value_is_number(a) && zr_value_is_number(b))
        return zr_value_is_integer(a) && zr_value_is_integer(b)
                   ? zr_value_integer(a) == zr_value_integer(b)
                   : zr_value_real(a) == zr_value_real(b);
    if (a->kind != b->kind)
        return false;
    if (a->kind == ZR_KIND_TEXT)
        return a->text.length == b->text.length &&
               !memcmp(a->text.data, b->text.data, a->text.length);
    if (a->kind != ZR_KIND_TUPLE)
        return a->kind == ZR_KIND_NONE || a->kind == ZR_KIND_UNDEFINED || a->list == b->list;
    bool same = a->list->count == b->list->count;
    for (size_t i = 0; same && i < a->list->count; i++) {
        const zr_chat_value *x = &a->list->items[i], *y = &b->list->items[i];
        same = x->kind == ZR_KIND_TUPLE ? x->kind == y->kind && x->list == y->list : same_key(x, y);
    }
    return same;
}

const zr_chat_value *zr_value_find(const zr_value_dict *dict, const zr_chat_value *key)
{
    for (size_t i = 0; i < dict->count; i++)
        if (same_key(&dict->keys[i], key))
            return &dict->values[i];
    return NULL;
}

bool zr_value_put(zr_value_memory *memory, zr_value_dict *dict, const zr_chat_value *key,
                  const zr_chat_value *value)
{
    zr_chat_value *there = (zr_chat_value *)zr_value_find(dict, key);
    if (there) {
        *there = *value;
        return true;
    }
    if (dict->count == dict->capacity) {
        size_t capacity = dict->capacity ? 2 * dict->capacity : 8;
        zr_chat_value *keys = zr_value_memory_take(memory, 2 * capacity * sizeof *keys);
        if (!keys)
            return false;
        memcpy(keys, dict->keys ? dict->keys : keys, dict->count * sizeof *keys);
        memcpy(keys + capacity, dict->values ? dict->values : keys, dict->count * sizeof *keys);
        *dict = (zr_value_dict){
            .keys = keys, .values = keys + capacity, .count = dict->count, .capacity = capacity};
    }
    dict->keys[dict->count] = *key;
    dict->values[dict->count++] = *value;
    return true;
}
