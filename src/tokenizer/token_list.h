// A tokenizer as llama.cpp knows it: a list of tokens with their kinds, and merges or scores. All
// else is one of a few names.
//
//   gpt2    byte-level BPE: tokens in GPT-2's alphabet, merges in order, and `pre`, which names how
//           text is cut into pieces
//   llama   SentencePiece's BPE: tokens with U+2581 for a space, and a score each; of two
//           neighbours the pair is merged whose token has the highest score. llama.cpp's has byte
//           fallback.
#ifndef ZR_TOKENIZER_TOKEN_LIST_H
#define ZR_TOKENIZER_TOKEN_LIST_H

#include "tokenizer/bpe_tables.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/tokenizer.h"

typedef enum zr_token_kind { // with llama.cpp's numbers
    ZR_TOKEN_NORMAL = 1,
    ZR_TOKEN_UNKNOWN = 2,
    ZR_TOKEN_CONTROL = 3, // a special token
    ZR_TOKEN_ADDED = 4,   // an added token that is not special
    ZR_TOKEN_UNUSED = 5,  // an id without a token
    ZR_TOKEN_BYTE = 6,    // <0x0A>
    ZR_TOKEN_SYMBOL = 7   // a user-defined piece of a Unigram model; llama.cpp has none
} zr_token_kind;

typedef struct zr_token_list {
    bool scored;          // llama; else gpt2
    const char *pre;      // of gpt2; a constant
    int32_t count;        // of tokens
    zr_buffer text;       // of tokens and merges
    zr_text_span *tokens; // (count)
    int32_t *kinds;       // (count) zr_token_kind
    float *scores;        // (count) of llama; else NULL
    zr_text_span *merges; // (merge_count) of gpt2: "left right"
    int32_t merge_count;
    int32_t begin, end, unknown; // -1: none
    bool adds_begin, adds_end;   // around a text
    bool adds_space;             // of llama: before a text
    bool byte_fallback;          // of llama: an unknown character becomes its bytes
    // Of llama: how transformers' LlamaTokenizer adds the space ("first", "always", "never"; a
    // constant). NULL: as SentencePiece does, before every text that is not empty.
    const char *scheme;
    // SentencePiece's other rules (sentencepiece.h), of files of its own; `ruled` says that they
    // count. Unigram models have them always.
    bool unigram, ruled, trims, escapes, suffix;
    const char *charsmap; // (charsmap_bytes)
    size_t charsmap_bytes;
} zr_token_list;

// Lists a tokenizer's tokens, and up to `count` ids without a token. If it has no token that ends a
// text, the one of byte 0 does, which no text has: llama.cpp would take another.
// ZERO_ERR_UNSUPPORTED, with the reason, for a tokenizer that llama.cpp cannot have: "chars", and
// text that is cut or prepared in other ways.
zero_status zr_token_list_of(const zr_tokenizer *tokenizer, int64_t count, zr_token_list *out,
                             zero_error *error);
// Writes the list as a tokenizer.json and a tokenizer_config.json. ZERO_ERR_DATA for ids that are
// out of range, and two tokens of one text.
zero_status zr_token_list_json(const zr_token_list *list, const char *name, zr_buffer *json,
                               zr_buffer *config, zero_error *error);
void zr_token_list_free(zr_token_list *list); // a zeroed one is allowed

// How text is cut into pieces, under llama.cpp's name.
typedef struct zr_token_pre {
    const char *name, *others; // others: " a b ", which mean the same; NULL: none
    zr_next_piece (*pieces)(void);
    bool digits;         // single numbers are cut off first
    bool ignores_merges; // a piece that is a token is that token
} zr_token_pre;
const zr_token_pre *zr_token_pre_find(const char *name); // NULL if it is not built

#endif
