#include "chat/template_literal.h"
#include "chat/unicode_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 400 };

typedef struct cursor {
    const char *text;
    size_t length, at;
} cursor;

static char peek(const cursor *c, size_t more)
{
    return c->at + more < c->length ? c->text[c->at + more] : 0;
}

static bool is_digit(char c, int base)
{
    int value = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;
    return value < base;
}

// Takes digits, with single underscores between them (before the first one, too, if `leads`).
static bool take_digits(cursor *c, int base, bool leads)
{
    size_t start = c->at;
    if (leads && peek(c, 0) == '_' && is_digit(peek(c, 1), base))
        c->at++;
    while (is_digit(peek(c, 0), base))
        c->at += peek(c, 1) == '_' && is_digit(peek(c, 2), base) ? 2 : 1;
    return c->at > start;
}

// Takes a number with a fraction or an exponent, if there is one.
static bool take_real(cursor *c)
{
    cursor try = *c;
    if (!take_digits(&try, 10, false))
        return false;
    bool real = false;
    if (peek(&try, 0) == '.' && is_digit(peek(&try, 1), 10)) {
        try.at++;
        real = take_digits(&try, 10, false);
    }
    if (peek(&try, 0) == 'e' || peek(&try, 0) == 'E') {
        size_t sign = peek(&try, 1) == '+' || peek(&try, 1) == '-';
        if (is_digit(peek(&try, 1 + sign), 10)) {
            try.at += 1 + sign;
            real = take_digits(&try, 10, false);
        }
    }
    if (real)
        *c = try;
    return real;
}

static int take_base(cursor *c)
{
    char mark = peek(c, 0) == '0' ? (char)(peek(c, 1) | 0x20) : 0;
    int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    char next = peek(c, 2) == '_' ? peek(c, 3) : peek(c, 2);
    if (base == 10 || !is_digit(next, base))
        return 10;
    c->at += 2;
    return base;
}

static size_t read_number(cursor c, bool after_point, zr_template_token *out, const char **why)
{
    char digits[MOST_DIGITS];
    size_t count = 0, start = 0;
    int base = 10;
    out->kind = !after_point && take_real(&c) ? ZR_TOKEN_REAL : ZR_TOKEN_INTEGER;
    if (out->kind == ZR_TOKEN_INTEGER) {
        base = take_base(&c);
        start = c.at;
        if (base == 10 &&
            peek(&c, 0) == '0') // a zero that other digits follow is a token of its own
            while (peek(&c, 0) == '0' || (peek(&c, 0) == '_' && peek(&c, 1) == '0'))
                c.at++;
        else
            take_digits(&c, base, base != 10);
    }
    for (size_t i = start; i < c.at; i++)
        if (c.text[i] != '_' && count + 1 < sizeof digits)
            digits[count++] = c.text[i];
    digits[count] = 0;
    errno = 0;
    if (out->kind == ZR_TOKEN_REAL)
        out->real = zr_text_to_real(digits, count);
    else
        out->integer = strtoll(digits, NULL, base);
    if (count + 1 == sizeof digits || (out->kind == ZR_TOKEN_INTEGER && errno == ERANGE))
        *why = "a number that is too large: integers have 64 bits here";
    return c.at;
}

// Reads the number of an escape: up to `most` digits of `base`. Returns how many there are.
static size_t read_code(const cursor *c, size_t from, size_t most, int base, int32_t *code)
{
    size_t count = 0;
    *code = 0;
    for (; count < most && is_digit(peek(c, from + count), base); count++) {
        char digit = peek(c, from + count);
        *code = *code * base + (digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    return count;
}

// Appends what an escape stands for. The cursor is at the backslash; it moves past the escape.
static void take_escape(cursor *c, char *out, size_t *length, const char **why)
{
    static const char names[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    char name = peek(c, 1);
    const char *simple = name ? strchr(names, name) : NULL;
    int32_t code;
    size_t width = name == 'x' ? 2 : name == 'u' ? 4 : name == 'U' ? 8 : 0;
    if (simple) {
        out[(*length)++] = values[simple - names];
        c->at += 2;
    } else if (name == '\n') {
        c->at += 2;
    } else if (width) {
        if (read_code(c, 2, width, 16, &code) < width || code < 0 || code > 0x10ffff ||
            (code >= 0xd800 && code < 0xe000))
            *why = "an escape in a string that is no character";
        else
            *length += zr_text_put(out + *length, code);
        c->at += 2 + width;
    } else if (is_digit(name, 8)) {
        c->at += 1 + read_code(c, 1, 3, 8, &code);
        *length += zr_text_put(out + *length, code);
    } else {
        if (name == 'N')
            *why = "\\N{...} in a string is not built: write the character itself";
        out[(*length)++] = '\\';
        c->at++;
    }
}

static size_t read_string(cursor c, zr_value_memory *memory, zr_template_token *out,
                          const char **why)
{
    char quote = c.text[c.at++];
    size_t end = c.at, length = 0;
    while (end < c.length && c.text[end] != quote)
        end += c.text[end] == '\\' ? 2 : 1;
    if (end >= c.length) {
        *why = "a string that does not end: its second quote is missing";
        return 0;
    }
    // No escape is shorter than its character.
    char *text = zr_value_memory_text(memory, NULL, 0, end - c.at + 1);
    if (!text)
        return 0;
    c.length = end;
    while (c.at < end && !*why)
        if (c.text[c.at] == '\\')
            take_escape(&c, text, &length, why);
        else
            text[length++] = c.text[c.at++];
    out->kind = ZR_TOKEN_STRING;
    out->text = text;
    out->length = length;
    return end + 1;
}

size_t zr_template_read_literal(const char *text, size_t length, bool has_before,
                                zr_value_memory *memory, zr_template_token *out, const char **why)
{
    cursor c = {.text = text, .length = length};
    if (*text == '\'' || *text == '"')
        return read_string(c, memory, out, why);
    return read_number(c, has_before && text[-1] == '.', out, why);
}
