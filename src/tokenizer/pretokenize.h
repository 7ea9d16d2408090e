// Pre-tokenizers cut a text into pieces, and no token crosses two of them. The regular expressions
// that models publish are recognised by their text and built here as state machines over code
// points; any other expression is refused with a message that quotes it.
#ifndef ZR_TOKENIZER_PRETOKENIZE_H
#define ZR_TOKENIZER_PRETOKENIZE_H

#include "base/alloc.h"

// The classes of characters that the regular expressions of pre-tokenizers use: letter, number,
// white space, or other. They are pinned to Unicode 16.0 (unicode_ranges.c), so that ids do not
// depend on the machine.
typedef enum zr_class { ZR_OTHER, ZR_LETTER, ZR_NUMBER, ZR_SPACE } zr_class;

#define ZR_CLASSED 0x32400 // from here on everything is ZR_OTHER

typedef struct zr_classes {
    unsigned char of[ZR_CLASSED]; // the zr_class of each code point
} zr_classes;

typedef struct zr_code_range {
    int32_t first, last;
} zr_code_range;
extern const zr_code_range zr_letters[], zr_numbers[];
extern const int zr_letter_ranges, zr_number_ranges;

void zr_classes_fill(zr_classes *classes);

// Returns the class of the character at text[0..left), left > 0, and its bytes. A byte that belongs
// to no valid UTF-8 is one ZR_OTHER.
zr_class zr_class_at(const zr_classes *classes, const char *text, size_t left, int *bytes);
bool zr_is_word(int32_t code_point); // \w: part of a word

// Returns the bytes of the piece that begins at text[0], 0 < result <= length. Text from
// text[length] on has no influence.
typedef size_t (*zr_next_piece)(const zr_classes *classes, const char *text, size_t length);

// Returns the machine for an expression as tokenizer.json writes it; NULL if the expression is
// unknown.
zr_next_piece zr_pieces_for_expression(const char *expression);
zr_next_piece zr_pieces_gpt2(void);
zr_next_piece zr_pieces_qwen2(void);
zr_next_piece zr_pieces_llama3(void);
// Returns the expression of one of these three.
const char *zr_expression_of_pieces(zr_next_piece next);
// Cut single numbers, or runs of them, apart from everything else.
size_t zr_piece_digit(const zr_classes *classes, const char *text, size_t length);
size_t zr_piece_digits(const zr_classes *classes, const char *text, size_t length);

#endif
