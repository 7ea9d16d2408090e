// Numbers in free text: cells of tables of runs, and names of models. Pure.
//
// "2,048", "8k", "1.5M" and "8 x 4 x 64" are numbers: commas between groups of three digits are
// skipped, a unit (k, M, B, T, "million") multiplies, and so do "x" and "*" between two of them.
// What does not begin with a digit is none. All of this is the same in every locale.
#ifndef ZR_SIMULATE_TEXT_H
#define ZR_SIMULATE_TEXT_H

#include <stdbool.h>

// Returns the number with which a text begins; 0: it begins with none.
double zr_sim_text_number(const char *text);
// The same of samples or tokens: "8k" is 8192 and "4M" 4194304, because lengths are powers of two;
// "4.19M" is as it says.
double zr_sim_text_length(const char *text);
// Returns the tokens with which a text begins ("4M tokens"); 0: it begins with no number, or one of
// something else.
double zr_sim_text_tokens(const char *text);
// Returns billions of parameters: "125M" is 0.125, and so is "0.125"; 0: none.
double zr_sim_text_billions(const char *text);
// Returns the billions that a name of a model tells ("MPT-30b"); 0: it tells none.
double zr_sim_name_billions(const char *name);
// Returns whether a text has a part, whatever their capitals.
bool zr_sim_text_has(const char *text, const char *part);
bool zr_sim_text_begins(const char *text, const char *word); // likewise, with a whole word
// Returns whether a name has a part, whatever their capitals, and "-", "_" or " " between words.
bool zr_sim_name_has(const char *name, const char *part);
const char *zr_sim_skip_spaces(const char *text);

#endif
