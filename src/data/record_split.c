#include "data/record_split.h"
#include "base/json.h"

#include <string.h>

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void move_to(zr_record_split *s, size_t at)
{
    for (const char *end; (end = memchr(s->text + s->at, '\n', at - s->at)) != NULL; s->line++)
        s->at = (size_t)(end - s->text) + 1;
    s->at = at;
}

static void skip_blanks(zr_record_split *s)
{
    size_t at = s->at;
    while (at < s->length && is_blank(s->text[at]))
        at++;
    move_to(s, at);
}

static size_t end_of_line(const zr_record_split *s, size_t at)
{
    const char *end = at < s->length ? memchr(s->text + at, '\n', s->length - at) : NULL;
    return end ? (size_t)(end - s->text) : s->length;
}

// The brackets that are open: bit i is set if the i-th is a '['.
typedef struct brackets {
    uint64_t lists;
    int depth;
} brackets;

// Returns false if the mark closes another kind of bracket, or opens more than JSON here may have.
static bool take_bracket(brackets *open, char mark)
{
    bool list = mark == '[' || mark == ']';
    if (mark == '{' || mark == '[') {
        if (open->depth == ZR_JSON_MAX_DEPTH)
            return false;
        open->lists = open->lists << 1 | list;
        open->depth++;
    } else if (mark == '}' || mark == ']') {
        if (!open->depth || (open->lists & 1) != list)
            return false;
        open->lists >>= 1;
        open->depth--;
    }
    return true;
}

// Where a value ends.
typedef struct extent {
    size_t end;
    bool closed;  // its brackets close there
    bool resumes; // they do not, and another object seems to begin there
} extent;

// Finds the end of the value that begins at `start`.
static extent measure_value(const zr_record_split *s, size_t start)
{
    zr_json_scan scan = {.text = s->text, .length = s->length, .at = start};
    zr_json_token token = {.kind = ZR_JSON_END}, last = token;
    brackets open = {0};
    do {
        last = token;
        token = zr_json_next(&scan);
        if (token.kind == ZR_JSON_END)
            return (extent){.end = s->length};
        bool expects = !open.depth || (last.mark && last.mark != '}' && last.mark != ']');
        if (token.mark == '{' && !expects)
            return (extent){.end = token.start, .resumes = true};
        if ((token.kind == ZR_JSON_STRING && !token.closed) || !take_bracket(&open, token.mark))
            return (extent){.end = end_of_line(s, token.end)};
    } while (open.depth);
    return (extent){.end = token.end, .closed = true};
}

// Returns where the record ends that begins here with '{'.
static size_t end_of_object(const zr_record_split *s)
{
    extent found = measure_value(s, s->at);
    if (!found.closed)
        return found.end;
    size_t next = found.end;
    while (next < s->length && is_blank(s->text[next]) && s->text[next] != '\n')
        next++;
    bool alone = next == s->length || s->text[next] == '\n' || s->text[next] == '{';
    return alone ? found.end : end_of_line(s, next);
}

static bool end_with_fault(zr_record_split *s, const char *fault, zr_record_span *out)
{
    *out = (zr_record_span){.start = s->at, .end = s->at, .line = s->line + 1, .fault = fault};
    move_to(s, s->length);
    s->closed = true;
    return true;
}

static bool take_span(zr_record_split *s, size_t end, zr_record_span *out)
{
    *out = (zr_record_span){.start = s->at, .end = end, .line = s->line + 1};
    move_to(s, end);
    return true;
}

static bool next_item(zr_record_split *s, zr_record_span *out)
{
    skip_blanks(s);
    if (s->closed && s->at < s->length)
        return end_with_fault(s, "text after the end of the array", out);
    if (s->closed)
        return false;
    char c = s->at < s->length ? s->text[s->at] : 0;
    if (s->before && c == ',') {
        s->at++;
        skip_blanks(s);
        c = s->at < s->length ? s->text[s->at] : 0;
        if (c == ']' || c == ',')
            return end_with_fault(s, "a record is missing after a comma", out);
    } else if (s->before && s->at < s->length && c != ']') {
        return end_with_fault(s, "a comma is missing between two records of the array", out);
    }
    if (s->at == s->length)
        return end_with_fault(s, "the array has no end (]): the file seems to be cut off", out);
    s->before = true;
    if (c != ']')
        return take_span(s, measure_value(s, s->at).end, out);
    s->at++;
    s->closed = true;
    return next_item(s, out);
}

static void begin_file(zr_record_split *s)
{
    if (s->length >= 3 && !memcmp(s->text, "\xef\xbb\xbf", 3))
        s->at = 3;
    skip_blanks(s);
    s->began = true;
    s->array = s->at < s->length && s->text[s->at] == '[';
    s->at += s->array;
}

bool zr_record_split_next(zr_record_split *s, zr_record_span *out)
{
    if (!s->began)
        begin_file(s);
    if (s->array)
        return next_item(s, out);
    skip_blanks(s);
    if (s->at == s->length)
        return false;
    return take_span(s, s->text[s->at] == '{' ? end_of_object(s) : end_of_line(s, s->at), out);
}
