// What values have in common in Python: items, length, equality, order, and sorting.
#include "chat/rendering.h"
#include "chat/unicode_text.h"

#include <string.h>

enum { UNORDERED = 2 }; // of a comparison with a NaN

static zero_status iterate_text(zr_rendering *r, const zr_chat_value *v, zr_chat_value **items,
                                size_t *count)
{
    *count = zr_text_count(v->text.data, v->text.length);
    ZERO_TRY(zr_rendering_steps(r, *count));
    *items = zr_value_memory_take(&r->memory, *count * sizeof **items);
    if (!*items)
        return zr_rendering_no_memory(r);
    for (size_t at = 0, i = 0; at < v->text.length && i < *count; i++) {
        size_t bytes = zr_text_step(v->text.data + at, v->text.length - at);
        (*items)[i] = zr_value_of_text(v->text.data + at, bytes);
        at += bytes;
    }
    return ZERO_OK;
}

static zero_status iterate_range(zr_rendering *r, const zr_chat_value *v, zr_chat_value **items,
                                 size_t *count)
{
    *count = (size_t)v->range->count;
    ZERO_TRY(zr_rendering_steps(r, *count));
    *items = zr_value_memory_take(&r->memory, *count * sizeof **items);
    if (!*items)
        return zr_rendering_no_memory(r);
    for (size_t i = 0; i < *count; i++)
        (*items)[i] = zr_value_of_integer(v->range->start + (int64_t)i * v->range->step);
    return ZERO_OK;
}

zero_status zr_value_iterate(zr_rendering *r, const zr_chat_value *v, zr_chat_value **items,
                             size_t *count)
{
    zr_value_list *list = NULL;
    zr_value_dict *dict = NULL;
    *items = NULL;
    *count = 0;
    switch (v->kind) {
    case ZR_KIND_UNDEFINED: return ZERO_OK;
    case ZR_KIND_TEXT: return iterate_text(r, v, items, count);
    case ZR_KIND_RANGE: return iterate_range(r, v, items, count);
    case ZR_KIND_LIST:
    case ZR_KIND_TUPLE:
    case ZR_KIND_VIEW:
    case ZR_KIND_GENERATOR: list = zr_value_items(&r->memory, v); break;
    case ZR_KIND_DICT: dict = zr_value_members(&r->memory, v); break;
    default: return zr_rendering_fail(r, "a %s has no items", zr_value_type(v));
    }
    if (!list && !dict)
        return zr_rendering_no_memory(r);
    *items = list ? list->items : dict->keys;
    *count = list ? (list->used ? 0 : list->count) : dict->count;
    if (v->kind == ZR_KIND_GENERATOR)
        list->used = true;
    return ZERO_OK;
}

zero_status zr_value_length(zr_rendering *r, const zr_chat_value *v, int64_t *length)
{
    zr_chat_value *items;
    size_t count = 0;
    switch (v->kind) {
    case ZR_KIND_TEXT:
        ZERO_TRY(zr_rendering_steps(r, v->text.length / 64));
        count = zr_text_count(v->text.data, v->text.length);
        break;
    case ZR_KIND_RANGE: count = (size_t)v->range->count; break;
    case ZR_KIND_UNDEFINED:
    case ZR_KIND_LIST:
    case ZR_KIND_TUPLE:
    case ZR_KIND_VIEW:
    case ZR_KIND_DICT: ZERO_TRY(zr_value_iterate(r, v, &items, &count)); break;
    default: return zr_rendering_fail(r, "a %s has no length", zr_value_type(v));
    }
    *length = (int64_t)count;
    return ZERO_OK;
}

static zero_status equal_lists(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                               bool *equal)
{
    const zr_value_list *left = zr_value_items(&r->memory, a),
                        *right = zr_value_items(&r->memory, b);
    if (!left || !right)
        return zr_rendering_no_memory(r);
    *equal = left->count == right->count;
    ZERO_TRY(zr_rendering_enter(r));
    for (size_t i = 0; *equal && i < left->count; i++)
        ZERO_TRY(zr_value_equal(r, &left->items[i], &right->items[i], equal));
    r->levels--;
    return ZERO_OK;
}

