// Reads JSON: a bounded pre-scan, then jansson, which refuses duplicates. Messages name file, line
// and column of the token.
#include "base/json.h"
#include "base/file.h"

#include <string.h>

#define SHOWN 40 // bytes of a token that a message quotes at most

static int shown(zr_json_token token)
{
    return (int)ZR_MIN(token.end - token.start, (size_t)SHOWN);
}

static bool word_is(const char *text, zr_json_token token, const char *word)
{
    size_t length = strlen(word);
    return token.kind == ZR_JSON_WORD && token.end - token.start == length &&
           !memcmp(text + token.start, word, length);
}

static void blank_out(char *text, size_t start, size_t end)
{
    for (size_t i = start; i < end; i++)
        if (text[i] != '\n' && text[i] != '\r')
            text[i] = ' ';
}

// Refuses hjson's liberties. `token` is a word or an unclosed string, and `next` the token after
// it.
static zero_status refuse_hjson(const char *text, const char *name, zr_json_token token,
                                zr_json_token next, bool first, zero_error *error)
{
    const char *word = text + token.start;
    if (token.kind == ZR_JSON_WORD && *word == '\'')
        return zr_json_fail(error, name, text, token.start,
                            "strings stand in double quotes (\"), not in single ones");
    if (token.kind == ZR_JSON_WORD && next.mark == ':')
        return zr_json_fail(error, name, text, token.start,
                            "the key %.*s has no quotes: write \"%.*s\"", shown(token), word,
                            shown(token), word);
    if (first)
        return zr_json_fail(
            error, name, text, token.start,
            "the file does not begin with {: the braces around everything are needed");
    return ZERO_OK;
}

typedef struct blanking {
    char *text;
    const char *name;
    zr_json_token before, last; // the last two tokens that are not comments
} blanking;

// Takes one token that is not a comment; `next` is the one after it.
static zero_status blank_token(blanking *state, zr_json_token token, zr_json_token next,
                               zero_error *error)
{
    bool first = state->last.kind == ZR_JSON_END;
    if (token.kind == ZR_JSON_WORD || (first && token.kind == ZR_JSON_STRING))
        ZERO_TRY(refuse_hjson(state->text, state->name, token, next, first, error));
    bool closing = token.mark == '}' || token.mark == ']';
    bool after_value =
        !state->before.mark || state->before.mark == '}' || state->before.mark == ']';
    if (closing && state->last.mark == ',' && after_value)
        blank_out(state->text, state->last.start, state->last.end);
    state->before = state->last;
    state->last = token;
    return ZERO_OK;
}

static zr_json_token next_blanked(zr_json_scan *scan, char *text, const char *name,
                                  zero_status *status, zero_error *error)
{
    zr_json_token token = zr_json_next(scan);
    while (token.kind == ZR_JSON_COMMENT && token.closed) {
        blank_out(text, token.start, token.end);
        token = zr_json_next(scan);
    }
    if (token.kind == ZR_JSON_COMMENT)
        *status = zr_json_fail(error, name, text, token.start,
                               "the comment that begins here with /* is never closed");
    return token;
}

zero_status zr_json_blank(char *text, size_t length, const char *name, zero_error *error)
{
    // Some editors write a byte order mark.
    if (length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        blank_out(text, 0, 3);
    zr_json_scan scan = {.text = text, .length = length, .comments = true};
    blanking state = {.text = text, .name = name};
    zero_status status = ZERO_OK;
    zr_json_token token = next_blanked(&scan, text, name, &status, error);
    while (status == ZERO_OK && token.kind != ZR_JSON_END) {
        zr_json_token next = next_blanked(&scan, text, name, &status, error);
        if (status == ZERO_OK)
            status = blank_token(&state, token, next, error);
        token = next;
    }
    return status;
}

static zero_status check_word(const char *text, const char *name, zr_json_token token,
                              zero_error *error)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < ZR_COUNT(words); i++)
        if (word_is(text, token, words[i]))
            return ZERO_OK;
    const char *word = text + token.start;
    static const char *const numbers[] = {"NaN", "nan",  "Infinity", "-Infinity",
                                          "inf", "-inf", "-NaN"};
    for (int i = 0; i < ZR_COUNT(numbers); i++)
        if (word_is(text, token, numbers[i]))
            return zr_json_fail(error, name, text, token.start, "%s is not a number in JSON",
                                numbers[i]);
    if (*word == '-' || (*word >= '0' && *word <= '9'))
        return ZERO_OK; // a number; if it is a wrong one, jansson says so
    return zr_json_fail(error, name, text, token.start,
                        "%.*s is no value: strings are in double quotes; true, false and null are "
                        "written like this",
                        shown(token), word);
}

