// How the library sentencepiece prepares a text. A tokenizer.json that was made of its file has
// these rules next to the parts that `tokenizers` knows, which cannot express them exactly: there,
// a charsmap is applied to whole graphemes, and symbols are not kept from it.
#ifndef ZR_TOKENIZER_SPM_NORMALIZE_H
#define ZR_TOKENIZER_SPM_NORMALIZE_H

#include "base/json_writer.h"
#include "tokenizer/bpe_encode.h"
#include "tokenizer/bpe_load.h"
#include "tokenizer/piece_trie.h"

typedef struct zr_spm_rules {
    bool adds_space, trims, escapes, suffix; // as in sentencepiece.h
    int32_t *symbols; // (symbol_count) ids of the user-defined pieces, which are kept as they are
    int32_t symbol_count;
    zr_piece_trie found; // those symbols; no edges if there are none
} zr_spm_rules;

// Loads the rules of a tokenizer.json into loader->bpe->rules; without effect if it has none.
zero_status zr_spm_rules_load(zr_bpe_loader *loader, const json_t *model, zero_error *error);
void zr_spm_rules_free(zr_spm_rules *rules);
// Returns whether a charsmap leaves ASCII letters and spaces next to each other as they are.
bool zr_charsmap_keeps_words(const zr_charsmap *map);

// Prepares a text, as zr_normalize does.
zero_status zr_spm_normalize(zr_encoder *encoder, bool begins, const char *text, size_t length,
                             const char **out, size_t *out_length);

#define ZR_SPM_RULES "libzero" // the key of the rules in a tokenizer.json's model

#endif
