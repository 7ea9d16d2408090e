// Learning a byte-level BPE: pieces of the text are counted, then the most frequent pair of
// neighbours becomes a token, again and again.
#ifndef ZR_TOKENIZER_BPE_TRAIN_H
#define ZR_TOKENIZER_BPE_TRAIN_H

#include "tokenizer/pretokenize.h"

typedef struct zr_bpe_trainer zr_bpe_trainer;

// id 0 of what is learnt here; the 256 bytes follow, then the merges
#define ZR_END_OF_TEXT "<|endoftext|>"

zero_status zr_bpe_trainer_create(zr_bpe_trainer **out, zero_error *error);
void zr_bpe_trainer_destroy(zr_bpe_trainer *trainer);
// Counts the pieces of one document, cut as GPT-2 does. May be called again and again.
zero_status zr_bpe_trainer_feed(zr_bpe_trainer *trainer, const char *text, size_t length,
                                zero_error *error);
// Learns until there are `vocabulary` tokens, or no pair occurs at least `least` times. Same text,
// same merges: of equally frequent pairs the one with the lower ids is first, as in the
// `tokenizers` library, whose merges these are. `step` (may be NULL) gets the tokens there are, now
// and then. At most once.
zero_status zr_bpe_trainer_learn(zr_bpe_trainer *trainer, int32_t vocabulary, int64_t least,
                                 void (*step)(void *user, int32_t tokens), void *user,
                                 zero_error *error);
// tokens learnt, the first 257 among them
int32_t zr_bpe_trainer_vocabulary(const zr_bpe_trainer *trainer);
// tokenizer.json and tokenizer_config.json in a directory that exists, durable; transformers opens
// it.
zero_status zr_bpe_trainer_save(const zr_bpe_trainer *trainer, const char *directory,
                                zero_error *error);
bool zr_bpe_trainer_wrote(const char *path); // whether that file begins as one of these two

#endif
