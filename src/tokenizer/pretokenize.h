// Pre-tokenizers cut a text into pieces, and no token crosses two of them. The regular expressions
// that models publish are recognised by their text and built here as state machines over code
// points; any other expression is refused with a message that quotes it.
#ifndef ZR_TOKENIZER_PRETOKENIZE_H
#define ZR_TOKENIZER_PRETOKENIZE_H

#include "tokenizer/unicode_class.h"

// Returns the bytes of the piece that begins at text[0], 0 < result <= length. What comes from
// text[length] on has no influence.
typedef size_t (*zr_next_piece)(const zr_classes *classes, const char *text, size_t length);

// Returns the machine for an expression as tokenizer.json writes it; NULL: the expression is
// unknown.
zr_next_piece zr_pieces_of(const char *expression);
zr_next_piece zr_pieces_gpt2(void);
zr_next_piece zr_pieces_qwen2(void);
// Cut single numbers, or runs of them, apart from everything else.
size_t zr_piece_digit(const zr_classes *classes, const char *text, size_t length);
size_t zr_piece_digits(const zr_classes *classes, const char *text, size_t length);

#endif
