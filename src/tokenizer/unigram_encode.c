// Writes a text as the pieces whose scores have the highest sum (Viterbi's algorithm): for each
// position, from left to right, the best way to get there, of equal ones the one that begins
// first. As in both libraries, a character that is a piece is never unknown.
#include "tokenizer/bpe_encode.h"
#include "tokenizer/unigram.h"

#include <string.h>

enum { NOT_REACHED = -2, UNKNOWN = -1 };

#define MOST_ROUNDED 1e5 // where sentencepiece begins again with 0, so that fp32 stays exact enough

typedef struct arrival { // the best way to get to a position
    double score;
    uint32_t from; // where its last piece begins
    int32_t id;    // of this piece, or one of the above
} arrival;

static inline void offer(arrival *to, double score, size_t from, int32_t id, bool rounds)
{
    score = rounds ? (double)(float)score : score;
    if (to->id == NOT_REACHED || score > to->score)
        *to = (arrival){.score = score, .from = (uint32_t)from, .id = id};
}

// Offers all pieces with which text[at..length) begins. Returns whether one of them has `width`
// bytes; *last is the last position that was reached.
static inline bool offer_pieces(const zr_unigram *u, bool rounds, const char *text, size_t at,
                                size_t length, size_t width, arrival *ways, size_t *last)
{
    uint32_t node = ZR_TRIE_ROOT;
    bool single = false;
    double before = ways[at].score;
    for (size_t end = at; end < length;) {
        uint32_t child = zr_piece_trie_next(&u->trie, node, (unsigned char)text[end++]);
        if (!child)
            break;
        node = ZR_TRIE_NODE(child);
        if (child == node)
            continue;
        int32_t id = u->trie.ids[node];
        offer(&ways[end], before + u->scores[id], at, id, rounds);
        single |= end - at == width;
        *last = ZR_MAX(*last, end);
    }
    return single;
}

// Subtracts the score at `at` from all that are known from there on, the last one at `last`.
static void begin_again(arrival *ways, size_t at, size_t last)
{
    float offset = (float)ways[at].score;
    for (size_t i = at; i <= last; i++)
        if (ways[i].id != NOT_REACHED)
            ways[i].score = (double)((float)ways[i].score - offset);
}

static void find_ways(const zr_encoder *encoder, const char *text, size_t length, arrival *ways)
{
    const zr_unigram *u = encoder->tokenizer->bpe->unigram;
    bool rounds = encoder->rounds;
    for (size_t i = 0; i <= length; i++)
        ways[i].id = NOT_REACHED;
    ways[0] = (arrival){.score = 0, .id = UNKNOWN};
    for (size_t at = 0, width, last = 0; at < length; at += width) {
        int32_t unused;
        if (rounds && (ways[at].score < -MOST_ROUNDED || ways[at].score > MOST_ROUNDED))
            begin_again(ways, at, last);
        width = (unsigned char)text[at] < 0x80
                    ? 1
                    : (size_t)ZR_MAX(zr_utf8_next(text + at, length - at, &unused), 1);
        if (offer_pieces(u, rounds, text, at, length, width, ways, &last))
            continue;
        offer(&ways[at + width], ways[at].score + u->unknown, at, UNKNOWN, rounds);
        last = ZR_MAX(last, at + width);
    }
}

// Puts what stands for a run of unknown characters before ids[*count]: their bytes, or one unknown
// token.
static zero_status put_unknown(zr_encoder *encoder, const char *text, size_t length, int32_t *ids,
                               int64_t *count)
{
    const zr_bpe *bpe = encoder->tokenizer->bpe;
    bool whole = bpe->byte_fallback;
    for (size_t i = 0; i < length && whole; i++)
        whole = bpe->symbols[(unsigned char)text[i]] >= 0;
    for (size_t i = length; i > 0 && whole; i--)
        ids[--*count] = bpe->symbols[(unsigned char)text[i - 1]];
    if (whole)
        return ZERO_OK;
    if (bpe->unk < 0) {
        int32_t unused;
        return zr_fail_unknown(encoder, text, ZR_MAX(zr_utf8_next(text, length, &unused), 1));
    }
    ids[--*count] = bpe->unk;
    return ZERO_OK;
}

zero_status zr_unigram_piece(zr_encoder *encoder, const char *text, size_t length,
                             const int32_t **out, int64_t *count)
{
    if (length >= UINT32_MAX)
        return zr_fail(encoder->error, ZERO_ERR_DATA,
                       "%s: %zu bytes that no tokenizer's step cuts, more than %u", encoder->name,
                       length, UINT32_MAX - 1);
    arrival *ways = zr_scratch_reserve(&encoder->heap, (length + 1) * sizeof *ways, encoder->error);
    int32_t *ids =
        ways ? zr_scratch_reserve(&encoder->symbols, (length + 1) * sizeof *ids, encoder->error)
             : NULL;
    if (!ids)
        return ZERO_ERR_MEMORY;
    find_ways(encoder, text, length, ways);
    int64_t first = (int64_t)length; // no piece is shorter than a byte
    for (size_t at = length, from; at > 0; at = from) {
        from = ways[at].from;
        if (ways[at].id >= 0) {
            ids[--first] = ways[at].id;
            continue;
        }
        while (from > 0 && ways[from].id == UNKNOWN)
            from = ways[from].from;
        ZERO_TRY(put_unknown(encoder, text + from, at - from, ids, &first));
    }
    *out = ids + first;
    *count = (int64_t)length - first;
    return ZERO_OK;
}
