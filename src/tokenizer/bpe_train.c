// Learns merges in the order in which the `tokenizers` library learns them.
//
//   words    distinct pieces and how often they occur, each with a row of ids that gets shorter as
//            pairs merge
//   pairs    of neighbouring ids, and how often they occur
//   heap     pairs with the words in which they arose, the most frequent first, then the lower ids
//
// Counts in the heap may be out of date: a pair whose count is out of date when it is popped goes
// back with its current count. A merge changes only the counts of its neighbours, and new pairs go
// into the heap with the words in which they are new.
#include "base/random.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/bpe_train_internal.h"

#include <string.h>

zero_status zr_bpe_trainer_create(zr_bpe_trainer **out, zero_error *error)
{
    zr_bpe_trainer *t = *out = zr_alloc(sizeof *t, error);
    if (!t)
        return ZERO_ERR_MEMORY;
    zr_classes_fill(&t->classes);
    return ZERO_OK;
}

void zr_bpe_trainer_destroy(zr_bpe_trainer *t)
{
    if (!t)
        return;
    for (int64_t i = 0; i < t->heap_count; i++)
        zr_free(t->heap[i].words.at);
    for (int64_t i = 0; i < t->pair_count; i++)
        zr_free(t->pairs[i].fresh.at);
    zr_buffer_free(&t->text);
    zr_buffer_free(&t->tokens);
    zr_ids_free(&t->touched);
    zr_text_span_map_free(&t->known);
    void *const rest[] = {t->words,      t->slots, t->symbols, t->pairs,
                          t->pair_slots, t->heap,  t->token,   t->merges};
    for (int i = 0; i < ZR_COUNT(rest); i++)
        zr_free(rest[i]);
    zr_free(t);
}

zero_status zr_trainer_grow(void **array, int64_t *capacity, int64_t needed, size_t width,
                            zero_error *error)
{
    if (needed <= *capacity)
        return ZERO_OK;
    int64_t more = ZR_MAX(2 * *capacity, needed + 64);
    void *larger = zr_realloc(*array, (size_t)more * width, error);
    if (!larger)
        return ZERO_ERR_MEMORY;
    *array = larger;
    *capacity = more;
    return ZERO_OK;
}

// ---- counting pieces ----------------------------------------------------------------------------

static uint64_t slot_of_word(const zr_bpe_trainer *t, const char *text, size_t length)
{
    uint64_t slot = zr_hash_bytes(text, length, 0) & t->slot_mask;
    for (; t->slots[slot]; slot = (slot + 1) & t->slot_mask) {
        const zr_train_word *word = &t->words[t->slots[slot] - 1];
        if (word->length == length && memcmp(t->text.data + word->at, text, length) == 0)
            break;
    }
    return slot;
}

// Keeps the table of words at most half full.
static zero_status make_room_for_words(zr_bpe_trainer *t, zero_error *error)
{
    if (t->slots && 2 * (uint64_t)t->word_count < t->slot_mask)
        return ZERO_OK;
    uint64_t slots = t->slots ? 2 * (t->slot_mask + 1) : 1 << 12;
    int32_t *larger = zr_alloc(slots * sizeof *larger, error);
    if (!larger)
        return ZERO_ERR_MEMORY;
    zr_free(t->slots);
    t->slots = larger;
    t->slot_mask = slots - 1;
    for (int64_t i = 0; i < t->word_count; i++)
        t->slots[slot_of_word(t, t->text.data + t->words[i].at, t->words[i].length)] =
            (int32_t)(i + 1);
    return ZERO_OK;
}

