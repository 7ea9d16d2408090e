// How long something takes, in words for people, and until when.
#ifndef ZR_BASE_LENGTH_TEXT_H
#define ZR_BASE_LENGTH_TEXT_H

#include <stdbool.h>
#include <time.h>

#define ZR_LENGTH_TEXT 96

// Writes "about 12 s"; from a minute on with the clock's time of its end, "about 1.2 min, until
// 17:10" or "about 41 min, until 17:10"; from an hour on "about 2 h 5 min, until 17:10", and if it
// ends on another day, "about 9 h, until Sat 28 Nov 02:10". rough: with the words "very roughly"
// and one digit. now: of the clock.
void zr_length_text(double seconds, time_t now, bool rough, char out[static ZR_LENGTH_TEXT]);
// Writes, where the number of steps is unknown, "A run of 1000 steps, without evaluations and
// checkpoints: about 41 min, until 17:10". start: seconds before the first step; 0: unknown.
void zr_thousand_steps_text(double step, double start, time_t now, bool rough,
                            char out[static 2 * ZR_LENGTH_TEXT]);
// Returns a value of which one digit is left that counts.
double zr_one_digit(double value);

#endif
