// Changes of texts that methods and filters share.
#include "chat/rendering.h"
#include "chat/unicode_text.h"

#include <string.h>

// Ends a text that was made of `self`.
static zero_status finish(zr_rendering *r, zr_buffer *text, const zr_chat_value *self,
                          zr_chat_value *out)
{
    bool safe = self->safe;
    ZERO_TRY(zr_text_of_buffer(r, text, out));
    out->safe = safe;
    return ZERO_OK;
}

// Appends the small letter of the character at text[at..after). A capital sigma at the end of a
// word has another one than elsewhere.
static void append_lower(zr_buffer *out, const zr_chat_value *self, size_t at, size_t after,
                         int32_t code)
{
    const char *data = self->text.data;
    int32_t before = 0, next = 0;
    size_t previous = at;
    if (code == 0x3a3) {
        while (previous > 0 && ((unsigned char)data[--previous] & 0xc0) == 0x80)
            ;
        if (at > 0)
            zr_text_next(data + previous, at - previous, &before);
        if (after < self->text.length)
            zr_text_next(data + after, self->text.length - after, &next);
        if (zr_text_has_case(before) && !zr_text_has_case(next))
            code = 0x3c2;
    }
    zr_text_append_case(out, code, ZR_CASE_LOWER);
}

zero_status zr_text_change_case(zr_rendering *r, const zr_chat_value *self, bool upper,
                                zr_chat_value *out)
{
    zr_buffer text = {0};
    int32_t code;
    ZERO_TRY(zr_rendering_steps(r, self->text.length / 16));
    for (size_t at = 0; at < self->text.length;) {
        size_t after = at + zr_text_next(self->text.data + at, self->text.length - at, &code);
        if (upper)
            zr_text_append_case(&text, code, ZR_CASE_UPPER);
        else
            append_lower(&text, self, at, after, code);
        at = after;
    }
    return finish(r, &text, self, out);
}

zero_status zr_text_capitalize(zr_rendering *r, const zr_chat_value *self, zr_chat_value *out)
{
    zr_buffer text = {0};
    int32_t code;
    ZERO_TRY(zr_rendering_steps(r, self->text.length / 16));
    for (size_t at = 0; at < self->text.length;) {
        size_t after = at + zr_text_next(self->text.data + at, self->text.length - at, &code);
        if (at == 0)
            zr_text_append_case(&text, code, ZR_CASE_TITLE);
        else
            append_lower(&text, self, at, after, code);
        at = after;
    }
    return finish(r, &text, self, out);
}

static bool is_stripped(const char *character, size_t bytes, int32_t code,
                        const zr_chat_value *characters)
{
    if (characters->kind != ZR_KIND_TEXT)
        return zr_text_is_space(code);
    return zr_text_search(characters->text.data, characters->text.length, 0, character, bytes) <=
           characters->text.length;
}

zero_status zr_text_strip(zr_rendering *r, const zr_chat_value *self,
                          const zr_chat_value *characters, int sides, zr_chat_value *out)
{
    const char *data = self->text.data;
    size_t from = 0, end = self->text.length, bytes;
    int32_t code;
    if (characters->kind != ZR_KIND_MISSING && characters->kind != ZR_KIND_NONE &&
        characters->kind != ZR_KIND_TEXT)
        return zr_rendering_fail(r, "strip needs a text, not a %s", zr_value_type(characters));
    for (; (sides & 1) && from < end; from += bytes) {
        bytes = zr_text_next(data + from, end - from, &code);
        if (!is_stripped(data + from, bytes, code, characters))
            break;
    }
    while ((sides & 2) && end > from) {
        size_t at = end - 1;
        while (at > from && ((unsigned char)data[at] & 0xc0) == 0x80)
            at--;
        zr_text_next(data + at, end - at, &code);
        if (!is_stripped(data + at, end - at, code, characters))
            break;
        end = at;
    }
    *out = zr_value_of_text(data + from, end - from);
    out->safe = self->safe;
    return zr_rendering_steps(r, (self->text.length - (end - from)) / 16);
}

// Replaces an empty text: puts `to` before each character and at the end.
static void replace_nothing(const zr_chat_value *self, const zr_chat_value *to, int64_t most,
                            zr_buffer *text)
{
    size_t at = 0;
    for (;; most--) {
        if (most > 0)
            zr_buffer_append(text, to->text.data, to->text.length);
        if (at == self->text.length)
            return;
        size_t bytes = zr_text_step(self->text.data + at, self->text.length - at);
        zr_buffer_append(text, self->text.data + at, bytes);
        at += bytes;
    }
}

zero_status zr_text_replace(zr_rendering *r, const zr_chat_value *self, const zr_chat_value *from,
                            const zr_chat_value *to, int64_t most, zr_chat_value *out)
{
    zr_buffer text = {0};
    const char *data = self->text.data;
    size_t at = 0, length = self->text.length, pieces = length / ZR_MAX(from->text.length, 1) + 1;
    most = most < 0 ? INT64_MAX : most;
    ZERO_TRY(zr_rendering_steps(r, length / 16));
    if (to->text.length && pieces > r->memory.limit / to->text.length) {
        // Only then is it worth knowing how many there are.
        pieces = 0;
        for (size_t i = 0; from->text.length && i <= length; pieces++)
            i = zr_text_search(data, length, i, from->text.data, from->text.length) +
                from->text.length;
        r->memory.over = !from->text.length || pieces > r->memory.limit / to->text.length;
        if (r->memory.over)
            return zr_rendering_no_memory(r);
    }
    if (!from->text.length)
        replace_nothing(self, to, most, &text);
    while (from->text.length) {
        size_t next = most-- > 0
                          ? zr_text_search(data, length, at, from->text.data, from->text.length)
                          : length + 1;
        bool found = next <= length;
        zr_buffer_append(&text, data + at, (found ? next : length) - at);
        if (!found)
            break;
        zr_buffer_append(&text, to->text.data, to->text.length);
        at = next + from->text.length;
    }
    return finish(r, &text, self, out);
}

// Line ends of str.splitlines.
static bool is_line_end(int32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

zero_status zr_text_split_lines(zr_rendering *r, const zr_chat_value *self, bool keep,
                                zr_chat_value *out)
{
    const char *data = self->text.data;
    size_t length = self->text.length, count = 0, start = 0;
    int32_t code;
    for (size_t at = 0; at < length;) {
        at += zr_text_next(data + at, length - at, &code);
        count += is_line_end(code);
    }
    ZERO_TRY(zr_rendering_steps(r, count + length / 16));
    *out = zr_value_new_list(&r->memory, ZR_KIND_LIST, count + 1);
    if (out->kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (size_t at = 0; at < length;) {
        size_t end = at;
        at += zr_text_next(data + at, length - at, &code);
        if (!is_line_end(code) && at < length)
            continue;
        end = is_line_end(code) ? end : at;
        if (code == '\r' && at < length && data[at] == '\n')
            at++;
        zr_value_push(out, zr_value_of_text(data + start, (keep ? at : end) - start));
        start = at;
    }
    return ZERO_OK;
}

zero_status zr_text_join(zr_rendering *r, const zr_chat_value *between, const zr_chat_value *items,
                         size_t count, zr_chat_value *out)
{
    zr_buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        if (i)
            zr_buffer_append(&text, between->text.data, between->text.length);
        zr_buffer_append(&text, items[i].text.data, items[i].text.length);
        if (text.length > r->memory.limit) {
            zr_buffer_free(&text);
            r->memory.over = true;
            return zr_rendering_no_memory(r);
        }
    }
    return zr_text_of_buffer(r, &text, out);
}
