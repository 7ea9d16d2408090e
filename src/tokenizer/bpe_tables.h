// The tables of a BPE tokenizer: from byte strings to ids, from pairs to merges, from bytes to
// GPT-2's characters; and a search for strings.
#ifndef ZR_TOKENIZER_BPE_TABLES_H
#define ZR_TOKENIZER_BPE_TABLES_H

#include "base/errors.h"

// A part of a byte string that many spans share.
typedef struct zr_text_span {
    uint32_t at, length;
} zr_text_span;

typedef struct zr_text_span_map { // byte strings to ids
    const char *const *text;      // the text in which the spans lie
    zr_text_span *keys;           // (slots)
    int32_t *ids;                 // (slots) -1 if free
    uint32_t mask;                // slots - 1
} zr_text_span_map;

// left + right = id; the merge with the lowest rank is made first.
typedef struct zr_merge {
    int32_t left, right;
    int32_t rank, id;
} zr_merge;

typedef struct zr_merge_map { // at most half full
    zr_merge *slots;          // (mask + 1) left is -1 if free
    uint32_t mask;
} zr_merge_map;

// Makes an empty map. `text` belongs to the tokenizer; the spans are parts of it.
zero_status zr_text_span_map_create(const char *const *text, int64_t count, zr_text_span_map *out,
                                    zero_error *error);
// Returns the id; -1 if the key is not in the map.
int32_t zr_text_span_map_find(const zr_text_span_map *map, const char *key, size_t length);
// Returns false, and changes nothing, if the map has the key already.
bool zr_text_span_map_insert(zr_text_span_map *map, zr_text_span key, int32_t id);
void zr_text_span_map_free(zr_text_span_map *map);
zero_status zr_merge_map_create(int64_t count, zr_merge_map *out, zero_error *error);
// If a pair is inserted twice, the later merge replaces the earlier.
void zr_merge_map_insert(zr_merge_map *map, zr_merge merge);
const zr_merge *zr_merge_map_find(const zr_merge_map *map, int32_t left, int32_t right);

// Returns the printable character that GPT-2's alphabet has for a byte.
int32_t zr_byte_symbol(int byte);
int zr_symbol_byte(int32_t code_point); // -1 if it is not in the alphabet

// Returns where `what` first occurs in the text; NULL if it does not occur. It is faster than
// memmem for short strings that occur often.
const char *zr_find_text(const char *text, size_t length, const char *what, size_t width);

#endif
