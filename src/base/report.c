// Builds a report: items in the order in which they were added.
#include "base/report_items.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

zr_report *zr_report_create(zero_error *error) { return zr_alloc(sizeof(zr_report), error); }

void zr_report_destroy(zr_report *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->string_count; i++)
        zr_free(r->strings[i]);
    zr_free(r->strings);
    zr_free(r->items);
    zr_free(r);
}

static char *copy_text(const char *text, size_t length)
{
    char *copy = zr_alloc(length + 1, NULL);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

static const char *keep_bytes(zr_report *r, const char *text, size_t length)
{
    if (!text || r->failed)
        return NULL;
    char **grown =
        zr_list_grow(r->strings, r->string_count, &r->string_capacity, sizeof *grown, NULL);
    char *copy = grown ? copy_text(text, length) : NULL;
    r->strings = grown ? grown : r->strings;
    if (copy)
        r->strings[r->string_count++] = copy;
    else
        r->failed = ZERO_ERR_MEMORY;
    return copy;
}

static const char *keep_string(zr_report *r, const char *text)
{
    return keep_bytes(r, text, text ? strlen(text) : 0);
}

static void add_item(zr_report *r, zr_item what)
{
    if (!r || r->failed)
        return;
    zr_item *grown = zr_list_grow(r->items, r->count, &r->capacity, sizeof *grown, NULL);
    if (!grown) {
        r->failed = ZERO_ERR_MEMORY;
        return;
    }
    r->items = grown;
    what.field.key = keep_string(r, what.field.key);
    what.field.label = keep_string(r, what.field.label);
    what.value.text = what.value.kind == ZR_VALUE_VERBATIM
                          ? keep_bytes(r, what.value.text, what.value.length)
                          : keep_string(r, what.value.text);
    what.value.json = keep_string(r, what.value.json);
    r->items[r->count++] = what;
}

static void fail_unless(zr_report *r, bool holds)
{
    if (r && !r->failed && !holds)
        r->failed = ZERO_ERR_USAGE;
}

static void begin_part(zr_report *r, zr_item what)
{
    fail_unless(r, r && r->columns == 0);
    add_item(r, what);
    if (r)
        r->open++;
}

void zr_report_begin(zr_report *r, const char *key)
{
    begin_part(r, (zr_item){.kind = ZR_ITEM_OBJECT, .field.key = key});
}

void zr_report_begin_list(zr_report *r, const char *key)
{
    begin_part(r, (zr_item){.kind = ZR_ITEM_LIST, .field.key = key});
}

static void end_part(zr_report *r, zr_item_kind kind)
{
    fail_unless(r, r && r->open > 0 && (r->columns > 0) == (kind == ZR_ITEM_TABLE_END));
    add_item(r, (zr_item){.kind = kind});
    if (r) {
        r->open--;
        r->columns = 0;
    }
}

void zr_report_end(zr_report *r) { end_part(r, ZR_ITEM_END); }

static void add_field(zr_report *r, zr_item_kind kind, const zr_heading *field, zr_value value)
{
    fail_unless(r, r && r->columns == 0);
    add_item(r, (zr_item){.kind = kind, .field = *field, .value = value});
}

void zr_report_field(zr_report *r, const zr_heading *field, zr_value value)
{
    add_field(r, ZR_ITEM_FIELD, field, value);
}

void zr_report_phrase(zr_report *r, const zr_heading *field, zr_value value)
{
    add_field(r, ZR_ITEM_PHRASE, field, value);
}

void zr_report_json_only(zr_report *r, const char *key, zr_value value)
{
    zr_report_field(r, &(zr_heading){.key = key}, value);
}

void zr_report_labels(zr_report *r, int width)
{
    add_item(r, (zr_item){.kind = ZR_ITEM_LABELS, .count = width});
}

void zr_report_indent(zr_report *r, int spaces)
{
    add_item(r, (zr_item){.kind = ZR_ITEM_INDENT, .count = spaces});
}

void zr_report_json_line(zr_report *r, int spaces)
{
    add_item(r, (zr_item){.kind = ZR_ITEM_JSON_LINE, .count = spaces});
}

static void add_words(zr_report *r, zr_item what, const char *format, va_list arguments)
{
    zr_buffer text = {0};
    zr_buffer_vprintf(&text, format, arguments);
    fail_unless(r, !text.failed);
    what.value = zr_text(text.failed ? "" : text.data);
    add_item(r, what);
    zr_buffer_free(&text);
}

void zr_report_line(zr_report *r, const char *label, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_words(r, (zr_item){.kind = ZR_ITEM_LINE, .field.label = label}, format, arguments);
    va_end(arguments);
}

void zr_report_words(zr_report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_words(r, (zr_item){.kind = ZR_ITEM_WORDS}, format, arguments);
    va_end(arguments);
}

void zr_report_table(zr_report *r, const char *key, const zr_heading *columns, int count)
{
    fail_unless(r, count > 0);
    begin_part(
        r, (zr_item){.kind = ZR_ITEM_TABLE, .field.key = key, .columns = columns, .count = count});
    if (r) {
        r->columns = count;
        r->at = count; // no cell before the first row
    }
}

void zr_report_row(zr_report *r)
{
    fail_unless(r, r && r->columns > 0);
    add_item(r, (zr_item){.kind = ZR_ITEM_ROW});
    if (r)
        r->at = 0;
}

void zr_report_cell(zr_report *r, zr_value value)
{
    fail_unless(r, r && r->at < r->columns);
    add_item(r, (zr_item){.kind = ZR_ITEM_CELL, .value = value});
    if (r)
        r->at++;
}

void zr_report_cell_text(zr_report *r, const char *format, ...)
{
    zr_buffer text = {0};
    va_list arguments;
    va_start(arguments, format);
    zr_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    fail_unless(r, !text.failed);
    zr_report_cell(r, zr_text(text.failed ? "" : text.data));
    zr_buffer_free(&text);
}

void zr_report_end_table(zr_report *r) { end_part(r, ZR_ITEM_TABLE_END); }

zero_status zr_report_write(const zr_report *r, zr_report_kind kind, int width, zr_buffer *out,
                            zero_error *error)
{
    if (!r)
        return ZERO_ERR_MEMORY; // said by zr_report_create
    if (r->failed == ZERO_ERR_MEMORY)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for an answer");
    if (r->failed || r->open > 0)
        return zr_fail(error, ZERO_ERR_USAGE, "an answer was built wrongly: %s",
                       r->failed ? "a cell without a column" : "a part has no end");
    if (kind == ZR_REPORT_JSON)
        zr_report_write_json(r, out);
    else
        zr_report_write_text(r, kind, width, out);
    return out->failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for an answer") : ZERO_OK;
}

void zr_report_finish(zr_report *r, zr_report_kind kind, int width, zr_buffer *out)
{
    out->failed |= zr_report_write(r, kind, width, out, NULL) != ZERO_OK;
    zr_report_destroy(r);
}

zero_status zr_report_print(zr_report *r, bool json, void (*write)(void *user, const char *text),
                            void *user, zero_error *error)
{
    zr_buffer out = {0};
    zero_status status = zr_report_write(r, json ? ZR_REPORT_JSON : ZR_REPORT_TEXT, 0, &out, error);
    if (json)
        zr_buffer_printf(&out, "\n");
    if (status == ZERO_OK && out.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for an answer");
    if (status == ZERO_OK && out.length)
        write(user, out.data);
    zr_buffer_free(&out);
    zr_report_destroy(r);
    return status;
}