static zero_status count_piece(zr_bpe_trainer *t, const char *text, size_t length,
                               zero_error *error)
{
    uint64_t slot = slot_of_word(t, text, length);
    if (t->slots[slot]) {
        t->words[t->slots[slot] - 1].count++;
        return ZERO_OK;
    }
    if (t->word_count == INT32_MAX - 1 || length > UINT32_MAX)
        return zr_fail(error, ZERO_ERR_DATA, "more than %d distinct pieces of text", INT32_MAX - 1);
    ZERO_TRY(zr_trainer_grow((void **)&t->words, &t->word_room, t->word_count + 1, sizeof *t->words,
                             error));
    t->words[t->word_count++] =
        (zr_train_word){.at = t->text.length, .length = (uint32_t)length, .count = 1};
    t->slots[slot] = (int32_t)t->word_count;
    zr_buffer_append(&t->text, text, length);
    return t->text.failed
               ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for %lld distinct pieces of text",
                         (long long)t->word_count)
               : make_room_for_words(t, error);
}

zero_status zr_bpe_trainer_feed(zr_bpe_trainer *t, const char *text, size_t length,
                                zero_error *error)
{
    zr_next_piece next = zr_pieces_gpt2();
    ZERO_TRY(make_room_for_words(t, error));
    for (size_t at = 0, width; at < length; at += width) {
        width = next(&t->classes, text + at, length - at);
        ZERO_TRY(count_piece(t, text + at, width, error));
    }
    return ZERO_OK;
}

// ---- tokens -------------------------------------------------------------------------------------

// Finds the token with these bytes, or makes it.
static zero_status put_token(zr_bpe_trainer *t, const char *bytes, size_t length, int32_t *id,
                             zero_error *error)
{
    *id = zr_text_span_map_find(&t->known, bytes, length);
    if (*id >= 0)
        return ZERO_OK;
    *id = t->token_count++;
    t->token[*id] = (zr_text_span){.at = (uint32_t)t->tokens.length, .length = (uint32_t)length};
    zr_buffer_append(&t->tokens, bytes, length);
    t->token_text = t->tokens.data;
    if (t->tokens.failed || t->tokens.length > UINT32_MAX / 2)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of %d tokens",
                       t->token_count);
    zr_text_span_map_insert(&t->known, t->token[*id], *id);
    return ZERO_OK;
}

// Makes the first tokens: the end of a text, then the bytes in the order of the characters that
// stand for them.
static zero_status begin_tokens(zr_bpe_trainer *t, int32_t vocabulary, zero_error *error)
{
    int32_t id;
    t->token = zr_alloc((size_t)vocabulary * sizeof *t->token, error);
    t->merges = t->token ? zr_alloc((size_t)vocabulary * sizeof *t->merges, error) : NULL;
    t->merge_room = vocabulary;
    if (!t->merges)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(
        zr_text_span_map_create((const char *const *)&t->token_text, vocabulary, &t->known, error));
    ZERO_TRY(put_token(t, ZR_END_OF_TEXT, strlen(ZR_END_OF_TEXT), &id, error));
    for (int32_t symbol = 0; symbol < 512; symbol++) {
        int byte = zr_symbol_byte(symbol);
        char text = (char)byte;
        if (byte >= 0)
            ZERO_TRY(put_token(t, &text, 1, &t->byte_ids[byte], error));
    }
    return ZERO_OK;
}

// ---- pairs and the heap -------------------------------------------------------------------------

static uint64_t slot_of_pair(const zr_bpe_trainer *t, int32_t left, int32_t right)
{
    uint64_t slot =
        ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15ull >> 20 &
        t->pair_mask;
    for (; t->pair_slots[slot]; slot = (slot + 1) & t->pair_mask) {
        const zr_train_pair *pair = &t->pairs[t->pair_slots[slot] - 1];
        if (pair->left == left && pair->right == right)
            break;
    }
    return slot;
}

static zero_status make_room_for_pairs(zr_bpe_trainer *t, zero_error *error)
{
    if (t->pair_slots && 2 * (uint64_t)t->pair_count < t->pair_mask)
        return ZERO_OK;
    uint64_t slots = t->pair_slots ? 2 * (t->pair_mask + 1) : 1 << 12;
    int32_t *larger = zr_alloc(slots * sizeof *larger, error);
    if (!larger)
        return ZERO_ERR_MEMORY;
    zr_free(t->pair_slots);
    t->pair_slots = larger;
    t->pair_mask = slots - 1;
    for (int64_t i = 0; i < t->pair_count; i++)
        t->pair_slots[slot_of_pair(t, t->pairs[i].left, t->pairs[i].right)] = (int32_t)(i + 1);
    return ZERO_OK;
}

