// Writes JSON: appends strings and numbers to a buffer, for lines that are written without a tree.
#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append_escaped_char(zr_buffer *out, unsigned char c)
{
    static const char short_forms[][2] = {
        {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}, {'"', '"'}, {'\\', '\\'},
    };
    for (int i = 0; i < ZR_COUNT(short_forms); i++) {
        if (c == (unsigned char)short_forms[i][0]) {
            zr_buffer_printf(out, "\\%c", short_forms[i][1]);
            return;
        }
    }
    if (c < 0x20)
        zr_buffer_printf(out, "\\u%04x", c);
    else
        zr_buffer_append(out, &c, 1);
}

void zr_json_append_string(zr_buffer *out, const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    zr_buffer_append(out, "\"", 1);
    for (size_t i = 0; i < length;) {
        size_t count = zr_utf8_bytes(bytes + i, length - i);
        if (count == 1)
            append_escaped_char(out, bytes[i]);
        else if (count)
            zr_buffer_append(out, bytes + i, count);
        else
            zr_buffer_append(out, "\\ufffd", 6);
        i += count ? count : 1;
    }
    zr_buffer_append(out, "\"", 1);
}

// Replaces the locale's decimal sign, which may have several bytes, with '.'.
static void use_point(char *digits)
{
    char *to = digits;
    for (const char *from = digits; *from;) {
        if (strchr("0123456789+-e", *from)) {
            *to++ = *from++;
            continue;
        }
        *to++ = '.';
        while (*from && !strchr("0123456789+-e", *from))
            from++;
    }
    *to = 0;
}

enum { NAME_BYTES = 128 };

// Takes the first name off a path. Returns the rest; NULL: it was the last.
static const char *next_name(const char *path, char name[NAME_BYTES])
{
    size_t length = strcspn(path, ".");
    snprintf(name, NAME_BYTES, "%.*s", (int)length, path);
    return path[length] ? path + length + 1 : NULL;
}

json_t *zr_json_get(const json_t *root, const char *path)
{
    char name[NAME_BYTES];
    json_t *at = (json_t *)root;
    while (path && at) {
        path = next_name(path, name);
        at = json_object_get(at, name);
    }
    return at;
}

bool zr_json_put(json_t *root, const char *path, json_t *value)
{
    char name[NAME_BYTES];
    json_t *at = root;
    bool good = value != NULL;
    for (path = next_name(path, name); path && good; path = next_name(path, name)) {
        json_t *next = json_object_get(at, name);
        if (!json_is_object(next)) {
            good = json_object_set_new(at, name, json_object()) == 0;
            next = json_object_get(at, name);
        }
        at = next;
    }
    if (good)
        return json_object_set_new(at, name, value) == 0;
    json_decref(value);
    return false;
}

void zr_json_drop(json_t *root, const char *path)
{
    const char *last = strrchr(path, '.');
    char section[NAME_BYTES];
    snprintf(section, sizeof section, "%.*s", last ? (int)(last - path) : 0, path);
    json_t *parent = last ? zr_json_get(root, section) : root;
    json_object_del(parent, last ? last + 1 : path);
}

void zr_json_append_digits(zr_buffer *out, int digits, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%.*g", digits, value);
    use_point(text);
    zr_buffer_printf(out, "%s", text);
}

void zr_json_append_decimals(zr_buffer *out, int decimals, double value)
{
    char text[512]; // DBL_MAX has 309 digits before the point
    snprintf(text, sizeof text, "%.*f", ZR_MIN(decimals, 64), value);
    use_point(text);
    zr_buffer_printf(out, "%s", text);
}

void zr_json_append_double(zr_buffer *out, double value)
{
    if (!isfinite(value)) {
        zr_buffer_append(out, "null", 4);
        return;
    }
    char digits[64];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    use_point(digits);
    // 1.0 stays a real number, and -0.0 keeps its sign
    bool looks_integral = !strpbrk(digits, ".e");
    zr_buffer_printf(out, "%s%s", digits, looks_integral ? ".0" : "");
}
