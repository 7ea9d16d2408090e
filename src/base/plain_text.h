// Text on its way to a person. Names come from files that nobody has vouched for: a terminal would
// obey what is in them, and a line end in one looks like a line of the program's own. Messages
// (errors.c) and reports pass through here, so that who makes them need not think of it.
#ifndef ZR_BASE_PLAIN_TEXT_H
#define ZR_BASE_PLAIN_TEXT_H

#include "base/errors.h"

// Bytes of the UTF-8 character at text[0..length), 0 where it is not one (overlong, surrogate,
// above U+10FFFF, cut short).
size_t zr_utf8_bytes(const unsigned char *text, size_t length);
// The text with control characters as \n, \t, \r or \xNN, and \xNN for each byte that is no UTF-8;
// 0-terminated, and cut before a character or an escape for which `size` bytes do not suffice. What
// is plain already comes back as it is. Returns its length.
size_t zr_plain_text(const char *text, char *out, size_t size);
// The same for one line of a report (of less than 2 * ZERO_MESSAGE_BYTES), whose line end stays.
void zr_plain_line(const char *line, void (*write)(void *user, const char *text), void *user);

#endif
