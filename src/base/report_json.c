// Writes a report as one JSON object.
#include "base/report_items.h"

#include <string.h>

enum { PATH_BYTES = 256 };

typedef struct json_report {
    zr_json_writer w;
    char open[PATH_BYTES]; // the part of a key before its last point whose objects are open
} json_report;

// Returns the bytes of whole names that two paths have in common.
static size_t common_names(const char *a, const char *b)
{
    size_t same = 0;
    for (size_t i = 0;; i++) {
        bool ends = (!a[i] || a[i] == '.') && (!b[i] || b[i] == '.');
        if (ends)
            same = i;
        if (a[i] != b[i] || !a[i])
            return same;
    }
}

// Closes the objects of open names from byte `keep` on.
static void close_names(json_report *j, size_t keep)
{
    for (char *last; strlen(j->open) > keep; *last = 0) {
        zr_json_end(&j->w);
        last = strrchr(j->open, '.');
        last = last ? last : j->open;
    }
}

// Opens the objects of a key's names but the last, and returns the last.
static const char *open_names(json_report *j, const char *key)
{
    const char *last = key ? strrchr(key, '.') : NULL;
    char path[PATH_BYTES] = "";
    if (last)
        snprintf(path, sizeof path, "%.*s", (int)(last - key), key);
    size_t same = common_names(j->open, path);
    close_names(j, same);
    const char *rest = path + same + (path[same] == '.');
    while (*rest) {
        char name[PATH_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "."), rest);
        zr_json_begin_object(&j->w, name);
        rest += strlen(name);
        rest += *rest == '.';
    }
    memcpy(j->open, path, sizeof path);
    return last ? last + 1 : key;
}

static void write_json_value(json_report *j, const zr_heading *field, const zr_value *value)
{
    if (value->kind == ZR_VALUE_ABSENT)
        return;
    const char *key = open_names(j, field->key);
    switch (value->kind) {
    case ZR_VALUE_INTEGER: zr_json_integer(&j->w, key, value->integer); break;
    case ZR_VALUE_REAL:
        if (field->json_decimals == ZR_SHORTEST)
            zr_json_real(&j->w, key, value->real);
        else
            zr_json_fixed(&j->w, key, field->json_decimals, value->real);
        break;
    case ZR_VALUE_FLAG: zr_json_flag(&j->w, key, value->integer != 0); break;
    case ZR_VALUE_TEXT: zr_json_text(&j->w, key, value->text); break;
    case ZR_VALUE_VERBATIM: zr_json_text_of(&j->w, key, value->text, value->length); break;
    case ZR_VALUE_JSON: zr_json_verbatim(&j->w, key, value->json ? value->json : "null"); break;
    default: zr_json_null(&j->w, key); break;
    }
}

// Writes a table as an array of objects. Returns the item that ends it.
static const zr_item *write_json_table(json_report *j, const zr_item *table)
{
    const zr_item *i = table + 1;
    bool in_row = false;
    int column = 0;
    zr_json_begin_array(&j->w, open_names(j, table->field.key));
    j->open[0] = 0;
    for (; i->kind != ZR_ITEM_TABLE_END; i++) {
        if (i->kind == ZR_ITEM_ROW) {
            close_names(j, 0);
            if (in_row)
                zr_json_end(&j->w);
            zr_json_begin_object(&j->w, NULL);
            in_row = true;
            column = 0;
        }
        const zr_heading *of = &table->columns[column];
        if (i->kind == ZR_ITEM_CELL && table->columns[column++].key)
            write_json_value(j, of, &i->value);
    }
    close_names(j, 0);
    if (in_row)
        zr_json_end(&j->w);
    zr_json_end(&j->w);
    return i;
}

static const zr_item *write_json_item(json_report *j, const zr_item *i)
{
    switch (i->kind) {
    case ZR_ITEM_OBJECT:
    case ZR_ITEM_LIST: {
        const char *key = open_names(j, i->field.key);
        if (i->kind == ZR_ITEM_OBJECT)
            zr_json_begin_object(&j->w, key);
        else
            zr_json_begin_array(&j->w, key);
        j->open[0] = 0;
        break;
    }
    case ZR_ITEM_END:
        close_names(j, 0);
        zr_json_end(&j->w);
        break;
    case ZR_ITEM_FIELD:
    case ZR_ITEM_PHRASE:
        if (i->field.key || !i->field.label)
            write_json_value(j, &i->field, &i->value);
        break;
    case ZR_ITEM_TABLE:
        if (i->field.key)
            return write_json_table(j, i);
        while (i->kind != ZR_ITEM_TABLE_END)
            i++;
        break;
    default: break;
    }
    return i;
}

void zr_report_write_json(const zr_report *r, zr_buffer *out)
{
    json_report j = {.w = zr_json_writer_on(out, ZR_JSON_COMPACT)};
    zr_json_begin_object(&j.w, NULL);
    for (const zr_item *i = r->items; i < r->items + r->count; i++)
        i = write_json_item(&j, i);
    close_names(&j, 0);
    zr_json_end(&j.w);
}
