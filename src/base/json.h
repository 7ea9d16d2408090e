// Reads JSON with jansson and knows the positions of values; writes small objects without a tree.
//
// The configuration file may have comments (#, //, /* */) and trailing commas: zr_json_blank
// overwrites them with spaces in place, so that lines and columns stay true.
#ifndef ZR_BASE_JSON_H
#define ZR_BASE_JSON_H

#include "base/alloc.h"
#include <jansson.h>

#define ZR_JSON_MAX_DEPTH 64

// Refuses unterminated comments and the liberties of hjson (unquoted keys, missing root braces);
// the message says which, with line and column.
zero_status zr_json_blank(char *text, size_t length, const char *name, zero_error *error);

// Parses text[0..length) strictly: duplicate keys, NaN, nesting deeper than ZR_JSON_MAX_DEPTH and
// trailing bytes are refused with name, line and column. An integer that does not fit an int64 is
// read as a real: callers that need an integer refuse it.
// The caller owns *out (json_decref).
zero_status zr_json_parse(const char *text, size_t length, const char *name, json_t **out,
                          zero_error *error);
zero_status zr_json_load(const char *path, size_t limit, json_t **out, zero_error *error);

// 1-based; 0 if unknown.
typedef struct zr_json_position {
    int line, column;
} zr_json_position;
// Returns where the value of `path` begins in the (blanked) text. A path is like
// "zero_optimization.stage"; array items are ".3".
zr_json_position zr_json_find(const char *text, size_t length, const char *path);

// Sets the value at a path, and takes over its reference, also if it returns false because memory
// has run out. Missing sections on the way are created; a value in their place that is no section
// is replaced. Names have at most 127 bytes.
bool zr_json_put(json_t *root, const char *path, json_t *value);
// Returns the value at a path, which `root` owns; NULL if there is none.
json_t *zr_json_get(const json_t *root, const char *path);
// Removes the value at a path, if there is one.
void zr_json_drop(json_t *root, const char *path);

// Appends the string quoted and escaped, with invalid UTF-8 as \ufffd.
void zr_json_append_string(zr_buffer *out, const char *text, size_t length);
// Appends the shortest digits that give the same bits when read; null if the value is not finite.
void zr_json_append_double(zr_buffer *out, double value);
// Append a finite number as "%.*g" and "%.*f" do, with a point in every locale.
void zr_json_append_digits(zr_buffer *out, int digits, double value);
void zr_json_append_decimals(zr_buffer *out, int decimals, double value);

// The tokens of a JSON text, in order, for blanking comments, finding values and naming positions
// in messages. jansson does the parsing.
typedef enum zr_json_kind {
    ZR_JSON_END,
    ZR_JSON_MARK,    // one of {}[]:,
    ZR_JSON_STRING,  // with its quotes; `closed` says whether the second one is there
    ZR_JSON_WORD,    // a number, true, false, null, or anything else
    ZR_JSON_COMMENT, // only if the scan has `comments`
} zr_json_kind;

typedef struct zr_json_scan {
    const char *text;
    size_t length, at;
    bool comments; // #, // and /* */ are tokens, not parts of words
} zr_json_scan;

typedef struct zr_json_token {
    zr_json_kind kind;
    size_t start, end; // text[start..end)
    char mark;         // of a ZR_JSON_MARK, else 0
    bool closed;       // of strings and comments
} zr_json_token;

zr_json_token zr_json_next(zr_json_scan *scan);
// Columns count characters, not bytes.
zr_json_position zr_json_position_of(const char *text, size_t offset);

// Fails with "NAME:LINE:COLUMN: what".
zero_status zr_json_fail(zero_error *error, const char *name, const char *text, size_t offset,
                         const char *format, ...) ZERO_PRINTF(5, 6);

#endif
