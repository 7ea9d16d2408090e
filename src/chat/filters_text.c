// Filters of texts. What they are applied to becomes a text first.
#include "chat/rendering.h"
#include "chat/unicode_text.h"

#include <string.h>

static zero_status filter_string(zr_rendering *r, const zr_chat_value *self,
                                 const zr_call_values *v, zr_chat_value *out)
{
    return zr_value_to_text(r, self, out);
}

static zero_status filter_safe(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    ZERO_TRY(zr_value_to_text(r, self, out));
    out->safe = true;
    return ZERO_OK;
}

static zero_status filter_trim(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                               zr_chat_value *out)
{
    zr_chat_value text;
    ZERO_TRY(zr_value_to_text(r, self, &text));
    return zr_text_strip(r, &text, &v->at[0], 3, out);
}

static zero_status filter_upper(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    zr_chat_value text;
    ZERO_TRY(zr_value_to_text(r, self, &text));
    return zr_text_change_case(r, &text, true, out);
}

static zero_status filter_lower(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    zr_chat_value text;
    ZERO_TRY(zr_value_to_text(r, self, &text));
    return zr_text_change_case(r, &text, false, out);
}

static zero_status filter_capitalize(zr_rendering *r, const zr_chat_value *self,
                                     const zr_call_values *v, zr_chat_value *out)
{
    zr_chat_value text;
    ZERO_TRY(zr_value_to_text(r, self, &text));
    return zr_text_capitalize(r, &text, out);
}

// Jinja's own words: they begin after white space and after - ( { [ <.
static zero_status filter_title(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    zr_chat_value text;
    zr_buffer made = {0};
    bool begins = true;
    int32_t code;
    ZERO_TRY(zr_value_to_text(r, self, &text));
    ZERO_TRY(zr_rendering_steps(r, text.text.length / 16));
    for (size_t at = 0; at < text.text.length;) {
        at += zr_text_next(text.text.data + at, text.text.length - at, &code);
        zr_text_append_case(&made, code, begins ? ZR_CASE_UPPER : ZR_CASE_LOWER);
        begins = zr_text_is_space(code) || (code && code < 128 && strchr("-({[<", code));
    }
    return zr_text_of_buffer(r, &made, out);
}

static zero_status filter_replace(zr_rendering *r, const zr_chat_value *self,
                                  const zr_call_values *v, zr_chat_value *out)
{
    zr_chat_value text, from, to;
    int64_t most;
    ZERO_TRY(zr_value_to_text(r, self, &text));
    ZERO_TRY(zr_value_to_text(r, &v->at[0], &from));
    ZERO_TRY(zr_value_to_text(r, &v->at[1], &to));
    ZERO_TRY(zr_argument_integer(r, &v->at[2], -1, &most));
    text.safe = false;
    return zr_text_replace(r, &text, &from, &to, most, out);
}

// Makes the text that a line begins with, from a number of spaces or a text.
static zero_status make_indent(zr_rendering *r, const zr_chat_value *width, zr_chat_value *out)
{
    zr_chat_value space = zr_value_of_text(" ", 1), times;
    int64_t count;
    *out = *width;
    if (width->kind == ZR_KIND_TEXT)
        return ZERO_OK;
    ZERO_TRY(zr_argument_integer(r, width, 4, &count));
    times = zr_value_of_integer(count);
    return zr_operate(r, ZR_OP_MULTIPLY, &space, &times, out);
}

static zero_status filter_indent(zr_rendering *r, const zr_chat_value *self,
                                 const zr_call_values *v, zr_chat_value *out)
{
    zr_chat_value indent, line, lines, end = zr_value_of_text("\n", 1), text = *self;
    bool first = zr_argument_boolean(&v->at[1], false),
         blank = zr_argument_boolean(&v->at[2], false);
    if (self->kind != ZR_KIND_TEXT)
        return zr_rendering_fail(r, "indent of a %s", zr_value_type(self));
    ZERO_TRY(make_indent(r, &v->at[0], &indent));
    ZERO_TRY(zr_operate(r, ZR_OP_ADD, &text, &end, &line));
    ZERO_TRY(zr_text_split_lines(r, &line, false, &lines));
    zr_value_list *list = lines.list;
    for (size_t i = 0; i < list->count; i++) {
        zr_chat_value plain = list->items[i];
        bool indents = i ? blank || plain.text.length : first;
        if (indents)
            ZERO_TRY(zr_operate(r, ZR_OP_ADD, &indent, &plain, &list->items[i]));
    }
    return zr_text_join(r, &end, list->items, list->count, out);
}

const zr_builtin zr_filters_text[] = {
    {"string", "", 0, filter_string},
    {"safe", "", 0, filter_safe},
    {"trim", "chars", 0, filter_trim},
    {"upper", "", 0, filter_upper},
    {"lower", "", 0, filter_lower},
    {"capitalize", "", 0, filter_capitalize},
    {"title", "", 0, filter_title},
    {"replace", "old new count", 2, filter_replace},
    {"indent", "width first blank", 0, filter_indent},
    {0},
};
