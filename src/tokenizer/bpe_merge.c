// Turns a piece into ids: its symbols are merged pair by pair, the lowest rank first, the leftmost
// pair first if ranks are equal.
//
// Short pieces scan their ranks for the lowest (they fit in a cache line or two); long pieces keep
// candidates in a heap, so that a piece of n symbols costs n log n. Both make the same merges.
#include "base/random.h"
#include "tokenizer/bpe_encode.h"

#include <string.h>

enum { SHORT = 40, NO_RANK = INT32_MAX };

static int32_t rank_of_merge(const zr_bpe *bpe, int32_t left, int32_t right, int32_t *id)
{
    const zr_merge *merge = zr_merge_map_find(&bpe->merges, left, right);
    *id = merge ? merge->id : -1;
    return merge ? merge->rank : NO_RANK;
}

static int64_t merge_by_scanning(const zr_bpe *bpe, int32_t *ids, int64_t n)
{
    // Rank and merged id of the pair that begins at each symbol.
    int32_t ranks[SHORT], merged[SHORT];
    for (int64_t i = 0; i + 1 < n; i++)
        ranks[i] = rank_of_merge(bpe, ids[i], ids[i + 1], &merged[i]);
    while (n > 1) {
        int64_t best = 0;
        for (int64_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == NO_RANK)
            break;
        ids[best] = merged[best];
        n--;
        memmove(ids + best + 1, ids + best + 2, (size_t)(n - best - 1) * sizeof *ids);
        memmove(ranks + best, ranks + best + 1, (size_t)(n - best) * sizeof *ranks);
        memmove(merged + best, merged + best + 1, (size_t)(n - best) * sizeof *merged);
        if (best + 1 < n)
            ranks[best] = rank_of_merge(bpe, ids[best], ids[best + 1], &merged[best]);
        if (best > 0)
            ranks[best - 1] = rank_of_merge(bpe, ids[best - 1], ids[best], &merged[best - 1]);
    }
    return n;
}

// A pair that may be merged. It is stale once one of its two symbols has changed.
typedef struct candidate {
    int32_t rank, left, right, id;
    int64_t at; // position of the left symbol
} candidate;

typedef struct chain { // the symbols of a long piece; merged ones leave gaps
    const zr_bpe *bpe;
    int32_t *ids;         // (n) -1 if merged into its left neighbour
    int64_t *next, *back; // (n) positions of the neighbours; n and -1 at the ends
    candidate *heap;      // (at most 3n) the first one is merged next
    int64_t count, n;
} chain;

static bool goes_before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(chain *c, int64_t at)
{
    int64_t right = at >= 0 ? c->next[at] : c->n;
    if (right >= c->n)
        return;
    candidate new = {.left = c->ids[at], .right = c->ids[right], .at = at};
    new.rank = rank_of_merge(c->bpe, new.left, new.right, &new.id);
    if (new.rank == NO_RANK)
        return;
    int64_t hole = c->count++;
    for (; hole > 0 && goes_before(&new, &c->heap[(hole - 1) / 2]); hole = (hole - 1) / 2)
        c->heap[hole] = c->heap[(hole - 1) / 2];
    c->heap[hole] = new;
}

static candidate heap_pop(chain *c)
{
    candidate top = c->heap[0], last = c->heap[--c->count];
    int64_t hole = 0;
    for (int64_t child; (child = 2 * hole + 1) < c->count; hole = child) {
        child += child + 1 < c->count && goes_before(&c->heap[child + 1], &c->heap[child]);
        if (!goes_before(&c->heap[child], &last))
            break;
        c->heap[hole] = c->heap[child];
    }
    c->heap[hole] = last;
    return top;
}

static void apply_merge(chain *c, const candidate *top)
{
    int64_t right = c->next[top->at];
    if (c->ids[top->at] != top->left || right >= c->n || c->ids[right] != top->right)
        return;
    c->ids[top->at] = top->id;
    c->ids[right] = -1;
    c->next[top->at] = c->next[right];
    if (c->next[right] < c->n)
        c->back[c->next[right]] = top->at;
    heap_push(c, c->back[top->at]);
    heap_push(c, top->at);
}

static int64_t merge_with_heap(zr_encoder *encoder, int32_t *ids, int64_t n)
{
    char *room = zr_scratch_reserve(
        &encoder->heap, (size_t)n * (2 * sizeof(int64_t) + 3 * sizeof(candidate)), encoder->error);
    if (!room)
        return -1;
    chain c = {.bpe = encoder->tokenizer->bpe, .ids = ids, .n = n};
    c.heap = (candidate *)room;
    c.next = (int64_t *)(c.heap + 3 * n);
    c.back = c.next + n;
    for (int64_t i = 0; i < n; i++) {
        c.next[i] = i + 1;
        c.back[i] = i - 1;
    }
    for (int64_t i = 0; i + 1 < n; i++)
        heap_push(&c, i);
    while (c.count) {
        candidate top = heap_pop(&c);
        apply_merge(&c, &top);
    }
    int64_t left = 0;
    for (int64_t i = 0; i < n; i = c.next[i])
        ids[left++] = ids[i];
    return left;
}

