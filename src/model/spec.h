// The text that names a new model: a preset, or a preset with fields, such as
// "gpt2:layers=4,heads=4,width=128".
#ifndef ZR_MODEL_SPEC_H
#define ZR_MODEL_SPEC_H

#include "base/alloc.h"

#define ZR_SPEC_WORD 32 // the most bytes of a name or a value

typedef struct zr_spec_field { // its value goes to one of count, fraction, real
    const char *name;
    int64_t *count;
    float *fraction;
    double *real;
    bool given; // set by zr_spec_parse
} zr_spec_field;

// Parses the fields after the preset's name. Each may appear once; an unknown name is refused with
// the nearest one that exists.
zero_status zr_spec_parse(const char *spec, zr_spec_field *fields, int count, zero_error *error);
int zr_spec_distance(const char *a, const char *b); // Levenshtein; b shorter than ZR_SPEC_WORD
// Copies text[0..length) if it fits; a longer word is cut, and then matches no name.
void zr_spec_copy(char word[ZR_SPEC_WORD], const char *text, size_t length);

#endif
