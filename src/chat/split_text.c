// str.split and str.rsplit.
#include "chat/rendering.h"
#include "chat/unicode_text.h"

#include <string.h>

typedef struct splitting {
    zr_rendering *r;
    const char *data;
    size_t length;
    const zr_chat_value *separator; // NULL: runs of white space
    int64_t most;                   // splits; below 0: any number
    zr_chat_value *parts;
    size_t count, capacity;
} splitting;

static zero_status add_part(splitting *s, size_t from, size_t end)
{
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 8;
        zr_chat_value *parts = zr_value_memory_take(&s->r->memory, capacity * sizeof *parts);
        if (!parts)
            return zr_rendering_no_memory(s->r);
        for (size_t i = 0; i < s->count; i++)
            parts[i] = s->parts[i];
        s->parts = parts;
        s->capacity = capacity;
    }
    s->parts[s->count++] = zr_value_of_text(s->data + from, end - from);
    return zr_rendering_steps(s->r, 1);
}

static bool may_split(const splitting *s) { return s->most < 0 || s->count < (size_t)s->most; }

static zero_status split_at_separator(splitting *s)
{
    size_t at = 0, width = s->separator->text.length;
    while (may_split(s)) {
        size_t next = zr_text_search(s->data, s->length, at, s->separator->text.data, width);
        if (next > s->length)
            break;
        ZERO_TRY(add_part(s, at, next));
        at = next + width;
    }
    return add_part(s, at, s->length);
}

static size_t skip_word(const splitting *s, size_t at)
{
    int32_t code;
    while (at < s->length) {
        size_t bytes = zr_text_next(s->data + at, s->length - at, &code);
        if (zr_text_is_space(code))
            break;
        at += bytes;
    }
    return at;
}

static zero_status split_at_spaces(splitting *s)
{
    size_t at = zr_text_leading_spaces(s->data, s->length);
    while (at < s->length) {
        size_t end = may_split(s) ? skip_word(s, at) : s->length;
        ZERO_TRY(add_part(s, at, end));
        at = end + zr_text_leading_spaces(s->data + end, s->length - end);
    }
    return ZERO_OK;
}

// From the end; the parts come in reverse.
static zero_status split_right_at_separator(splitting *s)
{
    size_t end = s->length, width = s->separator->text.length, at = s->length + 1;
    while (may_split(s) && at-- > 0) {
        if (at + width > end || memcmp(s->data + at, s->separator->text.data, width))
            continue;
        ZERO_TRY(add_part(s, at + width, end));
        end = at;
    }
    return add_part(s, 0, end);
}

static zero_status split_right_at_spaces(splitting *s)
{
    size_t end = s->length - zr_text_trailing_spaces(s->data, s->length);
    while (end > 0) {
        size_t at = may_split(s) ? end : 0;
        while (at > 0 && !zr_text_trailing_spaces(s->data, at))
            at--;
        ZERO_TRY(add_part(s, at, end));
        end = at - zr_text_trailing_spaces(s->data, at);
    }
    return ZERO_OK;
}

static zero_status split(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                         bool right, zr_chat_value *out)
{
    zr_chat_value separator;
    splitting s = {.r = r, .data = self->text.data, .length = self->text.length};
    ZERO_TRY(zr_argument_integer(r, &v->at[1], -1, &s.most));
    if (v->at[0].kind != ZR_KIND_MISSING && v->at[0].kind != ZR_KIND_NONE) {
        ZERO_TRY(zr_argument_text(r, &v->at[0], NULL, &separator));
        s.separator = &separator;
        if (!separator.text.length)
            return zr_rendering_fail(r, "split at an empty text");
    }
    ZERO_TRY(zr_rendering_steps(r, s.length / 16));
    ZERO_TRY(s.separator ? (right ? split_right_at_separator(&s) : split_at_separator(&s))
                         : (right ? split_right_at_spaces(&s) : split_at_spaces(&s)));
    *out = zr_value_new_list(&r->memory, ZR_KIND_LIST, s.count);
    if (out->kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (size_t i = 0; i < s.count; i++) {
        zr_value_push(out, s.parts[right ? s.count - 1 - i : i]);
        out->list->items[i].safe = self->safe;
    }
    return ZERO_OK;
}

zero_status zr_text_split_left(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    return split(r, self, v, false, out);
}

zero_status zr_text_split_right(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    return split(r, self, v, true, out);
}
