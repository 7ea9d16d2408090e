// A template's text as tokens, with the white space that Jinja drops already gone: what {%- and -%}
// trim, the line end after a block (trim_blocks), the indent before one (lstrip_blocks).
#ifndef ZR_CHAT_TEMPLATE_LEXER_H
#define ZR_CHAT_TEMPLATE_LEXER_H

#include "chat/value_memory.h"

typedef enum zr_template_token_kind {
    ZR_TOKEN_END,
    ZR_TOKEN_DATA, // text outside of tags
    ZR_TOKEN_VARIABLE_BEGIN,
    ZR_TOKEN_VARIABLE_END,
    ZR_TOKEN_BLOCK_BEGIN,
    ZR_TOKEN_BLOCK_END,
    ZR_TOKEN_NAME,
    ZR_TOKEN_STRING, // its value, without quotes and escapes
    ZR_TOKEN_INTEGER,
    ZR_TOKEN_REAL,
    ZR_TOKEN_OPERATOR,
} zr_template_token_kind;

typedef struct zr_template_token {
    zr_template_token_kind kind;
    size_t offset; // in the source
    const char *text;
    size_t length;
    int64_t integer;
    double real;
} zr_template_token;

typedef struct zr_template_source {
    const char *name;
    char *text; // with \n for each line end, without the last one
    size_t length;
} zr_template_source;

typedef struct zr_template_tokens {
    zr_template_token *at; // (count), the last one is ZR_TOKEN_END
    int count, capacity;
} zr_template_tokens;

// Cuts the source; texts of tokens point into it, or lie in `memory`. The caller frees out->at with
// zr_free, also after a failure. Fails with ZERO_ERR_DATA and the place.
zero_status zr_template_lex(const zr_template_source *source, zr_value_memory *memory,
                            zr_template_tokens *out, zero_error *error);

// Fails with "NAME:LINE:COLUMN: ...".
zero_status zr_template_fail(const zr_template_source *source, size_t offset, zero_status status,
                             zero_error *error, const char *format, ...) ZERO_PRINTF(5, 6);

#endif
