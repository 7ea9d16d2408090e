// Finds all pieces with which a text begins: a tree of their bytes, whose edges lie in one hash
// table.
#ifndef ZR_TOKENIZER_PIECE_TRIE_H
#define ZR_TOKENIZER_PIECE_TRIE_H

#include "base/alloc.h"

typedef struct zr_trie_edge {
    uint32_t key;   // parent << 8 | byte
    uint32_t child; // 0: the slot is free, for no edge leads to the root
    int32_t id;     // the piece that ends at the child; -1: no piece
} zr_trie_edge;

typedef struct zr_piece_trie { // at most half full
    zr_trie_edge *edges;       // (mask + 1)
    uint32_t mask;
    uint32_t nodes; // with the root
} zr_piece_trie;

enum { ZR_TRIE_ROOT = 0 };

// Makes an empty tree with room for pieces of `bytes` bytes in all. ZERO_ERR_DATA if that is more
// than 2^24.
zero_status zr_piece_trie_create(size_t bytes, zr_piece_trie *out, zero_error *error);
// Adds a piece that is not empty; of equal ones the last counts.
void zr_piece_trie_add(zr_piece_trie *trie, const char *piece, size_t length, int32_t id);
void zr_piece_trie_free(zr_piece_trie *trie); // a zeroed one is allowed

// Returns the edge from `node` by this byte; NULL if no piece goes on with it.
static inline const zr_trie_edge *zr_piece_trie_next(const zr_piece_trie *trie, uint32_t node,
                                                     unsigned char byte)
{
    uint32_t key = node << 8 | byte, slot = (key * 0x9e3779b1u) >> 7 & trie->mask;
    for (const zr_trie_edge *edge; (edge = &trie->edges[slot])->child;
         slot = (slot + 1) & trie->mask)
        if (edge->key == key)
            return edge;
    return NULL;
}

#endif
