// Values as texts: str(), repr(), and transformers' tojson.
#include "chat/rendering.h"
#include "chat/unicode_text.h"

#include <math.h>
#include <string.h>

// Appends a string as repr writes it.
static void append_quoted(const zr_chat_value *v, zr_buffer *out)
{
    bool has_single = memchr(v->text.data, '\'', v->text.length) != NULL,
         has_double = memchr(v->text.data, '"', v->text.length) != NULL;
    char quote = has_single && !has_double ? '"' : '\'';
    static const char names[] = "\\\n\r\t", letters[] = "\\nrt";
    zr_buffer_append(out, &quote, 1);
    for (size_t at = 0, bytes; at < v->text.length; at += bytes) {
        int32_t code;
        bytes = zr_text_next(v->text.data + at, v->text.length - at, &code);
        const char *name = code && code < 128 ? strchr(names, code) : NULL;
        if (code == quote)
            zr_buffer_printf(out, "\\%c", quote);
        else if (name)
            zr_buffer_printf(out, "\\%c", letters[name - names]);
        else if (zr_text_is_printable(code))
            zr_buffer_append(out, v->text.data + at, bytes);
        else
            zr_buffer_printf(out,
                             code < 0x100     ? "\\x%02x"
                             : code < 0x10000 ? "\\u%04x"
                                              : "\\U%08x",
                             (unsigned)code);
    }
    zr_buffer_append(out, &quote, 1);
}

static zero_status append_list(zr_rendering *r, const zr_chat_value *v, const char *open,
                               const char *close, zr_buffer *out)
{
    const zr_value_list *list = zr_value_items(&r->memory, v);
    if (!list)
        return zr_rendering_no_memory(r);
    zr_buffer_printf(out, "%s", open);
    for (size_t i = 0; i < list->count; i++) {
        zr_buffer_printf(out, "%s", i ? ", " : "");
        ZERO_TRY(zr_value_append_text(r, &list->items[i], true, out));
    }
    bool single = v->kind == ZR_KIND_TUPLE && list->count == 1;
    zr_buffer_printf(out, "%s%s", single ? "," : "", close);
    return ZERO_OK;
}

static zero_status append_dict(zr_rendering *r, const zr_chat_value *v, zr_buffer *out)
{
    const zr_value_dict *dict = zr_value_members(&r->memory, v);
    if (!dict)
        return zr_rendering_no_memory(r);
    zr_buffer_printf(out, "%s{", v->kind == ZR_KIND_NAMESPACE ? "<Namespace " : "");
    for (size_t i = 0; i < dict->count; i++) {
        zr_buffer_printf(out, "%s", i ? ", " : "");
        ZERO_TRY(zr_value_append_text(r, &dict->keys[i], true, out));
        zr_buffer_printf(out, ": ");
        ZERO_TRY(zr_value_append_text(r, &dict->values[i], true, out));
    }
    zr_buffer_printf(out, "}%s", v->kind == ZR_KIND_NAMESPACE ? ">" : "");
    return ZERO_OK;
}

static zero_status append_view(zr_rendering *r, const zr_chat_value *v, zr_buffer *out)
{
    zr_buffer_printf(out, "%s(", v->list->view);
    ZERO_TRY(append_list(r, v, "[", "]", out));
    zr_buffer_printf(out, ")");
    return ZERO_OK;
}

static void append_range(const zr_value_range *range, zr_buffer *out)
{
    zr_buffer_printf(out, "range(%lld, %lld", (long long)range->start, (long long)range->stop);
    if (range->step != 1)
        zr_buffer_printf(out, ", %lld", (long long)range->step);
    zr_buffer_printf(out, ")");
}

