// Text for people: names made harmless, amounts with units, and how long something takes.
#ifndef ZR_BASE_TEXT_H
#define ZR_BASE_TEXT_H

#include "base/errors.h"

#include <stdbool.h>
#include <time.h>

// Names come from files that may be hostile: a terminal would obey control characters in them, and
// a line end in a name could pass for a line of the program's own. All messages (errors.c) and
// reports go through zr_plain_text, so that the code that makes them need not care.

// Returns the bytes of the UTF-8 character at text[0..length), or 0 if it is invalid (overlong,
// surrogate, above U+10FFFF, cut short).
size_t zr_utf8_bytes(const unsigned char *text, size_t length);
// Copies the text, with control characters as \n, \t, \r or \xNN and each byte of invalid UTF-8 as
// \xNN. The copy ends with a 0 and is cut before a character or escape that does not fit in `size`
// bytes. Text that is plain already is copied unchanged. Returns the copy's length.
size_t zr_plain_text(const char *text, char *out, size_t size);
// The same for one line of a report (shorter than 2 * ZERO_MESSAGE_BYTES); its line end stays.
void zr_plain_line(const char *line, void (*write)(void *user, const char *text), void *user);

#define ZR_BYTES_TEXT 32
// Writes bytes with units of 1000: "987 B", "1.05 MB", "12.3 GB".
void zr_bytes_text(double bytes, char out[static ZR_BYTES_TEXT]);

#define ZR_SECONDS_TEXT 32
// Writes seconds: "0.123 ms", "12.3 ms", "1.23 s", "12.3 min", "1.23 h".
void zr_seconds_text(double seconds, char out[static ZR_SECONDS_TEXT]);

#define ZR_LENGTH_TEXT 96
// Writes how long something takes: "about 12 s"; from a minute on with the time of day at which it
// ends, "about 1.2 min, until 17:10" or "about 41 min, until 17:10"; from an hour on "about 2 h
// 5 min, until 17:10", and if it ends on another day, "about 9 h, until Sat 28 Nov 02:10". rough:
// with the words "very roughly" and one digit. now: the time of day at which it begins.
void zr_length_text(double seconds, time_t now, bool rough, char out[static ZR_LENGTH_TEXT]);
// Writes, where the number of steps is unknown, "A run of 1000 steps, without evaluations and
// checkpoints: about 41 min, until 17:10". step: seconds of one step; start: seconds before the
// first step, 0 if unknown.
void zr_thousand_steps_text(double step, double start, time_t now, bool rough,
                            char out[static 2 * ZR_LENGTH_TEXT]);
// Returns the value rounded to one significant digit.
double zr_one_digit(double value);

#endif
