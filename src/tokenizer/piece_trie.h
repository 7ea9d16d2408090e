// Finds all pieces with which a text begins: a tree of their bytes, whose edges lie in one hash
// table.
#ifndef ZR_TOKENIZER_PIECE_TRIE_H
#define ZR_TOKENIZER_PIECE_TRIE_H

#include "base/alloc.h"

typedef struct zr_trie_edge {
    uint32_t key;   // parent << 8 | byte
    uint32_t child; // with ZR_TRIE_ENDS if a piece ends there; 0: the slot is free
} zr_trie_edge;

typedef struct zr_piece_trie { // at most half full
    zr_trie_edge *edges;       // (mask + 1)
    int32_t *ids;              // (nodes) of the pieces that end there; -1: none
    uint32_t mask;
    uint32_t nodes;      // with the root
    uint32_t first[256]; // children of the root, as in an edge; 0: none
} zr_piece_trie;

#define ZR_TRIE_ROOT 0u
#define ZR_TRIE_ENDS 0x80000000u
#define ZR_TRIE_NODE(child) ((child) & ~ZR_TRIE_ENDS)

// Makes an empty tree with room for pieces of `bytes` bytes in all. ZERO_ERR_DATA, with `name`, if
// that is more than 2^24.
zero_status zr_piece_trie_create(const char *name, size_t bytes, zr_piece_trie *out,
                                 zero_error *error);
// Adds a piece that is not empty; of equal ones the last counts.
void zr_piece_trie_add(zr_piece_trie *trie, const char *piece, size_t length, int32_t id);
// Gives back the room that is not needed, after the last piece: a smaller table is faster.
zero_status zr_piece_trie_shrink(zr_piece_trie *trie, zero_error *error);
void zr_piece_trie_free(zr_piece_trie *trie); // a zeroed one is allowed

static inline uint32_t zr_piece_trie_slot(const zr_piece_trie *trie, uint32_t key)
{
    return (key * 0x9e3779b1u) >> 8 & trie->mask;
}

// Returns the child of `node` by this byte, as in an edge; 0 if no piece goes on with it.
static inline uint32_t zr_piece_trie_next(const zr_piece_trie *trie, uint32_t node,
                                          unsigned char byte)
{
    if (node == ZR_TRIE_ROOT)
        return trie->first[byte];
    uint32_t key = node << 8 | byte, slot = zr_piece_trie_slot(trie, key);
    while (trie->edges[slot].child && trie->edges[slot].key != key)
        slot = (slot + 1) & trie->mask;
    return trie->edges[slot].child;
}

#endif