static zero_status append_by_kind(zr_rendering *r, const zr_chat_value *v, bool quoted,
                                  zr_buffer *out)
{
    switch (v->kind) {
    case ZR_KIND_UNDEFINED:
        if (quoted)
            zr_buffer_printf(out, "Undefined");
        return ZERO_OK;
    case ZR_KIND_NONE: zr_buffer_printf(out, "None"); return ZERO_OK;
    case ZR_KIND_BOOLEAN: zr_buffer_printf(out, v->boolean ? "True" : "False"); return ZERO_OK;
    case ZR_KIND_INTEGER: zr_buffer_printf(out, "%lld", (long long)v->integer); return ZERO_OK;
    case ZR_KIND_REAL: zr_text_append_real(out, v->real); return ZERO_OK;
    case ZR_KIND_TEXT:
        if (quoted)
            append_quoted(v, out);
        else
            zr_buffer_append(out, v->text.data, v->text.length);
        return ZERO_OK;
    case ZR_KIND_LIST: return append_list(r, v, "[", "]", out);
    case ZR_KIND_TUPLE: return append_list(r, v, "(", ")", out);
    case ZR_KIND_NAMESPACE:
    case ZR_KIND_DICT: return append_dict(r, v, out);
    case ZR_KIND_VIEW: return append_view(r, v, out);
    case ZR_KIND_RANGE: append_range(v->range, out); return ZERO_OK;
    default:
        return zr_rendering_fail(r, "a %s is written, which has no text that stays the same",
                                 zr_value_type(v));
    }
}

// Checks that a text under construction is no larger than what a template may write.
static zero_status check_size(zr_rendering *r, const zr_buffer *out)
{
    return out->length > r->most_output
               ? zr_rendering_fail(r, "it makes a text of more than %zu bytes", r->most_output)
               : ZERO_OK;
}

zero_status zr_value_append_text(zr_rendering *r, const zr_chat_value *v, bool quoted,
                                 zr_buffer *out)
{
    ZERO_TRY(zr_rendering_enter(r));
    ZERO_TRY(append_by_kind(r, v, quoted, out));
    ZERO_TRY(check_size(r, out));
    r->levels--;
    return ZERO_OK;
}

zero_status zr_value_to_text(zr_rendering *r, const zr_chat_value *v, zr_chat_value *out)
{
    zr_buffer text = {0};
    *out = *v;
    if (v->kind == ZR_KIND_TEXT)
        return ZERO_OK;
    zero_status status = zr_value_append_text(r, v, false, &text);
    if (status == ZERO_OK)
        return zr_text_of_buffer(r, &text, out);
    zr_buffer_free(&text);
    return status;
}

static void append_json_unit(unsigned unit, zr_buffer *out)
{
    zr_buffer_printf(out, "\\u%04x", unit);
}

