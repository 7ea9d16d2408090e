// Literals of a template: numbers, and strings with Python's escapes.
#ifndef ZR_CHAT_TEMPLATE_LITERAL_H
#define ZR_CHAT_TEMPLATE_LITERAL_H

#include "chat/template_lexer.h"

// Reads the literal at the beginning of text[0..length), which begins with a digit or a quote, into
// *out, and returns how many bytes it takes; 0 if there is no memory. *why is set if it is none.
// `has_before`: text[-1] may be read. A string's value lies in `memory`.
size_t zr_template_read_literal(const char *text, size_t length, bool has_before,
                                zr_value_memory *memory, zr_template_token *out, const char **why);

#endif
