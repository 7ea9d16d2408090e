// x.name, x[key], x[from:to:step]. As in Jinja, what is not there is undefined, and an error only
// for what is undefined itself; x.name looks for a method of Python's before a key.
#include "chat/rendering.h"
#include "chat/unicode_text.h"

#include <string.h>

static zero_status fail_undefined(zr_rendering *r, const zr_chat_value *of,
                                  const zr_chat_value *name)
{
    if (name && name->kind == ZR_KIND_TEXT)
        return zr_rendering_fail(r, "\"%.*s\" is undefined, and \"%.*s\" is asked of it",
                                 (int)of->text.length, of->text.data, (int)name->text.length,
                                 name->text.data);
    return zr_rendering_fail(r, "\"%.*s\" is undefined, and an item is asked of it",
                             (int)of->text.length, of->text.data);
}

static zr_chat_value undefined_key(const zr_chat_value *key)
{
    return key->kind == ZR_KIND_TEXT ? zr_value_undefined(key->text.data, key->text.length)
                                     : zr_value_undefined("an item", 7);
}

// Finds a method that an object of Python has; the value is MISSING if there is none.
static zero_status get_method(zr_rendering *r, const zr_chat_value *of, const zr_chat_value *name,
                              zr_chat_value *out)
{
    const zr_builtin *builtin = zr_method_find(of->kind, name);
    *out = (zr_chat_value){.kind = ZR_KIND_MISSING};
    if (!builtin)
        return ZERO_OK;
    *out = undefined_key(name);
    if (!builtin->call)
        return ZERO_OK;
    zr_method_value *method = zr_value_memory_take(&r->memory, sizeof *method);
    if (!method)
        return zr_rendering_no_memory(r);
    *method = (zr_method_value){.self = *of, .builtin = builtin};
    *out = (zr_chat_value){.kind = ZR_KIND_METHOD, .method = method};
    return ZERO_OK;
}

static zero_status find_member(zr_rendering *r, const zr_chat_value *of, const zr_chat_value *key,
                               zr_chat_value *out)
{
    *out = (zr_chat_value){.kind = ZR_KIND_MISSING};
    zr_value_dict *dict = zr_value_members(&r->memory, of);
    if (!dict)
        return zr_rendering_no_memory(r);
    ZERO_TRY(zr_rendering_steps(r, dict->count / 16));
    const zr_chat_value *value = zr_value_is_key(key) ? zr_value_find(dict, key) : NULL;
    if (value)
        *out = *value;
    return ZERO_OK;
}

static zero_status get_own_attribute(zr_rendering *r, const zr_chat_value *of,
                                     const zr_chat_value *name, zr_chat_value *out)
{
    if (of->kind == ZR_KIND_LOOP)
        return zr_loop_attribute(r, of->loop, name, out);
    if (of->kind == ZR_KIND_NAMESPACE)
        return find_member(r, of, name, out);
    return get_method(r, of, name, out);
}

zero_status zr_get_attribute(zr_rendering *r, const zr_chat_value *of, const zr_chat_value *name,
                             zr_chat_value *out)
{
    if (of->kind == ZR_KIND_UNDEFINED)
        return fail_undefined(r, of, name);
    ZERO_TRY(get_own_attribute(r, of, name, out));
    if (out->kind == ZR_KIND_MISSING && of->kind == ZR_KIND_DICT)
        ZERO_TRY(find_member(r, of, name, out));
    if (out->kind == ZR_KIND_MISSING)
        *out = undefined_key(name);
    return ZERO_OK;
}

// Turns an index from the end, below 0, into one from the beginning. Returns false outside.
static bool place_index(int64_t index, int64_t count, size_t *out)
{
    index += index < 0 ? count : 0;
    *out = (size_t)index;
    return index >= 0 && index < count;
}

static zr_chat_value character_at(const zr_chat_value *text, size_t index)
{
    size_t at = zr_text_offset(text->text.data, text->text.length, index);
    zr_chat_value out = zr_value_of_text(
        text->text.data + at, zr_text_step(text->text.data + at, text->text.length - at));
    out.safe = text->safe;
    return out;
}

// Gets an item by its number; the value is MISSING if there is none.
static zero_status get_by_number(zr_rendering *r, const zr_chat_value *of, int64_t index,
                                 zr_chat_value *out)
{
    size_t at;
    *out = (zr_chat_value){.kind = ZR_KIND_MISSING};
    if (of->kind == ZR_KIND_TEXT) {
        size_t count = zr_text_count(of->text.data, of->text.length);
        ZERO_TRY(zr_rendering_steps(r, of->text.length / 64));
        if (place_index(index, (int64_t)count, &at))
            *out = character_at(of, at);
    } else if (of->kind == ZR_KIND_LIST || of->kind == ZR_KIND_TUPLE) {
        const zr_value_list *list = zr_value_items(&r->memory, of);
        if (!list)
            return zr_rendering_no_memory(r);
        if (place_index(index, (int64_t)list->count, &at))
            *out = list->items[at];
    } else if (of->kind == ZR_KIND_RANGE && place_index(index, of->range->count, &at)) {
        *out = zr_value_of_integer(of->range->start + (int64_t)at * of->range->step);
    }
    return ZERO_OK;
}

