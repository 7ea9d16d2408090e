// Texts as Python sees them: strings of code points. All texts here are valid UTF-8.
#ifndef ZR_CHAT_UNICODE_TEXT_H
#define ZR_CHAT_UNICODE_TEXT_H

#include "base/alloc.h"

// Returns the bytes of the character at the beginning of text[0..left), left > 0.
size_t zr_text_step(const char *text, size_t left);
// The same, with its code point.
size_t zr_text_next(const char *text, size_t left, int32_t *code);
size_t zr_text_put(char *out, int32_t code); // writes a character; returns its bytes, 1 to 4
size_t zr_text_count(const char *text, size_t length); // code points
// Returns the position in bytes of code point `index`, at most `length`.
size_t zr_text_offset(const char *text, size_t length, size_t index);
bool zr_text_is_valid(const char *text, size_t length, size_t *wrong); // *wrong: the first bad byte

bool zr_text_is_space(int32_t code); // str.isspace
// Return how many bytes of white space the text begins and ends with.
size_t zr_text_leading_spaces(const char *text, size_t length);
size_t zr_text_trailing_spaces(const char *text, size_t length);

// Returns the position of `part` in text[from..length), or `length` + 1 if it is not there.
size_t zr_text_search(const char *text, size_t length, size_t from, const char *part,
                      size_t part_length);

typedef enum zr_text_case { ZR_CASE_LOWER, ZR_CASE_UPPER, ZR_CASE_TITLE } zr_text_case;
// Appends the character in that case: Unicode's simple mapping, and of the longer ones the usual
// (a sharp s in capitals is two letters, a dotted capital I in small ones a letter and a dot).
void zr_text_append_case(zr_buffer *out, int32_t code, zr_text_case which);
bool zr_text_has_case(int32_t code);
bool zr_text_is_printable(int32_t code); // str.isprintable

typedef enum zr_text_class { ZR_CLASS_ALPHA, ZR_CLASS_DIGIT, ZR_CLASS_SPACE } zr_text_class;
bool zr_text_is(int32_t code, zr_text_class which);

// Reads a number with a point in every locale; NaN if the text is none.
double zr_text_to_real(const char *text, size_t length);
// Appends a float as Python's repr writes it.
void zr_text_append_real(zr_buffer *out, double value);

#endif
