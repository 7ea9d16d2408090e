// Methods of texts: Python's, as far as templates use them.
#include "chat/rendering.h"
#include "chat/unicode_text.h"

#include <string.h>

static zero_status text_upper(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    return zr_text_change_case(r, self, true, out);
}

static zero_status text_lower(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    return zr_text_change_case(r, self, false, out);
}

static zero_status text_capitalize(zr_rendering *r, const zr_chat_value *self,
                                   const zr_call_values *v, zr_chat_value *out)
{
    return zr_text_capitalize(r, self, out);
}

// Words are runs of letters that have a case.
static zero_status text_title(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    zr_buffer text = {0};
    bool within = false;
    int32_t code;
    ZERO_TRY(zr_rendering_steps(r, self->text.length / 16));
    for (size_t at = 0; at < self->text.length;) {
        at += zr_text_next(self->text.data + at, self->text.length - at, &code);
        zr_text_append_case(&text, code, within ? ZR_CASE_LOWER : ZR_CASE_TITLE);
        within = zr_text_has_case(code);
    }
    return zr_text_of_buffer(r, &text, out);
}

static zero_status text_strip(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    return zr_text_strip(r, self, &v->at[0], 3, out);
}

static zero_status text_lstrip(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    return zr_text_strip(r, self, &v->at[0], 1, out);
}

static zero_status text_rstrip(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    return zr_text_strip(r, self, &v->at[0], 2, out);
}

static bool begins(const zr_chat_value *text, const zr_chat_value *part, bool at_end)
{
    size_t length = part->text.length;
    return text->text.length >= length &&
           !memcmp(text->text.data + (at_end ? text->text.length - length : 0), part->text.data,
                   length);
}

// Whether the text begins (ends) with a text, or with one of a tuple.
static zero_status test_border(zr_rendering *r, const zr_chat_value *self,
                               const zr_chat_value *part, bool at_end, zr_chat_value *out)
{
    bool found = false;
    size_t count = part->kind == ZR_KIND_TUPLE ? part->list->count : 1;
    for (size_t i = 0; !found && i < count; i++) {
        const zr_chat_value *one = part->kind == ZR_KIND_TUPLE ? &part->list->items[i] : part;
        if (one->kind != ZR_KIND_TEXT)
            return zr_rendering_fail(r, "%s needs a text, not a %s",
                                     at_end ? "endswith" : "startswith", zr_value_type(one));
        found = begins(self, one, at_end);
    }
    *out = zr_value_of_boolean(found);
    return ZERO_OK;
}

static zero_status text_startswith(zr_rendering *r, const zr_chat_value *self,
                                   const zr_call_values *v, zr_chat_value *out)
{
    return test_border(r, self, &v->at[0], false, out);
}

static zero_status text_endswith(zr_rendering *r, const zr_chat_value *self,
                                 const zr_call_values *v, zr_chat_value *out)
{
    return test_border(r, self, &v->at[0], true, out);
}

static zero_status remove_border(zr_rendering *r, const zr_chat_value *self,
                                 const zr_chat_value *part, bool at_end, zr_chat_value *out)
{
    zr_chat_value text;
    ZERO_TRY(zr_argument_text(r, part, NULL, &text));
    *out = *self;
    if (!begins(self, &text, at_end))
        return ZERO_OK;
    out->text.data += at_end ? 0 : text.text.length;
    out->text.length -= text.text.length;
    return ZERO_OK;
}

static zero_status text_removeprefix(zr_rendering *r, const zr_chat_value *self,
                                     const zr_call_values *v, zr_chat_value *out)
{
    return remove_border(r, self, &v->at[0], false, out);
}

static zero_status text_removesuffix(zr_rendering *r, const zr_chat_value *self,
                                     const zr_call_values *v, zr_chat_value *out)
{
    return remove_border(r, self, &v->at[0], true, out);
}

static zero_status text_replace(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    zr_chat_value from, to;
    int64_t most;
    ZERO_TRY(zr_argument_text(r, &v->at[0], NULL, &from));
    ZERO_TRY(zr_argument_text(r, &v->at[1], NULL, &to));
    ZERO_TRY(zr_argument_integer(r, &v->at[2], -1, &most));
    return zr_text_replace(r, self, &from, &to, most, out);
}

static size_t find_last(const zr_chat_value *self, const zr_chat_value *part)
{
    size_t length = self->text.length, width = part->text.length;
    for (size_t at = length + 1; at-- > 0;)
        if (at + width <= length && !memcmp(self->text.data + at, part->text.data, width))
            return at;
    return length + 1;
}