static zero_status equal_dicts(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                               bool *equal)
{
    const zr_value_dict *left = zr_value_members(&r->memory, a),
                        *right = zr_value_members(&r->memory, b);
    if (!left || !right)
        return zr_rendering_no_memory(r);
    *equal = left->count == right->count;
    ZERO_TRY(zr_rendering_enter(r));
    for (size_t i = 0; *equal && i < left->count; i++) {
        ZERO_TRY(zr_rendering_steps(r, right->count / 16));
        const zr_chat_value *other = zr_value_find(right, &left->keys[i]);
        *equal = other != NULL;
        if (other)
            ZERO_TRY(zr_value_equal(r, &left->values[i], other, equal));
    }
    r->levels--;
    return ZERO_OK;
}

zero_status zr_value_equal(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                           bool *equal)
{
    *equal = false;
    ZERO_TRY(zr_rendering_steps(r, 1));
    if (zr_value_is_number(a) && zr_value_is_number(b)) {
        *equal = zr_value_is_integer(a) && zr_value_is_integer(b)
                     ? zr_value_integer(a) == zr_value_integer(b)
                     : zr_value_real(a) == zr_value_real(b);
        return ZERO_OK;
    }
    if (a->kind != b->kind)
        return ZERO_OK;
    switch (a->kind) {
    case ZR_KIND_UNDEFINED:
    case ZR_KIND_NONE: *equal = true; return ZERO_OK;
    case ZR_KIND_TEXT:
        ZERO_TRY(zr_rendering_steps(r, a->text.length / 256));
        *equal =
            a->text.length == b->text.length && !memcmp(a->text.data, b->text.data, a->text.length);
        return ZERO_OK;
    case ZR_KIND_LIST:
    case ZR_KIND_TUPLE: return equal_lists(r, a, b, equal);
    case ZR_KIND_DICT: return equal_dicts(r, a, b, equal);
    case ZR_KIND_RANGE:
        *equal = a->range->count == b->range->count &&
                 (!a->range->count || (a->range->start == b->range->start &&
                                       (a->range->count == 1 || a->range->step == b->range->step)));
        return ZERO_OK;
    default: *equal = a->list == b->list; return ZERO_OK;
    }
}

static int sign_of(bool less, bool greater) { return greater - less; }

static zero_status compare_lists(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                                 const char *name, int *sign)
{
    const zr_value_list *left = zr_value_items(&r->memory, a),
                        *right = zr_value_items(&r->memory, b);
    if (!left || !right)
        return zr_rendering_no_memory(r);
    size_t count = ZR_MIN(left->count, right->count);
    *sign = sign_of(left->count<right->count, left->count> right->count);
    ZERO_TRY(zr_rendering_enter(r));
    for (size_t i = 0; i < count; i++) {
        bool equal;
        ZERO_TRY(zr_value_equal(r, &left->items[i], &right->items[i], &equal));
        if (equal)
            continue;
        ZERO_TRY(zr_value_compare(r, &left->items[i], &right->items[i], name, sign));
        break;
    }
    r->levels--;
    return ZERO_OK;
}

// UTF-8 is in the order of code points.
static int compare_texts(const zr_chat_value *a, const zr_chat_value *b)
{
    int order = memcmp(a->text.data, b->text.data, ZR_MIN(a->text.length, b->text.length));
    return order ? sign_of(order<0, order> 0)
                 : sign_of(a->text.length<b->text.length, a->text.length> b->text.length);
}

