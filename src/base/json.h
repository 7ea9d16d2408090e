// Reading JSON through jansson, with positions, and writing small objects without a tree.
//
// The configuration file may have comments (#, //, /* */) and trailing commas: zr_json_blank
// overwrites them with spaces in place, so that lines and columns stay true.
#ifndef ZR_BASE_JSON_H
#define ZR_BASE_JSON_H

#include "base/alloc.h"
#include <jansson.h>

#define ZR_JSON_MAX_DEPTH 64

// Refuses unterminated comments and hjson's other liberties (unquoted keys, missing root braces) by
// name, with line and column.
zero_status zr_json_blank(char *text, size_t length, const char *name, zero_error *error);

// Strict parse of text[0..length): duplicate keys, NaN, nesting deeper than ZR_JSON_MAX_DEPTH and
// trailing bytes are refused with name, line and column. An integer that no int64 holds is read as
// a real: a caller that needs an integer refuses it, no other has to.
// The caller owns *out (json_decref).
zero_status zr_json_parse(const char *text, size_t length, const char *name, json_t **out,
                          zero_error *error);
zero_status zr_json_load(const char *path, size_t limit, json_t **out, zero_error *error);

// 1-based; 0: unknown
typedef struct zr_json_position {
    int line, column;
} zr_json_position;
// Where the value of `path` ("zero_optimization.stage", array items as ".3") begins in the
// (blanked) text.
zr_json_position zr_json_find(const char *text, size_t length, const char *path);

// quoted and escaped; invalid UTF-8 as \ufffd
void zr_json_append_string(zr_buffer *out, const char *text, size_t length);
// shortest digits that bring the same bits back; null if not finite
void zr_json_append_double(zr_buffer *out, double value);

#endif
