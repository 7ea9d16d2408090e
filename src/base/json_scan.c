// The scanner, and zr_json_find on top of it. It accepts any bytes: anything that is not JSON
// becomes a word.
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static bool is_mark(char c) { return c && strchr("{}[]:,", c); }

static size_t comment_opening(const zr_json_scan *scan, size_t at)
{
    if (!scan->comments || at >= scan->length)
        return 0;
    if (scan->text[at] == '#')
        return 1;
    bool slash = scan->text[at] == '/' && at + 1 < scan->length;
    return slash && (scan->text[at + 1] == '/' || scan->text[at + 1] == '*') ? 2 : 0;
}

static void take_comment(zr_json_scan *scan, zr_json_token *token)
{
    const char *text = scan->text;
    bool block = text[token->start] == '/' && text[token->start + 1] == '*';
    token->kind = ZR_JSON_COMMENT;
    token->closed = !block;
    for (scan->at += comment_opening(scan, scan->at); scan->at < scan->length; scan->at++) {
        if (!block && text[scan->at] == '\n')
            return;
        if (block && text[scan->at] == '*' && scan->at + 1 < scan->length &&
            text[scan->at + 1] == '/') {
            scan->at += 2;
            token->closed = true;
            return;
        }
    }
}

// Takes a string, which ends at its quote or, unclosed, at the end of the line.
static void take_string(zr_json_scan *scan, zr_json_token *token)
{
    token->kind = ZR_JSON_STRING;
    for (scan->at++; scan->at < scan->length && scan->text[scan->at] != '\n'; scan->at++) {
        if (scan->text[scan->at] == '"') {
            scan->at++;
            token->closed = true;
            return;
        }
        if (scan->text[scan->at] == '\\' && scan->at + 1 < scan->length &&
            scan->text[scan->at + 1] != '\n')
            scan->at++;
    }
}

static void take_word(zr_json_scan *scan, zr_json_token *token)
{
    token->kind = ZR_JSON_WORD;
    for (; scan->at < scan->length; scan->at++) {
        char c = scan->text[scan->at];
        if (is_blank(c) || is_mark(c) || c == '"' || comment_opening(scan, scan->at))
            return;
    }
}

zr_json_token zr_json_next(zr_json_scan *scan)
{
    while (scan->at < scan->length && is_blank(scan->text[scan->at]))
        scan->at++;
    zr_json_token token = {.kind = ZR_JSON_END, .start = scan->at};
    if (scan->at < scan->length) {
        char c = scan->text[scan->at];
        if (is_mark(c)) {
            token.kind = ZR_JSON_MARK;
            token.mark = c;
            scan->at++;
        } else if (c == '"') {
            take_string(scan, &token);
        } else if (comment_opening(scan, scan->at)) {
            take_comment(scan, &token);
        } else {
            take_word(scan, &token);
        }
    }
    token.end = scan->at;
    return token;
}

zr_json_position zr_json_position_of(const char *text, size_t offset)
{
    zr_json_position place = {.line = 1, .column = 1};
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            place.line++;
            place.column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            place.column++;
        }
    }
    return place;
}

zero_status zr_json_fail(zero_error *error, const char *name, const char *text, size_t offset,
                         const char *format, ...)
{
    char what[ZERO_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    zr_json_position place = zr_json_position_of(text, offset);
    return zr_fail(error, ZERO_ERR_DATA, "%s:%d:%d: %s", name, place.line, place.column, what);
}

// Consumes the value that begins with `token`.
static void skip_value(zr_json_scan *scan, zr_json_token token)
{
    int depth = 0;
    for (;; token = zr_json_next(scan)) {
        depth += token.mark == '{' || token.mark == '[';
        depth -= token.mark == '}' || token.mark == ']';
        if (depth <= 0 || token.kind == ZR_JSON_END)
            return;
    }
}

// Returns what is left of `path` after a first part that equals text[0..length), or NULL if it does
// not begin so. Keys may contain dots.
static const char *after_part(const char *path, const char *text, size_t length)
{
    if (strncmp(path, text, length))
        return NULL;
    const char *rest = path + length;
    if (!*rest)
        return rest;
    return rest[0] == '.' && rest[1] ? rest + 1 : NULL;
}

// Enters the member of an object whose key begins `path`. Returns the rest of the path, or NULL if
// there is no such member.
static const char *enter_member(zr_json_scan *scan, const char *path)
{
    for (;;) {
        zr_json_token key = zr_json_next(scan);
        if (key.kind != ZR_JSON_STRING || !key.closed || zr_json_next(scan).mark != ':')
            return NULL;
        const char *rest = after_part(path, scan->text + key.start + 1, key.end - key.start - 2);
        if (rest)
            return rest;
        skip_value(scan, zr_json_next(scan));
        if (zr_json_next(scan).mark != ',')
            return NULL;
    }
}

static const char *enter_item(zr_json_scan *scan, const char *path)
{
    for (int index = 0;; index++) {
        char part[16];
        const char *rest = after_part(path, part, (size_t)snprintf(part, sizeof part, "%d", index));
        if (rest)
            return rest;
        zr_json_token item = zr_json_next(scan);
        if (item.kind == ZR_JSON_END || item.mark == ']')
            return NULL;
        skip_value(scan, item);
        if (zr_json_next(scan).mark != ',')
            return NULL;
    }
}

zr_json_position zr_json_find(const char *text, size_t length, const char *path)
{
    zr_json_scan scan = {.text = text, .length = length};
    zr_json_token value = zr_json_next(&scan);
    while (path && *path) {
        path = value.mark == '{'   ? enter_member(&scan, path)
               : value.mark == '[' ? enter_item(&scan, path)
                                   : NULL;
        if (path)
            value = zr_json_next(&scan);
    }
    bool found = path && value.kind != ZR_JSON_END &&
                 !(value.mark && value.mark != '{' && value.mark != '[');
    return found ? zr_json_position_of(text, value.start) : (zr_json_position){0};
}
