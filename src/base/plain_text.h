// Text on its way to a person. Names come from files that may be hostile: a terminal would obey
// control characters in them, and a line end in a name could pass for a line of the program's own.
// All messages (errors.c) and reports go through here, so that the code that makes them need not
// care.
#ifndef ZR_BASE_PLAIN_TEXT_H
#define ZR_BASE_PLAIN_TEXT_H

#include "base/errors.h"

// Returns the bytes of the UTF-8 character at text[0..length), or 0 if it is invalid (overlong,
// surrogate, above U+10FFFF, cut short).
size_t zr_utf8_bytes(const unsigned char *text, size_t length);
// Copies the text, with control characters as \n, \t, \r or \xNN and each byte of invalid UTF-8 as
// \xNN. The copy ends with a 0 and is cut before a character or escape that does not fit in `size`
// bytes. Text that is plain already is copied unchanged. Returns the copy's length.
size_t zr_plain_text(const char *text, char *out, size_t size);
// The same for one line of a report (shorter than 2 * ZERO_MESSAGE_BYTES); its line end stays.
void zr_plain_line(const char *line, void (*write)(void *user, const char *text), void *user);

#endif
