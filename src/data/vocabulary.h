// The inside of a tokenizer, shared by the files of this room that make, use, write and read it.
#ifndef ZR_DATA_VOCABULARY_H
#define ZR_DATA_VOCABULARY_H

#include "data/tokenizer.h"

#define ZR_CODE_POINTS 0x110000

struct zr_tokenizer {
    zr_tokenizer_kind kind;
    int32_t vocabulary;   // V
    int32_t *code_points; // (V) chars: the character of each id
    int32_t *ids;         // (id_count) chars: 1 + id of each code point, 0 where it has none
    int32_t id_count;     // the largest code point + 1
};

// A chars tokenizer whose id i is code_points[i]: distinct and valid, count > 0.
zero_status zr_tokenizer_from_code_points(const int32_t *code_points, int32_t count, zr_tokenizer **out, zero_error *error);
zero_status zr_tokenizer_from_bytes(zr_tokenizer **out, zero_error *error);

// Bytes of the character at the beginning of text[0..left), left > 0; 0 where that is not strictly valid UTF-8 (overlong forms,
// surrogates and everything above U+10FFFF are not).
int zr_utf8_next(const char *text, size_t left, int32_t *code_point);

#endif