static zero_status find_pair(zr_bpe_trainer *t, int32_t left, int32_t right, int32_t *index,
                             zero_error *error)
{
    ZERO_TRY(make_room_for_pairs(t, error));
    uint64_t slot = slot_of_pair(t, left, right);
    if (!t->pair_slots[slot]) {
        ZERO_TRY(zr_trainer_grow((void **)&t->pairs, &t->pair_room, t->pair_count + 1,
                                 sizeof *t->pairs, error));
        t->pairs[t->pair_count++] = (zr_train_pair){.left = left, .right = right};
        t->pair_slots[slot] = (int32_t)t->pair_count;
    }
    *index = t->pair_slots[slot] - 1;
    return ZERO_OK;
}

// Adds `change` to the pair's count for each occurrence of the word.
static zero_status count_pair(zr_bpe_trainer *t, int32_t left, int32_t right, int change,
                              int32_t word, zero_error *error)
{
    int32_t index;
    ZERO_TRY(find_pair(t, left, right, &index, error));
    zr_train_pair *pair = &t->pairs[index];
    pair->count += change * t->words[word].count;
    if (change < 0)
        return ZERO_OK;
    if (!pair->fresh.count)
        zr_ids_append(&t->touched, index);
    if (!pair->fresh.count || pair->fresh.at[pair->fresh.count - 1] != word)
        zr_ids_append(&pair->fresh, word);
    return pair->fresh.failed || t->touched.failed
               ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for %lld pairs of tokens",
                         (long long)t->pair_count)
               : ZERO_OK;
}

