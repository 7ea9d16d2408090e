// The numbers of a language model's configuration: a table of an architecture's fields drives how
// they are checked, read from config.json and written to it. What a table cannot express (a
// variant's values for absent keys, values that follow from other fields) is code of the
// architecture.
#ifndef ZR_MODEL_LM_FIELDS_H
#define ZR_MODEL_LM_FIELDS_H

#include "base/json_writer.h"

typedef enum zr_lm_field_kind {
    ZR_FIELD_SIZE,        // int64_t, 1 or more; a file must have it
    ZR_FIELD_OPTIONAL,    // int64_t; 0 if not given (in a file: null or absent)
    ZR_FIELD_EPSILON,     // float, above 0 and below 1
    ZR_FIELD_DEVIATION,   // float, finite and not negative
    ZR_FIELD_PROBABILITY, // float, from 0 to below 1
} zr_lm_field_kind;

typedef struct zr_lm_field {
    const char *key; // in config.json, if it is there, and in messages
    zr_lm_field_kind kind;
    size_t at;    // offset in the architecture's struct: zero_gpt2_config, ...
    int64_t most; // of a size; 0 if the limit is the size at `most_at`
    size_t most_at;
    const char *other_key; // another name of a size that files may use; NULL if there is none
    double otherwise;      // transformers' value of a float that a file does not have
} zr_lm_field;

struct zr_model_json;

// Check, read or write the fields from `first` to `last` (both included) in their order. `config`
// is the architecture's struct. Checking returns ZERO_ERR_USAGE for the first value that is out of
// range; `title` names the architecture in the message.
zero_status zr_lm_fields_check(const zr_lm_field *fields, int first, int last, const char *title,
                               const void *config, zero_error *error);
void zr_lm_fields_read(const zr_lm_field *fields, int first, int last, struct zr_model_json *file,
                       void *config);
void zr_lm_fields_write(const zr_lm_field *fields, int first, int last, const void *config,
                        zr_json_writer *w);

// Returns the value of a size, optional or not.
int64_t zr_lm_field_size(const zr_lm_field *field, const void *config);
void zr_lm_field_set_size(const zr_lm_field *field, void *config, int64_t value);

// The text that names a new model: a preset, or a preset with fields, such as
// "gpt2:layers=4,heads=4,width=128" (spec.c).
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