// Returns whether the word is an integer that does not fit an int64. transformers writes one where
// a tokenizer has no maximum length.
static bool is_huge(const char *text, zr_json_token token)
{
    static const char most[] = "9223372036854775807", least[] = "9223372036854775808";
    bool negative = token.kind == ZR_JSON_WORD && text[token.start] == '-';
    size_t first = token.start + negative, digits = token.end - first, width = sizeof most - 1;
    if (token.kind != ZR_JSON_WORD || digits < width || text[first] == '0')
        return false;
    for (size_t i = first; i < token.end; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return digits > width || memcmp(text + first, negative ? least : most, width) > 0;
}

// Checks the depth and refuses words that are not values, before jansson recurses into the text.
// *huge counts the integers that do not fit an int64.
static zero_status pre_scan(const char *text, size_t length, const char *name, int64_t *huge,
                            zero_error *error)
{
    zr_json_scan scan = {.text = text, .length = length};
    int depth = 0;
    *huge = 0;
    for (zr_json_token token; (token = zr_json_next(&scan)).kind != ZR_JSON_END;) {
        depth += token.mark == '{' || token.mark == '[';
        depth -= token.mark == '}' || token.mark == ']';
        if (depth > ZR_JSON_MAX_DEPTH)
            return zr_json_fail(error, name, text, token.start, "nested deeper than %d levels",
                                ZR_JSON_MAX_DEPTH);
        if (token.kind == ZR_JSON_WORD)
            ZERO_TRY(check_word(text, name, token, error));
        *huge += is_huge(text, token);
    }
    return ZERO_OK;
}

// Makes a copy in which "e2" replaces the last two digits of each such integer. It becomes a real,
// the nearest one or a neighbour of that, and all positions stay the same.
static zero_status with_reals(const char *text, size_t length, char **out, zero_error *error)
{
    zr_json_scan scan = {.text = text, .length = length};
    *out = zr_alloc(length + 1, error);
    if (!*out)
        return ZERO_ERR_MEMORY;
    memcpy(*out, text, length);
    for (zr_json_token token; (token = zr_json_next(&scan)).kind != ZR_JSON_END;)
        if (is_huge(text, token))
            memcpy(*out + token.end - 2, "e2", 2);
    return ZERO_OK;
}

// Returns the token that ends where jansson stopped reading: it is the one that jansson's message
// is about.
static zr_json_token token_ending_at(const char *text, size_t length, size_t position)
{
    zr_json_scan scan = {.text = text, .length = length};
    zr_json_token token = zr_json_next(&scan);
    while (token.kind != ZR_JSON_END && token.end < position)
        token = zr_json_next(&scan);
    return token;
}

static zero_status describe_json(const char *text, size_t length, const char *name,
                                 const json_error_t *why, zero_error *error)
{
    if (json_error_code(why) == json_error_out_of_memory || !why->text[0])
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory to parse %zu bytes", name, length);
    size_t position = why->position < 0 ? 0 : (size_t)why->position;
    zr_json_token token = token_ending_at(text, length, position);
    if (json_error_code(why) == json_error_duplicate_key)
        return zr_json_fail(error, name, text, token.start, "the key %.*s is given twice",
                            shown(token), text + token.start);
    if (json_error_code(why) == json_error_null_character ||
        json_error_code(why) == json_error_null_byte_in_key)
        return zr_json_fail(error, name, text, token.start,
                            "the character \\u0000 in a string: text has none here");
    if (!strncmp(why->text, "invalid Unicode", 15))
        return zr_json_fail(
            error, name, text, token.start,
            "half of a pair of surrogates (\\ud800 to \\udfff) in a string: it is no character");
    size_t offset =
        json_error_code(why) == json_error_premature_end_of_input ? length : token.start;
    return zr_json_fail(error, name, text, offset, "%s", why->text);
}

zero_status zr_json_parse(const char *text, size_t length, const char *name, json_t **out,
                          zero_error *error)
{
    int64_t huge;
    char *copy = NULL;
    *out = NULL;
    ZERO_TRY(pre_scan(text, length, name, &huge, error));
    // jansson would take a byte 0 after a last number for the end of the text.
    const char *zero = length ? memchr(text, 0, length) : NULL;
    if (zero)
        return zr_json_fail(error, name, text, (size_t)(zero - text), "a byte 0");
    if (huge)
        ZERO_TRY(with_reals(text, length, &copy, error));
    json_error_t why = {.line = 0};
    *out = json_loadb(copy ? copy : text, length, JSON_REJECT_DUPLICATES, &why);
    zr_free(copy);
    return *out ? ZERO_OK : describe_json(text, length, name, &why, error);
}

zero_status zr_json_load(const char *path, size_t limit, json_t **out, zero_error *error)
{
    char *text;
    size_t length;
    *out = NULL;
    ZERO_TRY(zr_file_read(path, limit, &text, &length, error));
    zero_status status = zr_json_parse(text, length, path, out, error);
    zr_free(text);
    return status;
}