static bool goes_before(const zr_train_entry *a, const zr_train_entry *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static zero_status heap_push(zr_bpe_trainer *t, zr_train_entry new, zero_error *error)
{
    zero_status status = zr_trainer_grow((void **)&t->heap, &t->heap_room, t->heap_count + 1,
                                         sizeof *t->heap, error);
    if (status != ZERO_OK) {
        zr_free(new.words.at);
        return status;
    }
    int64_t hole = t->heap_count++;
    for (; hole > 0 && goes_before(&new, &t->heap[(hole - 1) / 2]); hole = (hole - 1) / 2)
        t->heap[hole] = t->heap[(hole - 1) / 2];
    t->heap[hole] = new;
    return ZERO_OK;
}

static zr_train_entry heap_pop(zr_bpe_trainer *t)
{
    zr_train_entry top = t->heap[0], last = t->heap[--t->heap_count];
    int64_t hole = 0;
    for (int64_t child; (child = 2 * hole + 1) < t->heap_count; hole = child) {
        child += child + 1 < t->heap_count && goes_before(&t->heap[child + 1], &t->heap[child]);
        if (!goes_before(&t->heap[child], &last))
            break;
        t->heap[hole] = t->heap[child];
    }
    t->heap[hole] = last;
    return top;
}

// Puts pairs that have arisen into the heap, with the words in which they arose.
static zero_status push_touched(zr_bpe_trainer *t, zero_error *error)
{
    for (int64_t i = 0; i < t->touched.count; i++) {
        zr_train_pair *pair = &t->pairs[t->touched.at[i]];
        zr_train_entry entry = {
            .count = pair->count, .left = pair->left, .right = pair->right, .words = pair->fresh};
        pair->fresh = (zr_ids){0};
        if (entry.count > 0)
            ZERO_TRY(heap_push(t, entry, error));
        else
            zr_free(entry.words.at);
    }
    t->touched.count = 0;
    return ZERO_OK;
}

// ---- learning -----------------------------------------------------------------------------------

static zero_status spell_words(zr_bpe_trainer *t, zero_error *error)
{
    t->symbols = zr_alloc(t->text.length * sizeof *t->symbols, error);
    if (!t->symbols)
        return ZERO_ERR_MEMORY;
    for (size_t i = 0; i < t->text.length; i++)
        t->symbols[i] = t->byte_ids[(unsigned char)t->text.data[i]];
    for (int64_t w = 0; w < t->word_count; w++) {
        const int32_t *ids = t->symbols + t->words[w].at;
        for (uint32_t i = 0; i + 1 < t->words[w].length; i++)
            ZERO_TRY(count_pair(t, ids[i], ids[i + 1], 1, (int32_t)w, error));
    }
    return push_touched(t, error);
}

// Replaces every occurrence of the pair in one word by `id`, from the left, and updates the counts
// of the neighbouring pairs.
static zero_status merge_in_word(zr_bpe_trainer *t, int32_t word, const zr_train_entry *what,
                                 int32_t id, zero_error *error)
{
    zr_train_word *w = &t->words[word];
    int32_t *ids = t->symbols + w->at;
    for (uint32_t i = 0; i + 1 < w->length; i++) {
        if (ids[i] != what->left || ids[i + 1] != what->right)
            continue;
        if (i > 0) {
            ZERO_TRY(count_pair(t, ids[i - 1], what->left, -1, word, error));
            ZERO_TRY(count_pair(t, ids[i - 1], id, 1, word, error));
        }
        ids[i] = id;
        w->length--;
        memmove(ids + i + 1, ids + i + 2, (w->length - i - 1) * sizeof *ids);
        if (i + 1 < w->length) {
            ZERO_TRY(count_pair(t, what->right, ids[i + 1], -1, word, error));
            ZERO_TRY(count_pair(t, id, ids[i + 1], 1, word, error));
        }
    }
    return ZERO_OK;
}

static zero_status merge_everywhere(zr_bpe_trainer *t, const zr_train_entry *what,
                                    zero_error *error)
{
    zr_text_span left = t->token[what->left], right = t->token[what->right];
    zr_buffer joined = {0};
    int32_t id;
    zr_buffer_append(&joined, t->tokens.data + left.at, left.length);
    zr_buffer_append(&joined, t->tokens.data + right.at, right.length);
    zero_status status = joined.failed
                             ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a token of %u bytes",
                                       left.length + right.length)
                             : put_token(t, joined.data, joined.length, &id, error);
    zr_buffer_free(&joined);
    if (status == ZERO_OK)
        status = zr_trainer_grow((void **)&t->merges, &t->merge_room, t->merge_count + 1,
                                 sizeof *t->merges, error);
    if (status == ZERO_OK)
        t->merges[t->merge_count++] = (zr_merge){.left = what->left, .right = what->right};
    for (int64_t i = 0; i < what->words.count && status == ZERO_OK; i++)
        status = merge_in_word(t, what->words.at[i], what, id, error);
    return status == ZERO_OK ? push_touched(t, error) : status;
}

zero_status zr_bpe_trainer_learn(zr_bpe_trainer *t, int32_t vocabulary, int64_t least,
                                 void (*step)(void *user, int32_t tokens), void *user,
                                 zero_error *error)
{
    if (vocabulary < 257)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a vocabulary of %d: 256 bytes and the end of a text are 257 tokens, before "
                       "any is learnt",
                       vocabulary);
    ZERO_TRY(begin_tokens(t, vocabulary, error));
    ZERO_TRY(spell_words(t, error));
    while (t->token_count < vocabulary && t->heap_count) {
        int32_t index;
        zr_train_entry top = heap_pop(t);
        zero_status status = find_pair(t, top.left, top.right, &index, error);
        int64_t now = status == ZERO_OK ? t->pairs[index].count : 0;
        if (status == ZERO_OK && now > 0 && now != top.count) {
            top.count = now;
            ZERO_TRY(heap_push(t, top, error));
            continue;
        }
        bool enough = now >= ZR_MAX(least, 1);
        if (status == ZERO_OK && enough)
            status = merge_everywhere(t, &top, error);
        zr_free(top.words.at);
        ZERO_TRY(status);
        if (!enough && now > 0)
            break;
        if (step)
            step(user, t->token_count);
    }
    return ZERO_OK;
}

int32_t zr_bpe_trainer_vocabulary(const zr_bpe_trainer *t) { return t->token_count; }
