#define _GNU_SOURCE // memmem
#include "chat/unicode_text.h"
#include "base/json.h"
#include "base/text.h"
#include "tokenizer/vocabulary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

size_t zr_text_step(const char *text, size_t left)
{
    unsigned char c = (unsigned char)*text;
    size_t bytes = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return ZR_MIN(bytes, left);
}

size_t zr_text_next(const char *text, size_t left, int32_t *code)
{
    int bytes = zr_utf8_next(text, left, code);
    if (bytes)
        return (size_t)bytes;
    *code = 0xfffd;
    return 1;
}

size_t zr_text_put(char *out, int32_t code)
{
    return (size_t)utf8proc_encode_char(code, (utf8proc_uint8_t *)out);
}

size_t zr_text_count(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

size_t zr_text_offset(const char *text, size_t length, size_t index)
{
    size_t at = 0;
    while (index && at < length) {
        at += zr_text_step(text + at, length - at);
        index--;
    }
    return at;
}

bool zr_text_is_valid(const char *text, size_t length, size_t *wrong)
{
    for (*wrong = 0; *wrong < length;) {
        size_t bytes = zr_utf8_bytes((const unsigned char *)text + *wrong, length - *wrong);
        if (!bytes)
            return false;
        *wrong += bytes;
    }
    return true;
}

bool zr_text_is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t zr_text_leading_spaces(const char *text, size_t length)
{
    int32_t code;
    size_t at = 0;
    while (at < length) {
        size_t bytes = zr_text_next(text + at, length - at, &code);
        if (!zr_text_is_space(code))
            break;
        at += bytes;
    }
    return at;
}

size_t zr_text_trailing_spaces(const char *text, size_t length)
{
    int32_t code;
    size_t end = length;
    while (end) {
        size_t at = end - 1;
        while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        zr_text_next(text + at, end - at, &code);
        if (!zr_text_is_space(code))
            break;
        end = at;
    }
    return length - end;
}

size_t zr_text_search(const char *text, size_t length, size_t from, const char *part,
                      size_t part_length)
{
    if (from > length || part_length > length - from)
        return length + 1;
    if (!part_length)
        return from;
    const char *at = memmem(text + from, length - from, part, part_length);
    return at ? (size_t)(at - text) : length + 1;
}

void zr_text_append_case(zr_buffer *out, int32_t code, zr_text_case which)
{
    char bytes[4];
    if (code == 0xdf && which != ZR_CASE_LOWER) {
        zr_buffer_append(out, which == ZR_CASE_UPPER ? "SS" : "Ss", 2);
        return;
    }
    if (code == 0x130 && which == ZR_CASE_LOWER) { // a dotted capital I keeps its dot
        zr_buffer_append(out, "i\xcc\x87", 3);
        return;
    }
    int32_t other = which == ZR_CASE_LOWER   ? utf8proc_tolower(code)
                    : which == ZR_CASE_UPPER ? utf8proc_toupper(code)
                                             : utf8proc_totitle(code);
    zr_buffer_append(out, bytes, zr_text_put(bytes, other));
}

bool zr_text_has_case(int32_t code)
{
    return utf8proc_tolower(code) != code || utf8proc_toupper(code) != code || code == 0xdf;
}

bool zr_text_is_printable(int32_t code)
{
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return code == ' ';
    default: return true;
    }
}

bool zr_text_is(int32_t code, zr_text_class which)
{
    utf8proc_category_t category = utf8proc_category(code);
    return which == ZR_CLASS_SPACE ? zr_text_is_space(code)
           : which == ZR_CLASS_DIGIT
               ? category == UTF8PROC_CATEGORY_ND
               : category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

// The program never sets a locale, so the point is a point; a host program that links the library
// might, so the text is read as JSON reads it.
double zr_text_to_real(const char *text, size_t length)
{
    char digits[512];
    size_t start = length && (*text == '+' || *text == '-');
    bool plain = length > start && length < sizeof digits - 4;
    for (size_t i = start; plain && i < length; i++)
        plain = strchr("0123456789.eE+-", text[i]) && text[i];
    if (!plain)
        return NAN;
    // JSON knows neither ".5" nor "5." nor "+5" nor "007".
    size_t at = start, count = 0;
    while (at + 1 < length && text[at] == '0' && text[at + 1] >= '0' && text[at + 1] <= '9')
        at++;
    if (text[at] == '.')
        digits[count++] = '0';
    bool any = false, pointed = false;
    for (; at < length; at++) {
        bool digit = text[at] >= '0' && text[at] <= '9';
        if (pointed && !digit && digits[count - 1] == '.')
            digits[count++] = '0';
        any |= digit;
        pointed |= text[at] == '.';
        digits[count++] = text[at];
    }
    if (count && digits[count - 1] == '.')
        digits[count++] = '0';
    json_t *number =
        any ? json_loadb(digits, count, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL) : NULL;
    double value = json_is_number(number) ? json_number_value(number) : NAN;
    json_decref(number);
    return *text == '-' ? -value : value;
}

// Finds the shortest digits (at most 17) that give the same bits when read. *exponent is that of
// the first digit.
static int shortest_digits(double value, char digits[static 32], int *exponent)
{
    char text[64];
    int precision = 0, count = 0;
    do
        snprintf(text, sizeof text, "%.*e", precision, value);
    while (strtod(text, NULL) != value && ++precision < 17);
    for (const char *at = text; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            digits[count++] = *at;
    *exponent = atoi(strchr(text, 'e') + 1);
    return count;
}

void zr_text_append_real(zr_buffer *out, double value)
{
    char digits[32];
    int exponent;
    if (isnan(value) || isinf(value)) {
        zr_buffer_printf(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    if (signbit(value))
        zr_buffer_append(out, "-", 1);
    int count = shortest_digits(fabs(value), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        zr_buffer_printf(out, "%c%s%.*se%c%02d", digits[0], count > 1 ? "." : "", count - 1,
                         digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0)
        zr_buffer_printf(out, "0.");
    for (int i = exponent; i < -1; i++)
        zr_buffer_append(out, "0", 1);
    for (int i = 0; i < ZR_MAX(count, exponent + 2); i++) {
        if (i == exponent + 1 && exponent >= 0)
            zr_buffer_append(out, ".", 1);
        if (exponent >= 0 || i < count)
            zr_buffer_append(out, i < count ? &digits[i] : "0", 1);
    }
}
