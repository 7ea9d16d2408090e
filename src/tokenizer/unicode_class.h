// The classes of characters that the regular expressions of pre-tokenizers use: letter, number,
// white space, or none of these. They are pinned to Unicode 16.0 (unicode_ranges.c), so that ids do
// not depend on the machine.
#ifndef ZR_TOKENIZER_UNICODE_CLASS_H
#define ZR_TOKENIZER_UNICODE_CLASS_H

#include "base/alloc.h"

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

#endif