zero_status zr_value_compare(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                             const char *name, int *sign)
{
    ZERO_TRY(zr_rendering_steps(r, 1));
    if (zr_value_is_integer(a) && zr_value_is_integer(b)) {
        int64_t x = zr_value_integer(a), y = zr_value_integer(b);
        *sign = sign_of(x<y, x> y);
        return ZERO_OK;
    }
    if (zr_value_is_number(a) && zr_value_is_number(b)) {
        double x = zr_value_real(a), y = zr_value_real(b);
        *sign = x != x || y != y ? UNORDERED : sign_of(x<y, x> y);
        return ZERO_OK;
    }
    if (a->kind == b->kind && a->kind == ZR_KIND_TEXT) {
        *sign = compare_texts(a, b);
        return zr_rendering_steps(r, a->text.length / 256);
    }
    if (a->kind == b->kind && (a->kind == ZR_KIND_LIST || a->kind == ZR_KIND_TUPLE))
        return compare_lists(r, a, b, name, sign);
    return zr_rendering_fail(r, "%s between %s and %s", name, zr_value_type(a), zr_value_type(b));
}

static zero_status contains_text(zr_rendering *r, const zr_chat_value *whole,
                                 const zr_chat_value *part, bool *contains)
{
    if (part->kind != ZR_KIND_TEXT)
        return zr_rendering_fail(r, "\"in\" of a text needs a text, not a %s", zr_value_type(part));
    *contains = zr_text_search(whole->text.data, whole->text.length, 0, part->text.data,
                               part->text.length) <= whole->text.length;
    return zr_rendering_steps(r, whole->text.length / 64);
}

zero_status zr_value_contains(zr_rendering *r, const zr_chat_value *whole,
                              const zr_chat_value *part, bool *contains)
{
    zr_chat_value *items;
    size_t count;
    *contains = false;
    if (whole->kind == ZR_KIND_TEXT)
        return contains_text(r, whole, part, contains);
    ZERO_TRY(zr_value_iterate(r, whole, &items, &count));
    if (whole->kind == ZR_KIND_DICT && !zr_value_is_key(part))
        return zr_rendering_fail(r, "a %s cannot be a key", zr_value_type(part));
    for (size_t i = 0; !*contains && i < count; i++)
        ZERO_TRY(zr_value_equal(r, &items[i], part, contains));
    return ZERO_OK;
}

typedef struct sorting {
    zr_chat_value *keys, *values, *other_keys, *other_values;
    bool reverse;
    zr_value_order *order;
} sorting;

// Merges keys[from, middle) and keys[middle, end) into the other arrays. Reversed, equal ones stay
// in their order, too.
static zero_status merge(zr_rendering *r, sorting *s, size_t from, size_t middle, size_t end)
{
    size_t a = from, b = middle;
    for (size_t i = from; i < end; i++) {
        bool second = a == middle;
        if (a < middle && b < end) {
            int sign;
            ZERO_TRY(s->order(r, &s->keys[b], &s->keys[a], &sign));
            second = s->reverse ? sign == 1 : sign == -1;
        }
        size_t taken = second ? b++ : a++;
        s->other_keys[i] = s->keys[taken];
        s->other_values[i] = s->values[taken];
    }
    return ZERO_OK;
}

zero_status zr_value_sort(zr_rendering *r, zr_chat_value *keys, zr_chat_value *values, size_t count,
                          bool reverse, zr_value_order *order)
{
    zr_chat_value *room = zr_value_memory_take(&r->memory, 2 * count * sizeof *room);
    sorting s = {keys, values, room, room + count, reverse, order};
    if (!room)
        return zr_rendering_no_memory(r);
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t from = 0; from < count; from += 2 * width)
            ZERO_TRY(
                merge(r, &s, from, ZR_MIN(from + width, count), ZR_MIN(from + 2 * width, count)));
        s = (sorting){s.other_keys, s.other_values, s.keys, s.values, reverse, order};
    }
    if (s.keys != keys && count) {
        memcpy(keys, s.keys, count * sizeof *keys);
        memcpy(values, s.values, count * sizeof *values);
    }
    return ZERO_OK;
}
