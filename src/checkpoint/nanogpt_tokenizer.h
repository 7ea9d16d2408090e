// The tokenizer of characters that nanoGPT keeps in meta.pkl, next to its data or to ckpt.pt.
#ifndef ZR_CHECKPOINT_NANOGPT_TOKENIZER_H
#define ZR_CHECKPOINT_NANOGPT_TOKENIZER_H

#include "base/errors.h"

// Writes the tokenizer of DIR/meta.pkl, where `checkpoint` is in DIR, into `directory`. *there is
// set if there is one whose tokens are single characters; other tokens are not written.
// ZERO_ERR_DATA for a pickle that cannot be read, or that contradicts itself.
zero_status zr_nanogpt_tokenizer_write(const char *checkpoint, const char *directory, bool *there,
                                       zero_error *error);

#endif
