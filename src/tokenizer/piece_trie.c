// Builds the tree of the pieces' bytes (piece_trie.h).
#include "tokenizer/piece_trie.h"

#include <string.h>

#define MOST_NODES ((size_t)1 << 24) // a key has 24 bits for its parent

static zero_status make_edges(size_t nodes, zr_piece_trie *out, zero_error *error)
{
    size_t slots = 16;
    while (slots < 2 * nodes)
        slots *= 2;
    out->mask = (uint32_t)(slots - 1);
    out->edges = zr_alloc(slots * sizeof *out->edges, error);
    return out->edges ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_piece_trie_create(const char *name, size_t bytes, zr_piece_trie *out,
                                 zero_error *error)
{
    *out = (zr_piece_trie){.nodes = 1};
    if (bytes >= MOST_NODES)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: its pieces have %zu bytes in all, and %zu is the most that is built",
                       name, bytes, MOST_NODES - 1);
    ZERO_TRY(make_edges(bytes, out, error));
    out->ids = zr_alloc((bytes + 1) * sizeof *out->ids, error);
    return out->ids ? ZERO_OK : ZERO_ERR_MEMORY;
}

static void put_edge(zr_piece_trie *trie, zr_trie_edge edge)
{
    uint32_t slot = zr_piece_trie_slot(trie, edge.key);
    while (trie->edges[slot].child && trie->edges[slot].key != edge.key)
        slot = (slot + 1) & trie->mask;
    trie->edges[slot] = edge;
    if (edge.key < 256)
        trie->first[edge.key] = edge.child;
}

void zr_piece_trie_add(zr_piece_trie *trie, const char *piece, size_t length, int32_t id)
{
    uint32_t node = ZR_TRIE_ROOT;
    for (size_t i = 0; i < length; i++) {
        zr_trie_edge edge = {.key = node << 8 | (unsigned char)piece[i]};
        edge.child = zr_piece_trie_next(trie, node, (unsigned char)piece[i]);
        if (!edge.child) {
            trie->ids[trie->nodes] = -1;
            edge.child = trie->nodes++;
        }
        if (i + 1 == length)
            edge.child |= ZR_TRIE_ENDS;
        put_edge(trie, edge);
        node = ZR_TRIE_NODE(edge.child);
    }
    trie->ids[node] = id;
}

zero_status zr_piece_trie_shrink(zr_piece_trie *trie, zero_error *error)
{
    zr_trie_edge *old = trie->edges;
    size_t slots = (size_t)trie->mask + 1;
    zero_status status = make_edges(trie->nodes, trie, error);
    for (size_t i = 0; i < slots && status == ZERO_OK; i++)
        if (old[i].child)
            put_edge(trie, old[i]);
    zr_free(old);
    return status;
}

void zr_piece_trie_free(zr_piece_trie *trie)
{
    zr_free(trie->edges);
    zr_free(trie->ids);
    *trie = (zr_piece_trie){0};
}
