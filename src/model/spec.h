// What a person types to name a new model: a preset, or a preset with fields.
// "gpt2:layers=4,heads=4,width=128"
#ifndef ZR_MODEL_SPEC_H
#define ZR_MODEL_SPEC_H

#include "base/alloc.h"

#define ZR_SPEC_WORD 32 // bytes of a name or a value, at most

typedef struct zr_spec_field { // one of count, fraction, real is where its value goes
    const char *name;
    int64_t *count;
    float *fraction;
    double *real;
    bool given; // set by zr_spec_parse
} zr_spec_field;

// The fields after the preset's name. Every field may appear once; a name that does not exist is
// answered with the nearest that does.
zero_status zr_spec_parse(const char *spec, zr_spec_field *fields, int count, zero_error *error);
int zr_spec_distance(const char *a, const char *b); // Levenshtein; b shorter than ZR_SPEC_WORD
// Copies text[0..length) where it fits; a longer word is cut, and then matches no name.
void zr_spec_copy(char word[ZR_SPEC_WORD], const char *text, size_t length);

#endif
