// The tokens of a JSON text, in order, for blanking comments, finding values and naming positions
// in messages. jansson does the parsing.
#ifndef ZR_BASE_JSON_SCAN_H
#define ZR_BASE_JSON_SCAN_H

#include "base/json.h"

typedef enum zr_json_kind {
    ZR_JSON_END,
    ZR_JSON_MARK,    // one of {}[]:,
    ZR_JSON_STRING,  // with its quotes; `closed` says whether the second one is there
    ZR_JSON_WORD,    // a number, true, false, null, or what does not belong here
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
