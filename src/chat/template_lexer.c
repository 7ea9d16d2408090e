// Follows jinja2/lexer.py, whose rules are regular expressions in a fixed order.
#include "chat/template_lexer.h"
#include "chat/template_literal.h"
#include "chat/unicode_text.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BRACKETS = 256 };

typedef struct lexer {
    const zr_template_source *source;
    zr_value_memory *memory;
    zr_template_tokens *out;
    zero_error *error;
    const char *text;
    size_t at, length;
    bool line_starts; // the tag before ended with a line end
    char open[MOST_BRACKETS];
    int brackets;
} lexer;

zero_status zr_template_fail(const zr_template_source *source, size_t offset, zero_status status,
                             zero_error *error, const char *format, ...)
{
    char what[ZERO_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    zr_json_position at = zr_json_position_of(source->text, offset);
    return zr_fail(error, status, "%s:%d:%d: %s", source->name, at.line, at.column, what);
}

#define LEX_FAIL(l, offset, ...)                                                                   \
    zr_template_fail((l)->source, offset, ZERO_ERR_DATA, (l)->error, __VA_ARGS__)

static zero_status add_token(lexer *l, zr_template_token token)
{
    zr_template_token *list =
        zr_list_grow(l->out->at, l->out->count, &l->out->capacity, sizeof *list, l->error);
    if (!list)
        return ZERO_ERR_MEMORY;
    l->out->at = list;
    list[l->out->count++] = token;
    return ZERO_OK;
}

static zero_status add_plain(lexer *l, zr_template_token_kind kind, size_t from, size_t length)
{
    return add_token(l,
                     (zr_template_token){
                         .kind = kind, .offset = from, .text = l->text + from, .length = length});
}

static bool stands_at(const lexer *l, size_t at, const char *what)
{
    size_t length = strlen(what);
    return l->length - at >= length && !memcmp(l->text + at, what, length);
}

static size_t skip_spaces(const lexer *l, size_t at)
{
    return at + zr_text_leading_spaces(l->text + at, l->length - at);
}

// Adds the text before a tag, less what the tag trims. `sign`: the character after the tag's
// opening.
static zero_status add_data(lexer *l, size_t from, size_t end, char sign, bool is_variable)
{
    size_t length = end - from;
    if (sign == '-') {
        length -= zr_text_trailing_spaces(l->text + from, length);
    } else if (sign != '+' && !is_variable) {
        size_t line = end;
        while (line > from && l->text[line - 1] != '\n')
            line--;
        bool begins = line > from || l->line_starts;
        if (begins && zr_text_leading_spaces(l->text + line, end - line) == end - line)
            length = line - from;
    }
    return length ? add_plain(l, ZR_TOKEN_DATA, from, length) : ZERO_OK;
}

// Returns the length of the end of a tag, "%}" or the like with its sign and the space after it
// that goes; 0 if none is at `at`. `trims`: the line end after it goes, too.
static size_t match_end(const lexer *l, size_t at, const char *end, bool plus, bool trims)
{
    size_t start = at;
    if (stands_at(l, at, "-") && stands_at(l, at + 1, end))
        return skip_spaces(l, at + 3) - start;
    if (plus && stands_at(l, at, "+") && stands_at(l, at + 1, end))
        return 3;
    if (!stands_at(l, at, end))
        return 0;
    return 2 + (trims && stands_at(l, at + 2, "\n"));
}

static void finish_tag(lexer *l, size_t length)
{
    l->at += length;
    l->line_starts = length && l->text[l->at - 1] == '\n';
}

static zero_status skip_comment(lexer *l, size_t start)
{
    for (; l->at < l->length; l->at++) {
        size_t end = match_end(l, l->at, "#}", true, true);
        if (end) {
            finish_tag(l, end);
            return ZERO_OK;
        }
    }
    return LEX_FAIL(l, start, "a comment that does not end: #} is missing");
}

static char sign_at(const lexer *l, size_t at)
{
    return at < l->length && (l->text[at] == '-' || l->text[at] == '+') ? l->text[at] : 0;
}

// Returns the position after "{% WORD", or 0; *sign is that of the tag.
static size_t match_word_tag(const lexer *l, size_t at, const char *word, char *sign)
{
    if (!stands_at(l, at, "{%"))
        return 0;
    *sign = sign_at(l, at + 2);
    at = skip_spaces(l, at + 2 + (*sign != 0));
    return stands_at(l, at, word) ? skip_spaces(l, at + strlen(word)) : 0;
}

// Reads "{% raw %}...{% endraw %}", whose inside is text; *found says whether one is here.
static zero_status read_raw(lexer *l, size_t from, bool *found)
{
    char sign, end_sign;
    size_t start = l->at, after = match_word_tag(l, l->at, "raw", &sign), end;
    size_t length = after ? match_end(l, after, "%}", false, false) : 0;
    *found = length != 0;
    if (!length)
        return ZERO_OK;
    ZERO_TRY(add_data(l, from, start, sign, false));
    l->at = after;
    finish_tag(l, length);
    for (size_t at = l->at; at < l->length; at++) {
        end = l->text[at] == '{' ? match_word_tag(l, at, "endraw", &end_sign) : 0;
        length = end ? match_end(l, end, "%}", true, true) : 0;
        if (!length)
            continue;
        ZERO_TRY(add_data(l, l->at, at, end_sign, false));
        l->at = end;
        finish_tag(l, length);
        return ZERO_OK;
    }
    return LEX_FAIL(l, start, "a raw block that does not end: {%% endraw %%} is missing");
}

// Finds where the next tag opens; l->length if there is none.
static size_t find_tag(const lexer *l, size_t at)
{
    for (; at + 1 < l->length; at++)
        if (l->text[at] == '{' && strchr("{%#", l->text[at + 1]) && l->text[at + 1])
            return at;
    return l->length;
}

// Checks that brackets open and close in pairs.
static zero_status track_bracket(lexer *l, char c)
{
    const char *closing = strchr(")]}", c);
    if (strchr("([{", c)) {
        if (l->brackets == MOST_BRACKETS)
            return LEX_FAIL(l, l->at, "more than %d brackets within one another", MOST_BRACKETS);
        l->open[l->brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (closing) {
        if (!l->brackets)
            return LEX_FAIL(l, l->at, "'%c' closes nothing", c);
        if (l->open[--l->brackets] != c)
            return LEX_FAIL(l, l->at, "'%c' where '%c' is due", c, l->open[l->brackets]);
    }
    return ZERO_OK;
}

static zero_status read_operator(lexer *l)
{
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                            "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (int i = 0; i < ZR_COUNT(operators); i++)
        if (stands_at(l, l->at, operators[i])) {
            size_t length = strlen(operators[i]);
            ZERO_TRY(length == 1 ? track_bracket(l, l->text[l->at]) : ZERO_OK);
            ZERO_TRY(add_plain(l, ZR_TOKEN_OPERATOR, l->at, length));
            l->at += length;
            return ZERO_OK;
        }
    return LEX_FAIL(l, l->at, "a character that is none of Jinja's: \"%.*s\"",
                    (int)zr_text_step(l->text + l->at, l->length - l->at), l->text + l->at);
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static zero_status read_literal(lexer *l)
{
    zr_template_token token = {.offset = l->at};
    const char *why = NULL;
    size_t length = zr_template_read_literal(l->text + l->at, l->length - l->at, l->at != 0,
                                             l->memory, &token, &why);
    if (why)
        return LEX_FAIL(l, l->at, "%s", why);
    if (!length)
        return zr_fail(l->error, ZERO_ERR_MEMORY, "%s: no memory for a string", l->source->name);
    l->at += length;
    return add_token(l, token);
}

static zero_status read_word(lexer *l)
{
    size_t end = l->at;
    while (end < l->length && is_name_byte(l->text[end]))
        end++;
    ZERO_TRY(add_plain(l, ZR_TOKEN_NAME, l->at, end - l->at));
    l->at = end;
    return ZERO_OK;
}

// Reads the tokens of a tag up to its end.
static zero_status read_tag(lexer *l, bool is_variable)
{
    const char *end = is_variable ? "}}" : "%}";
    size_t start = l->at - 2;
    l->brackets = 0;
    while (l->at < l->length) {
        size_t length = l->brackets ? 0 : match_end(l, l->at, end, !is_variable, !is_variable);
        if (length) {
            ZERO_TRY(
                add_plain(l, is_variable ? ZR_TOKEN_VARIABLE_END : ZR_TOKEN_BLOCK_END, l->at, 2));
            finish_tag(l, length);
            return ZERO_OK;
        }
        size_t spaces = skip_spaces(l, l->at) - l->at;
        char c = l->text[l->at];
        if (spaces)
            l->at += spaces;
        else if ((c >= '0' && c <= '9') || c == '\'' || c == '"')
            ZERO_TRY(read_literal(l));
        else if (is_name_byte(c))
            ZERO_TRY(read_word(l));
        else
            ZERO_TRY(read_operator(l));
    }
    return LEX_FAIL(l, start, "a tag that does not end: %s is missing", end);
}

zero_status zr_template_lex(const zr_template_source *source, zr_value_memory *memory,
                            zr_template_tokens *out, zero_error *error)
{
    lexer l = {.source = source,
               .memory = memory,
               .out = out,
               .error = error,
               .text = source->text,
               .length = source->length,
               .line_starts = true};
    while (l.at < l.length) {
        size_t from = l.at;
        bool raw;
        l.at = find_tag(&l, from);
        if (l.at == l.length) {
            ZERO_TRY(add_plain(&l, ZR_TOKEN_DATA, from, l.length - from));
            break;
        }
        ZERO_TRY(read_raw(&l, from, &raw));
        if (raw)
            continue;
        size_t start = l.at;
        char kind = l.text[start + 1], sign = sign_at(&l, start + 2);
        ZERO_TRY(add_data(&l, from, start, sign, kind == '{'));
        l.at += 2 + (sign != 0);
        if (kind == '#') {
            ZERO_TRY(skip_comment(&l, start));
            continue;
        }
        ZERO_TRY(
            add_plain(&l, kind == '{' ? ZR_TOKEN_VARIABLE_BEGIN : ZR_TOKEN_BLOCK_BEGIN, start, 2));
        ZERO_TRY(read_tag(&l, kind == '{'));
    }
    return add_token(&l, (zr_template_token){.kind = ZR_TOKEN_END, .offset = l.length});
}
