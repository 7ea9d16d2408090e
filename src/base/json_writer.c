#include "base/json_writer.h"

#include <math.h>
#include <string.h>

zr_json_writer zr_json_writer_on(zr_buffer *out, zr_json_style style)
{
    return (zr_json_writer){.out = out, .style = style, .line = -1};
}

void zr_json_line(zr_json_writer *w, int spaces) { w->line = spaces; }

static void put_line(zr_json_writer *w)
{
    if (w->line >= 0)
        zr_buffer_printf(w->out, "\n%*s", w->line, "");
    w->line = -1;
}

// Writes what stands before a value: the comma, the new line, the key.
static void begin_item(zr_json_writer *w, const char *key)
{
    const char *space = w->style == ZR_JSON_COMPACT ? "" : " ";
    bool inside = w->depth > 0;
    if (w->style == ZR_JSON_INDENTED && w->depth == 1)
        w->line = 2;
    if (inside && w->has_item[w->depth - 1])
        zr_buffer_printf(w->out, ",%s", w->line < 0 ? space : "");
    put_line(w);
    bool wants_key = inside && !w->array[w->depth - 1];
    if (wants_key != (key != NULL))
        w->out->failed = true;
    if (key) {
        zr_json_append_string(w->out, key, strlen(key));
        zr_buffer_printf(w->out, ":%s", space);
    }
    if (inside)
        w->has_item[w->depth - 1] = true;
}

static void begin_container(zr_json_writer *w, const char *key, bool array)
{
    begin_item(w, key);
    if (w->depth >= ZR_JSON_MAX_DEPTH) {
        w->out->failed = true;
        return;
    }
    w->array[w->depth] = array;
    w->has_item[w->depth++] = false;
    zr_buffer_printf(w->out, array ? "[" : "{");
}

void zr_json_begin_object(zr_json_writer *w, const char *key) { begin_container(w, key, false); }

void zr_json_begin_array(zr_json_writer *w, const char *key) { begin_container(w, key, true); }

void zr_json_end(zr_json_writer *w)
{
    if (w->depth == 0) {
        w->out->failed = true;
        return;
    }
    if (w->style == ZR_JSON_INDENTED && w->depth == 1)
        w->line = 0;
    put_line(w);
    zr_buffer_printf(w->out, w->array[--w->depth] ? "]" : "}");
}

void zr_json_finish(zr_json_writer *w)
{
    while (w->depth)
        zr_json_end(w);
    zr_buffer_append(w->out, "\n", 1);
}

void zr_json_integer(zr_json_writer *w, const char *key, int64_t value)
{
    begin_item(w, key);
    zr_buffer_printf(w->out, "%lld", (long long)value);
}

void zr_json_integers(zr_json_writer *w, const char *key, const int64_t *values, int count)
{
    zr_json_begin_array(w, key);
    for (int i = 0; i < count; i++)
        zr_json_integer(w, NULL, values[i]);
    zr_json_end(w);
}

void zr_json_real(zr_json_writer *w, const char *key, double value)
{
    begin_item(w, key);
    zr_json_append_double(w->out, value);
}

void zr_json_fixed(zr_json_writer *w, const char *key, int decimals, double value)
{
    begin_item(w, key);
    if (isfinite(value))
        zr_json_append_decimals(w->out, decimals, value);
    else
        zr_buffer_printf(w->out, "null");
}

void zr_json_digits(zr_json_writer *w, const char *key, int digits, double value)
{
    begin_item(w, key);
    if (isfinite(value))
        zr_json_append_digits(w->out, digits, value);
    else
        zr_buffer_printf(w->out, "null");
}

void zr_json_flag(zr_json_writer *w, const char *key, bool value)
{
    zr_json_verbatim(w, key, value ? "true" : "false");
}

void zr_json_null(zr_json_writer *w, const char *key) { zr_json_verbatim(w, key, "null"); }

void zr_json_text(zr_json_writer *w, const char *key, const char *value)
{
    if (value)
        zr_json_text_of(w, key, value, strlen(value));
    else
        zr_json_null(w, key);
}

void zr_json_text_of(zr_json_writer *w, const char *key, const char *value, size_t length)
{
    begin_item(w, key);
    zr_json_append_string(w->out, value, length);
}

void zr_json_verbatim(zr_json_writer *w, const char *key, const char *json)
{
    begin_item(w, key);
    zr_buffer_append(w->out, json, strlen(json));
}
