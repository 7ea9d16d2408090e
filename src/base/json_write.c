// JSON out: strings and numbers appended to a buffer, for lines that are written without a tree.
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes of the UTF-8 character at text[0..length), 0 where it is not one (overlong, surrogate, above U+10FFFF, cut short).
static size_t character_bytes(const unsigned char *text, size_t length)
{
    unsigned char lead = text[0];
    if (lead < 0x80)
        return 1;
    size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || bytes > length)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (lead == 0xe0 && text[1] < 0xa0) || (lead == 0xf0 && text[1] < 0x90);
    bool surrogate = lead == 0xed && text[1] >= 0xa0;
    bool beyond = lead == 0xf4 && text[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : bytes;
}

static void append_ascii(zr_buffer *out, unsigned char c)
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
        size_t count = character_bytes(bytes + i, length - i);
        if (count == 1)
            append_ascii(out, bytes[i]);
        else if (count)
            zr_buffer_append(out, bytes + i, count);
        else
            zr_buffer_append(out, "\\ufffd", 6);
        i += count ? count : 1;
    }
    zr_buffer_append(out, "\"", 1);
}

// Puts '.' for the locale's decimal sign, which may have several bytes.
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
    bool looks_integral = !strpbrk(digits, ".e"); // 1.0 stays a real number, -0.0 keeps its sign
    zr_buffer_printf(out, "%s%s", digits, looks_integral ? ".0" : "");
}