static void append_json_text(const zr_chat_value *v, bool ascii, zr_buffer *out)
{
    static const char names[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    zr_buffer_append(out, "\"", 1);
    size_t plain = 0; // where the text that needs no escape begins
    for (size_t at = 0, bytes; at < v->text.length; at += bytes) {
        int32_t code;
        bytes = zr_text_next(v->text.data + at, v->text.length - at, &code);
        const char *name = code && code < 128 ? strchr(names, code) : NULL;
        if (!name && code >= 32 && !(ascii && code > 126))
            continue;
        zr_buffer_append(out, v->text.data + plain, at - plain);
        plain = at + bytes;
        if (name) {
            zr_buffer_printf(out, "\\%c", letters[name - names]);
        } else if (code >= 0x10000) {
            append_json_unit(0xd800 + ((unsigned)(code - 0x10000) >> 10), out);
            append_json_unit(0xdc00 + ((unsigned)(code - 0x10000) & 0x3ff), out);
        } else {
            append_json_unit((unsigned)code, out);
        }
    }
    zr_buffer_append(out, v->text.data + plain, v->text.length - plain);
    zr_buffer_append(out, "\"", 1);
}

static void append_json_real(double value, zr_buffer *out)
{
    if (isnan(value))
        zr_buffer_printf(out, "NaN");
    else if (isinf(value))
        zr_buffer_printf(out, value < 0 ? "-Infinity" : "Infinity");
    else
        zr_text_append_real(out, value);
}

static void append_line(const zr_tojson_form *form, int level, zr_buffer *out)
{
    if (!form->indent)
        return;
    zr_buffer_append(out, "\n", 1);
    for (int i = 0; i < level; i++)
        zr_buffer_append(out, form->indent, form->indent_length);
}

static void append_separator(const zr_chat_value *separator, zr_buffer *out)
{
    zr_buffer_append(out, separator->text.data, separator->text.length);
}

static zero_status append_json_list(zr_rendering *r, const zr_chat_value *v,
                                    const zr_tojson_form *form, int level, zr_buffer *out)
{
    const zr_value_list *list = zr_value_items(&r->memory, v);
    if (!list)
        return zr_rendering_no_memory(r);
    zr_buffer_append(out, "[", 1);
    for (size_t i = 0; i < list->count; i++) {
        if (i)
            append_separator(&form->item_separator, out);
        append_line(form, level + 1, out);
        ZERO_TRY(zr_value_append_json(r, &list->items[i], form, level + 1, out));
    }
    if (list->count)
        append_line(form, level, out);
    zr_buffer_append(out, "]", 1);
    return ZERO_OK;
}

// A key is a text, or what JSON writes of a number, true, false or null, in quotes.
static zero_status append_json_key(zr_rendering *r, const zr_chat_value *key,
                                   const zr_tojson_form *form, zr_buffer *out)
{
    bool plain = key->kind == ZR_KIND_NONE || zr_value_is_number(key);
    if (key->kind == ZR_KIND_TEXT)
        return zr_value_append_json(r, key, form, 0, out);
    if (!plain)
        return zr_rendering_fail(r, "tojson: a key that is a %s", zr_value_type(key));
    zr_buffer_append(out, "\"", 1);
    ZERO_TRY(zr_value_append_json(r, key, form, 0, out));
    zr_buffer_append(out, "\"", 1);
    return ZERO_OK;
}

static zero_status order_keys(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                              int *sign)
{
    return zr_value_compare(r, a, b, "<", sign);
}

// Copies the members in the order of their keys.
static zero_status sort_members(zr_rendering *r, const zr_value_dict *dict, zr_value_dict *out)
{
    *out = (zr_value_dict){.count = dict->count};
    out->keys = zr_value_memory_take(&r->memory, 2 * dict->count * sizeof *out->keys);
    if (!out->keys)
        return zr_rendering_no_memory(r);
    out->values = out->keys + dict->count;
    for (size_t i = 0; i < dict->count; i++) {
        out->keys[i] = dict->keys[i];
        out->values[i] = dict->values[i];
    }
    return zr_value_sort(r, out->keys, out->values, out->count, false, order_keys);
}

static zero_status append_json_dict(zr_rendering *r, const zr_chat_value *v,
                                    const zr_tojson_form *form, int level, zr_buffer *out)
{
    const zr_value_dict *dict = zr_value_members(&r->memory, v);
    zr_value_dict sorted;
    if (!dict)
        return zr_rendering_no_memory(r);
    if (form->sorted) {
        ZERO_TRY(sort_members(r, dict, &sorted));
        dict = &sorted;
    }
    zr_buffer_append(out, "{", 1);
    for (size_t i = 0; i < dict->count; i++) {
        if (i)
            append_separator(&form->item_separator, out);
        append_line(form, level + 1, out);
        ZERO_TRY(append_json_key(r, &dict->keys[i], form, out));
        append_separator(&form->key_separator, out);
        ZERO_TRY(zr_value_append_json(r, &dict->values[i], form, level + 1, out));
    }
    if (dict->count)
        append_line(form, level, out);
    zr_buffer_append(out, "}", 1);
    return ZERO_OK;
}

static zero_status append_json_kind(zr_rendering *r, const zr_chat_value *v,
                                    const zr_tojson_form *form, int level, zr_buffer *out)
{
    switch (v->kind) {
    case ZR_KIND_NONE: zr_buffer_printf(out, "null"); return ZERO_OK;
    case ZR_KIND_BOOLEAN: zr_buffer_printf(out, v->boolean ? "true" : "false"); return ZERO_OK;
    case ZR_KIND_INTEGER: zr_buffer_printf(out, "%lld", (long long)v->integer); return ZERO_OK;
    case ZR_KIND_REAL: append_json_real(v->real, out); return ZERO_OK;
    case ZR_KIND_TEXT: append_json_text(v, form->ascii, out); return ZERO_OK;
    case ZR_KIND_LIST:
    case ZR_KIND_TUPLE: return append_json_list(r, v, form, level, out);
    case ZR_KIND_DICT: return append_json_dict(r, v, form, level, out);
    case ZR_KIND_UNDEFINED:
        return zr_rendering_fail(r, "tojson of \"%.*s\", which is undefined", (int)v->text.length,
                                 v->text.data);
    default: return zr_rendering_fail(r, "tojson of a %s", zr_value_type(v));
    }
}

zero_status zr_value_append_json(zr_rendering *r, const zr_chat_value *v,
                                 const zr_tojson_form *form, int level, zr_buffer *out)
{
    ZERO_TRY(zr_rendering_enter(r));
    ZERO_TRY(append_json_kind(r, v, form, level, out));
    ZERO_TRY(check_size(r, out));
    r->levels--;
    return ZERO_OK;
}
