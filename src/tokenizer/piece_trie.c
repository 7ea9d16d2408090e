// Builds the tree of the pieces' bytes (piece_trie.h).
#include "tokenizer/piece_trie.h"

#define MOST_NODES ((size_t)1 << 24) // a key has 24 bits for its parent

zero_status zr_piece_trie_create(size_t bytes, zr_piece_trie *out, zero_error *error)
{
    size_t slots = 16;
    *out = (zr_piece_trie){.nodes = 1};
    if (bytes >= MOST_NODES)
        return zr_fail(error, ZERO_ERR_DATA, "pieces of %zu bytes in all, more than %zu", bytes,
                       MOST_NODES - 1);
    while (slots < 2 * bytes)
        slots *= 2;
    out->mask = (uint32_t)(slots - 1);
    out->edges = zr_alloc(slots * sizeof *out->edges, error);
    return out->edges ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zr_trie_edge *add_edge(zr_piece_trie *trie, uint32_t node, unsigned char byte)
{
    zr_trie_edge *known = (zr_trie_edge *)zr_piece_trie_next(trie, node, byte);
    if (known)
        return known;
    uint32_t key = node << 8 | byte, slot = (key * 0x9e3779b1u) >> 7 & trie->mask;
    while (trie->edges[slot].child)
        slot = (slot + 1) & trie->mask;
    trie->edges[slot] = (zr_trie_edge){.key = key, .child = trie->nodes++, .id = -1};
    return &trie->edges[slot];
}

void zr_piece_trie_add(zr_piece_trie *trie, const char *piece, size_t length, int32_t id)
{
    zr_trie_edge *edge = NULL;
    for (size_t i = 0; i < length; i++)
        edge = add_edge(trie, edge ? edge->child : ZR_TRIE_ROOT, (unsigned char)piece[i]);
    if (edge)
        edge->id = id;
}

void zr_piece_trie_free(zr_piece_trie *trie)
{
    zr_free(trie->edges);
    *trie = (zr_piece_trie){0};
}
