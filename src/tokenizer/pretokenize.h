// Pre-tokenizers: a text is cut into pieces, and no token spans two. The regular expressions that
// models publish are known by their words and built here as state machines over code points;
// another expression is refused by quoting it.
#ifndef ZR_TOKENIZER_PRETOKENIZE_H
#define ZR_TOKENIZER_PRETOKENIZE_H

#include "tokenizer/unicode_class.h"

// Bytes of the piece that begins at text[0], 0 < result <= length; what follows text[length] does
// not count.
typedef size_t (*zr_next_piece)(const zr_classes *classes, const char *text, size_t length);

// The machine for an expression as tokenizer.json writes it; NULL: not known.
zr_next_piece zr_pieces_of(const char *expression);
zr_next_piece zr_pieces_gpt2(void);
// Single numbers, or runs of them, apart from everything else.
size_t zr_piece_digit(const zr_classes *classes, const char *text, size_t length);
size_t zr_piece_digits(const zr_classes *classes, const char *text, size_t length);

#endif
