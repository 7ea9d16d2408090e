// The tables of a BPE tokenizer: byte strings to ids, pairs to merges, bytes to GPT-2's characters;
// and how strings are found.
#ifndef ZR_TOKENIZER_BPE_TABLES_H
#define ZR_TOKENIZER_BPE_TABLES_H

#include "base/errors.h"

// A part of a byte string that many share.
typedef struct zr_text_span {
    uint32_t at, length;
} zr_text_span;

typedef struct zr_text_span_map { // byte strings to ids
    const char *const *text;      // where the spans lie
    zr_text_span *keys;           // (slots)
    int32_t *ids;                 // (slots) -1: free
    uint32_t mask;                // slots - 1
} zr_text_span_map;

// left + right = id; the lowest rank goes first.
typedef struct zr_merge {
    int32_t left, right;
    int32_t rank, id;
} zr_merge;

typedef struct zr_merge_map { // at most half full
    zr_merge *slots;          // (mask + 1) left -1: free
    uint32_t mask;
} zr_merge_map;

// `text` is the tokenizer's; spans point into it.
zero_status zr_text_span_map_create(const char *const *text, int64_t count, zr_text_span_map *out,
                                    zero_error *error);
// -1: not there.
int32_t zr_text_span_map_find(const zr_text_span_map *map, const char *key, size_t length);
// False: it was there before.
bool zr_text_span_map_insert(zr_text_span_map *map, zr_text_span key, int32_t id);
void zr_text_span_map_free(zr_text_span_map *map);
zero_status zr_merge_map_create(int64_t count, zr_merge_map *out, zero_error *error);
void zr_merge_map_insert(zr_merge_map *map, zr_merge merge); // of a pair given twice the last holds
const zr_merge *zr_merge_map_find(const zr_merge_map *map, int32_t left, int32_t right);

// GPT-2's alphabet: one printable character a byte.
int32_t zr_byte_symbol(int byte);
int zr_symbol_byte(int32_t code_point); // -1: not of the alphabet

// Where `what` first stands in the text, NULL: nowhere. Short strings that are met often: quicker
// here than by memmem.
const char *zr_find(const char *text, size_t length, const char *what, size_t width);

#endif