static zero_status find_part(zr_rendering *r, const zr_chat_value *self,
                             const zr_chat_value *wanted, bool last, int64_t *out)
{
    zr_chat_value part;
    ZERO_TRY(zr_argument_text(r, wanted, NULL, &part));
    ZERO_TRY(zr_rendering_steps(r, self->text.length / 16));
    size_t at = last ? find_last(self, &part)
                     : zr_text_search(self->text.data, self->text.length, 0, part.text.data,
                                      part.text.length);
    *out = at > self->text.length ? -1 : (int64_t)zr_text_count(self->text.data, at);
    return ZERO_OK;
}

static zero_status text_find(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                             zr_chat_value *out)
{
    int64_t at;
    ZERO_TRY(find_part(r, self, &v->at[0], false, &at));
    *out = zr_value_of_integer(at);
    return ZERO_OK;
}

static zero_status text_rfind(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    int64_t at;
    ZERO_TRY(find_part(r, self, &v->at[0], true, &at));
    *out = zr_value_of_integer(at);
    return ZERO_OK;
}

static zero_status text_index(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    int64_t at;
    ZERO_TRY(find_part(r, self, &v->at[0], false, &at));
    *out = zr_value_of_integer(at);
    return at < 0 ? zr_rendering_fail(r, "index of what is not in the text") : ZERO_OK;
}

static zero_status text_count(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    zr_chat_value part;
    int64_t count = 0;
    ZERO_TRY(zr_argument_text(r, &v->at[0], NULL, &part));
    ZERO_TRY(zr_rendering_steps(r, self->text.length / 16));
    size_t at = 0, length = self->text.length;
    if (!part.text.length)
        count = (int64_t)zr_text_count(self->text.data, length) + 1;
    else
        for (; (at = zr_text_search(self->text.data, length, at, part.text.data,
                                    part.text.length)) <= length;
             at += part.text.length)
            count++;
    *out = zr_value_of_integer(count);
    return ZERO_OK;
}

static zero_status text_join(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                             zr_chat_value *out)
{
    zr_chat_value *items;
    size_t count;
    ZERO_TRY(zr_value_iterate(r, &v->at[0], &items, &count));
    ZERO_TRY(zr_rendering_steps(r, count));
    for (size_t i = 0; i < count; i++)
        if (items[i].kind != ZR_KIND_TEXT)
            return zr_rendering_fail(r, "join needs texts, and item %zu is a %s", i,
                                     zr_value_type(&items[i]));
    return zr_text_join(r, self, items, count, out);
}

static zero_status text_splitlines(zr_rendering *r, const zr_chat_value *self,
                                   const zr_call_values *v, zr_chat_value *out)
{
    return zr_text_split_lines(r, self, zr_argument_boolean(&v->at[0], false), out);
}

static zero_status test_class(zr_rendering *r, const zr_chat_value *self, zr_text_class which,
                              zr_chat_value *out)
{
    bool all = self->text.length != 0;
    int32_t code;
    ZERO_TRY(zr_rendering_steps(r, self->text.length / 16));
    for (size_t at = 0; all && at < self->text.length;) {
        at += zr_text_next(self->text.data + at, self->text.length - at, &code);
        all = zr_text_is(code, which);
    }
    *out = zr_value_of_boolean(all);
    return ZERO_OK;
}

static zero_status text_isspace(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    return test_class(r, self, ZR_CLASS_SPACE, out);
}

static zero_status text_isdigit(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    return test_class(r, self, ZR_CLASS_DIGIT, out);
}

static zero_status text_isalpha(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    return test_class(r, self, ZR_CLASS_ALPHA, out);
}

const zr_builtin zr_methods_text[] = {
    {"strip", "chars", 0, text_strip},
    {"lstrip", "chars", 0, text_lstrip},
    {"rstrip", "chars", 0, text_rstrip},
    {"startswith", "prefix", 1, text_startswith},
    {"endswith", "suffix", 1, text_endswith},
    {"removeprefix", "prefix", 1, text_removeprefix},
    {"removesuffix", "suffix", 1, text_removesuffix},
    {"split", "sep maxsplit", 0, zr_text_split_left},
    {"rsplit", "sep maxsplit", 0, zr_text_split_right},
    {"splitlines", "keepends", 0, text_splitlines},
    {"replace", "old new count", 2, text_replace},
    {"find", "sub", 1, text_find},
    {"rfind", "sub", 1, text_rfind},
    {"index", "sub", 1, text_index},
    {"count", "sub", 1, text_count},
    {"join", "iterable", 1, text_join},
    {"upper", "", 0, text_upper},
    {"lower", "", 0, text_lower},
    {"capitalize", "", 0, text_capitalize},
    {"title", "", 0, text_title},
    {"isspace", "", 0, text_isspace},
    {"isdigit", "", 0, text_isdigit},
    {"isalpha", "", 0, text_isalpha},
    {0},
};
