// The Unigram model: of all ways to write a text as pieces, the one whose scores have the highest
// sum.
//
// Where two ways have the same sum, rounding decides. The library sentencepiece adds in fp32 from
// the beginning of the text on, Hugging Face's `tokenizers` in fp64 from the beginning of each
// piece of its pre-tokenizer. Sums of fp32 scores are exact in fp64, so there a text may be cut
// anywhere between words.
#ifndef ZR_TOKENIZER_UNIGRAM_H
#define ZR_TOKENIZER_UNIGRAM_H

#include "tokenizer/bpe_load.h"
#include "tokenizer/piece_trie.h"

typedef struct zr_unigram {
    double *scores;     // (vocabulary) of the model's tokens
    zr_piece_trie trie; // of those that are found in a text
    double unknown;     // score of a character that is no piece
    bool fp32;          // adds as sentencepiece does, in texts of up to ZR_UNIGRAM_ROUNDED bytes
    bool exact;         // all scores are fp32
} zr_unigram;

// In a longer text, sums in fp32 would be so large that rounding decides between all pieces.
enum { ZR_UNIGRAM_ROUNDED = 1 << 16 };

// Loads the model of a tokenizer.json: its pieces in order, each with its score, and its settings.
zero_status zr_unigram_load(zr_bpe_loader *loader, const json_t *model, const json_t *added,
                            zero_error *error);
// Derives the scores that depend on all others, and what is found in a text: all tokens but the
// special ones; with SentencePiece's rules neither bytes. Call it after the pipeline is loaded.
zero_status zr_unigram_finish(zr_bpe_loader *loader, zero_error *error);
// Returns the score of a user-defined piece of that many bytes; other pieces seldom reach it.
double zr_unigram_symbol_score(uint32_t length);
void zr_unigram_free(zr_unigram *unigram);

#endif
