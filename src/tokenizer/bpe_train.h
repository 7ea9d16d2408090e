// Learning a byte-level BPE: the pieces of the text are counted, then the most frequent pair of
// neighbours becomes a token, again and again.
#ifndef ZR_TOKENIZER_BPE_TRAIN_H
#define ZR_TOKENIZER_BPE_TRAIN_H

#include "tokenizer/pretokenize.h"

typedef struct zr_bpe_trainer zr_bpe_trainer;

// The text of id 0 of a learnt tokenizer; the ids of the 256 bytes follow, then those of the
// merges.
#define ZR_END_OF_TEXT "<|endoftext|>"

zero_status zr_bpe_trainer_create(zr_bpe_trainer **out, zero_error *error);
void zr_bpe_trainer_destroy(zr_bpe_trainer *trainer);
// Counts the pieces of one document, cut as GPT-2 cuts them. It may be called many times.
zero_status zr_bpe_trainer_feed(zr_bpe_trainer *trainer, const char *text, size_t length,
                                zero_error *error);
// Learns until there are `vocabulary` tokens, or no pair occurs at least `least` times. The same
// text gives the same merges, which are those of the `tokenizers` library: if pairs are equally
// frequent, the one with the lower ids is merged first. `step` (may be NULL) gets the current
// number of tokens now and then. It may be called once.
zero_status zr_bpe_trainer_learn(zr_bpe_trainer *trainer, int32_t vocabulary, int64_t least,
                                 void (*step)(void *user, int32_t tokens), void *user,
                                 zero_error *error);
// Returns the number of tokens learnt, including the first 257.
int32_t zr_bpe_trainer_vocabulary(const zr_bpe_trainer *trainer);
// Writes tokenizer.json and tokenizer_config.json durably into a directory that exists;
// transformers can open it.
zero_status zr_bpe_trainer_save(const zr_bpe_trainer *trainer, const char *directory,
                                zero_error *error);
// Returns whether that file begins like one of these two.
bool zr_bpe_trainer_wrote(const char *path);

#endif
