// The inside of a trainer: bpe_train.c fills it by learning, bpe_train_save.c reads it to write.
#ifndef ZR_TOKENIZER_BPE_TRAIN_INTERNAL_H
#define ZR_TOKENIZER_BPE_TRAIN_INTERNAL_H

#include "tokenizer/bpe_tables.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/pretokenize.h"

// A distinct piece: its text and symbols are at [at, at+length); count: how often it occurs.
typedef struct zr_train_word {
    size_t at;
    uint32_t length;
    int64_t count;
} zr_train_word;
// A pair of neighbouring ids; fresh: the words in which it has just arisen.
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
    zr_buffer text;       // the text of the distinct pieces
    zr_train_word *words; // (word_count)
    int64_t word_count, word_room;
    int32_t *slots; // (slot_mask + 1) word index + 1; 0: free
    uint64_t slot_mask;
    int32_t *symbols; // (text.length) the ids of each word, at the position of its text

    zr_train_pair *pairs; // (pair_count)
    int64_t pair_count, pair_room;
    int32_t *pair_slots; // (pair_mask + 1) pair index + 1; 0: free
    uint64_t pair_mask;
    zr_ids touched;       // pairs whose `fresh` has words
    zr_train_entry *heap; // (heap_count)
    int64_t heap_count, heap_room;

    zr_buffer tokens;       // the bytes of the tokens
    const char *token_text; // is tokens.data
    zr_text_span *token;    // (token_count)
    int32_t token_count, byte_ids[256];
    zr_text_span_map known; // from bytes to ids
    zr_merge *merges;       // (merge_count) only left and right are used
    int64_t merge_count, merge_room;
};

zero_status zr_trainer_grow(void **array, int64_t *capacity, int64_t needed, size_t width,
                            zero_error *error);

#endif