int64_t zr_bpe_merge(zr_encoder *encoder, int32_t *ids, int64_t n)
{
    return n <= SHORT ? merge_by_scanning(encoder->tokenizer->bpe, ids, n)
                      : merge_with_heap(encoder, ids, n);
}

zero_status zr_fail_unknown(const zr_encoder *encoder, const char *text, int bytes)
{
    if (bytes > 1 || (*text > 0x20 && *text < 0x7f))
        return zr_fail(
            encoder->error, ZERO_ERR_DATA,
            "%s: the tokenizer has no token for \"%.*s\", and none that stands for what is unknown",
            encoder->name, bytes, text);
    return zr_fail(encoder->error, ZERO_ERR_DATA,
                   "%s: the tokenizer has no token for the byte 0x%02x, and none that stands for "
                   "what is unknown",
                   encoder->name, (unsigned char)*text);
}

typedef struct symbols { // the symbols of one piece, as they are found
    int32_t *ids;
    int64_t count;
    // An unknown symbol is still to be appended, since the next one may be fused with it.
    bool unknown;
} symbols;

static void flush_unknown(symbols *s, const zr_bpe *bpe)
{
    if (s->unknown)
        s->ids[s->count++] = bpe->unk;
    s->unknown = false;
}

// Replaces a character that is not a token: by its bytes if each of them has a token, else by the
// unknown token.
static zero_status replace_unknown_character(zr_encoder *encoder, const char *text, int bytes,
                                             symbols *s)
{
    const zr_bpe *bpe = encoder->tokenizer->bpe;
    bool whole = bpe->byte_fallback;
    for (int i = 0; i < bytes && whole; i++)
        whole = bpe->symbols[(unsigned char)text[i]] >= 0;
    if (whole) {
        for (int i = 0; i < bytes; i++)
            s->ids[s->count++] = bpe->symbols[(unsigned char)text[i]];
        return ZERO_OK;
    }
    if (bpe->unk < 0)
        return zr_fail_unknown(encoder, text, bytes);
    if (!bpe->fuse_unk)
        flush_unknown(s, bpe);
    s->unknown = true;
    return ZERO_OK;
}

static zero_status find_symbols(zr_encoder *encoder, const char *text, size_t length, symbols *s)
{
    const zr_bpe *bpe = encoder->tokenizer->bpe;
    for (size_t at = 0; at < length;) {
        int32_t code_point, id;
        int bytes =
            bpe->byte_level ? 1 : ZR_MAX(zr_utf8_next(text + at, length - at, &code_point), 1);
        id = bpe->byte_level ? bpe->symbols[(unsigned char)text[at]]
                             : zr_text_span_map_find(&bpe->ids, text + at, (size_t)bytes);
        if (id >= 0) {
            flush_unknown(s, bpe);
            s->ids[s->count++] = id;
        } else {
            ZERO_TRY(replace_unknown_character(encoder, text + at, bytes, s));
        }
        at += (size_t)bytes;
    }
    flush_unknown(s, bpe);
    return ZERO_OK;
}

static zero_status append_token_ids(zr_encoder *encoder, const int32_t *ids, int64_t count)
{
    zr_ids *out = encoder->out;
    if (!zr_ids_reserve(out, count))
        return zr_fail(encoder->error, ZERO_ERR_MEMORY, "%s: no memory for %lld tokens",
                       encoder->name, (long long)(out->count + count));
    memcpy(out->at + out->count, ids, (size_t)count * sizeof *ids);
    out->count += count;
    return ZERO_OK;
}

static zero_status merge_piece(zr_encoder *encoder, const char *text, size_t length,
                               const int32_t **ids, int64_t *count)
{
    symbols s = {.ids = zr_scratch_reserve(&encoder->symbols, (length + 1) * sizeof(int32_t),
                                           encoder->error)};
    if (!s.ids)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(find_symbols(encoder, text, length, &s));
    *ids = s.ids;
    *count = zr_bpe_merge(encoder, s.ids, s.count);
    return *count < 0 ? ZERO_ERR_MEMORY : ZERO_OK;
}

zero_status zr_bpe_piece(zr_encoder *encoder, const char *text, size_t length)
{
    zr_word_entry *word = NULL;
    if (length <= sizeof word->text && !encoder->rounds) {
        word = &encoder->words[zr_hash_bytes(text, length, 1) & (ZR_WORDS - 1)];
        if (word->length == length && memcmp(word->text, text, length) == 0)
            return append_token_ids(encoder, word->ids, word->count);
    }
    const int32_t *ids;
    int64_t count;
    int32_t whole = zr_text_span_map_find(&encoder->tokenizer->bpe->whole, text, length);
    if (whole >= 0) {
        ids = &whole;
        count = 1;
    } else if (encoder->tokenizer->bpe->unigram) {
        ZERO_TRY(zr_unigram_piece(encoder, text, length, &ids, &count));
    } else {
        ZERO_TRY(merge_piece(encoder, text, length, &ids, &count));
    }
    if (word && count <= ZR_COUNT(word->ids)) {
        word->length = (unsigned char)length;
        word->count = (unsigned char)count;
        memcpy(word->text, text, length);
        memcpy(word->ids, ids, (size_t)count * sizeof *ids);
    }
    return append_token_ids(encoder, ids, count);
}
