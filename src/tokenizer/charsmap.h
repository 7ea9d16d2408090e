// SentencePiece's precompiled_charsmap: what a normalizer puts in place of characters.
//
//   u32 bytes of the array | the array: u32 units of a double-array tree (Darts)
//   | texts, each ended by a 0
//
// A unit of the tree: bits 0-7 the byte that leads to it (bit 31 is 0), bit 8 whether a key ends
// there, bits 10-30 the distance of its children, in units of 256 if bit 9 is set. The unit at that
// distance and byte 0 has the key's value: where its text begins.
#ifndef ZR_TOKENIZER_CHARSMAP_H
#define ZR_TOKENIZER_CHARSMAP_H

#include "base/alloc.h"

typedef struct zr_charsmap {
    uint32_t *units; // (count)
    size_t count;    // 0: it replaces nothing
    char *texts;     // (text_bytes) ends with a 0
    size_t text_bytes;
    // [byte] no key is this ASCII character or begins with it and another one.
    bool plain[128];
} zr_charsmap;

// Copies and checks it. ZERO_ERR_DATA, with `name`, for what is none.
zero_status zr_charsmap_create(const char *name, const char *bytes, size_t count, zr_charsmap *out,
                               zero_error *error);
void zr_charsmap_free(zr_charsmap *map); // a zeroed one is allowed

// Returns the text in place of the longest key, or of the shortest one, with which text[0..length)
// begins, and the key's bytes; NULL if there is none. Whatever the units are, it stays inside them.
const char *zr_charsmap_find(const zr_charsmap *map, bool longest, const char *text, size_t length,
                             size_t *bytes);

#endif