zero_status zr_get_item(zr_rendering *r, const zr_chat_value *of, const zr_chat_value *key,
                        zr_chat_value *out)
{
    *out = (zr_chat_value){.kind = ZR_KIND_MISSING};
    if (of->kind == ZR_KIND_UNDEFINED)
        return fail_undefined(r, of, key);
    if (of->kind == ZR_KIND_DICT)
        ZERO_TRY(find_member(r, of, key, out));
    else if (zr_value_is_integer(key))
        ZERO_TRY(get_by_number(r, of, zr_value_integer(key), out));
    if (out->kind == ZR_KIND_MISSING && key->kind == ZR_KIND_TEXT)
        ZERO_TRY(get_own_attribute(r, of, key, out));
    if (out->kind == ZR_KIND_MISSING)
        *out = undefined_key(key);
    return ZERO_OK;
}

typedef struct slice {
    int64_t from, to, step, count;
} slice;

static int64_t limit_to(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

// Python's slice.indices.
static zero_status resolve_slice(zr_rendering *r, const zr_chat_value *part, int64_t length,
                                 slice *out)
{
    for (int i = 0; i < 3; i++)
        if (part[i].kind != ZR_KIND_NONE && !zr_value_is_integer(&part[i]))
            return zr_rendering_fail(r, "a slice with a %s for a number", zr_value_type(&part[i]));
    int64_t step = part[2].kind == ZR_KIND_NONE ? 1 : zr_value_integer(&part[2]);
    if (!step)
        return zr_rendering_fail(r, "a slice with a step of 0");
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
    int64_t ends[2] = {step < 0 ? high : low, step < 0 ? low : high};
    for (int i = 0; i < 2; i++)
        if (part[i].kind != ZR_KIND_NONE) {
            int64_t at = zr_value_integer(&part[i]);
            ends[i] = limit_to(at < 0 ? ZR_MAX(at, -length - 1) + length : at, low, high);
        }
    step = limit_to(step, -length - 1, length + 1); // no farther than the end
    int64_t way = step < 0 ? ends[0] - ends[1] : ends[1] - ends[0],
            stride = step < 0 ? -step : step;
    *out = (slice){ends[0], ends[1], step, way > 0 ? (way - 1) / stride + 1 : 0};
    return ZERO_OK;
}

static zero_status slice_list(zr_rendering *r, const zr_chat_value *of, const slice *s,
                              zr_chat_value *out)
{
    const zr_value_list *list = zr_value_items(&r->memory, of);
    zr_chat_value result = zr_value_new_list(&r->memory, of->kind, (size_t)s->count);
    if (!list || result.kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (int64_t i = 0; i < s->count; i++)
        zr_value_push(&result, list->items[s->from + i * s->step]);
    *out = result;
    return ZERO_OK;
}

// A text of single steps lies in the old one; any other is put together.
static zero_status slice_text(zr_rendering *r, const zr_chat_value *of, const slice *s,
                              zr_chat_value *out)
{
    const char *data = of->text.data;
    size_t length = of->text.length, at = zr_text_offset(data, length, (size_t)s->from), used = 0;
    if (s->step == 1 || !s->count) {
        size_t bytes = zr_text_offset(data + at, length - at, (size_t)s->count);
        *out = zr_value_of_text(data + at, bytes);
        return ZERO_OK;
    }
    char *text = zr_value_memory_text(&r->memory, NULL, 0, length);
    if (!text)
        return zr_rendering_no_memory(r);
    for (int64_t i = 0; i < s->count; i++) {
        size_t bytes = zr_text_step(data + at, length - at);
        memcpy(text + used, data + at, bytes);
        used += bytes;
        for (int64_t k = 0; i + 1 < s->count && k < s->step; k++)
            at += zr_text_step(data + at, length - at);
        for (int64_t k = 0; i + 1 < s->count && k < -s->step; k++)
            do
                at--;
            while (((unsigned char)data[at] & 0xc0) == 0x80);
    }
    *out = zr_value_of_text(text, used);
    return ZERO_OK;
}

static zero_status slice_range(zr_rendering *r, const zr_chat_value *of, const slice *s,
                               zr_chat_value *out)
{
    zr_value_range *range = zr_value_memory_take(&r->memory, sizeof *range);
    if (!range)
        return zr_rendering_no_memory(r);
    // An end that no item has may lie outside of 64 bits; it wraps.
    uint64_t start = (uint64_t)of->range->start, step = (uint64_t)of->range->step;
    *range = (zr_value_range){.start = (int64_t)(start + (uint64_t)s->from * step),
                              .step = (int64_t)(step * (uint64_t)s->step),
                              .count = s->count,
                              .stop = (int64_t)(start + (uint64_t)s->to * step)};
    *out = (zr_chat_value){.kind = ZR_KIND_RANGE, .range = range};
    return ZERO_OK;
}

zero_status zr_get_slice(zr_rendering *r, const zr_chat_value *of, const zr_chat_value *part,
                         zr_chat_value *out)
{
    slice s = {0};
    int64_t length;
    bool can = of->kind == ZR_KIND_TEXT || of->kind == ZR_KIND_LIST || of->kind == ZR_KIND_TUPLE ||
               of->kind == ZR_KIND_RANGE;
    if (of->kind == ZR_KIND_UNDEFINED)
        return fail_undefined(r, of, NULL);
    if (!can)
        return zr_rendering_fail(r, "a slice of a %s", zr_value_type(of));
    ZERO_TRY(zr_value_length(r, of, &length));
    ZERO_TRY(resolve_slice(r, part, length, &s));
    ZERO_TRY(zr_rendering_steps(r, (size_t)s.count / 16));
    ZERO_TRY(of->kind == ZR_KIND_TEXT    ? slice_text(r, of, &s, out)
             : of->kind == ZR_KIND_RANGE ? slice_range(r, of, &s, out)
                                         : slice_list(r, of, &s, out));
    if (of->kind == ZR_KIND_TEXT)
        out->safe = of->safe;
    return ZERO_OK;
}
