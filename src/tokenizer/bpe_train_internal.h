// The inside of a trainer: learning (bpe_train.c) fills it, writing (bpe_train_save.c) reads it.
#ifndef ZR_TOKENIZER_BPE_TRAIN_INTERNAL_H
#define ZR_TOKENIZER_BPE_TRAIN_INTERNAL_H

#include "tokenizer/bpe_tables.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/ids.h"
#include "tokenizer/pretokenize.h"

// text and symbols [at, at+length); its occurrences
typedef struct zr_train_word {
    size_t at;
    uint32_t length;
    int64_t count;
} zr_train_word;
// fresh: words in which it arose just now
typedef struct zr_train_pair {
    int32_t left, right;
    int64_t count;
    zr_ids fresh;
} zr_train_pair;
typedef struct zr_train_entry {
    int64_t count;
    int32_t left, right;
    zr_ids words;
} zr_train_entry;

struct zr_bpe_trainer {
    zr_classes classes;
    zr_buffer text;       // of the distinct pieces
    zr_train_word *words; // (word_count)
    int64_t word_count, word_room;
    int32_t *slots; // (slot_mask + 1) word + 1
    uint64_t slot_mask;
    int32_t *symbols; // (text.length) ids of each word, at its place in the text

    zr_train_pair *pairs; // (pair_count)
    int64_t pair_count, pair_room;
    int32_t *pair_slots; // (pair_mask + 1) pair + 1
    uint64_t pair_mask;
    zr_ids touched;       // pairs with `fresh` words
    zr_train_entry *heap; // (heap_count)
    int64_t heap_count, heap_room;

    zr_buffer tokens;       // their bytes
    const char *token_text; // tokens.data
    zr_text_span *token;    // (token_count)
    int32_t token_count, byte_ids[256];
    zr_text_span_map known; // bytes to ids
    zr_merge *merges;       // (merge_count) left and right alone
    int64_t merge_count, merge_room;
};

zero_status zr_trainer_grow(void **array, int64_t *capacity, int64_t needed, size_t width,
                            zero_error *error);

#endif
