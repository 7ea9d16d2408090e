// The numbers of a language model's configuration. An architecture lists its fields by what they
// are (zr_lm_role); the list drives how they are checked, read from config.json, written to it and
// set by a spec, and what every language model has is found by it. What a list cannot express (a
// variant's values for absent keys, values that follow from other fields) is code of the
// architecture.
#ifndef ZR_MODEL_LM_FIELDS_H
#define ZR_MODEL_LM_FIELDS_H

#include "base/json_writer.h"

typedef enum zr_lm_field_kind {
    ZR_FIELD_NONE,        // the architecture has no such field
    ZR_FIELD_SIZE,        // int64_t, 1 or more; a file must have it
    ZR_FIELD_OPTIONAL,    // int64_t; 0 if not given (in a file: null or absent)
    ZR_FIELD_EPSILON,     // float, above 0 and below 1
    ZR_FIELD_DEVIATION,   // float, finite and not negative
    ZR_FIELD_PROBABILITY, // float, from 0 to below 1
    ZR_FIELD_FRACTION,    // double, above 0, at most 1
    ZR_FIELD_BASE,        // double, above 1
    ZR_FIELD_FLAG,        // int, 0 or 1
} zr_lm_field_kind;

typedef enum zr_lm_role { // what a field is, in the order of reading and writing
    ZR_ROLE_VOCABULARY,
    ZR_ROLE_POSITIONS, // the longest window
    ZR_ROLE_WIDTH,
    ZR_ROLE_INNER, // of the MLP; 0: 4 x width
    ZR_ROLE_LAYERS,
    ZR_ROLE_HEADS,    // of queries
    ZR_ROLE_KV_HEADS, // of keys and values; 0: as many
    ZR_ROLE_HEAD_DIM, // 0: width / heads
    ZR_ROLE_EPSILON,  // of norms
    ZR_ROLE_DEVIATION,
    ZR_ROLE_RESIDUAL_DROPOUT,
    ZR_ROLE_EMBEDDING_DROPOUT,
    ZR_ROLE_ATTENTION_DROPOUT,
    ZR_ROLE_ROTATED, // fraction of a head
    ZR_ROLE_THETA,
    ZR_ROLE_TIED, // the head uses the table of tokens; an architecture without the field always
                  // does
    ZR_ROLE_WINDOW,
    ZR_ROLE_TILES, // of the embedding; then of attention, of the MLP
    ZR_ROLES = ZR_ROLE_TILES + 3
} zr_lm_role;

typedef struct zr_lm_field {
    const char *key; // in config.json, and in messages
    zr_lm_field_kind kind;
    size_t at;    // offset in the architecture's struct: zero_gpt2_config, ...
    int64_t most; // of a size; 0 if the limit is the size at `most_at`
    size_t most_at;
    const char *other_key; // another name of a size that files may use; NULL if there is none
    const char *repeated;  // a key that is written with the same value; NULL if there is none
    double otherwise;      // transformers' value of a number or flag that a file does not have
} zr_lm_field;

struct zr_model_json;

// Check, read or write the fields from `first` to `last` (both included) in their order. `fields`
// is (ZR_ROLES), `config` the architecture's struct. Checking returns ZERO_ERR_USAGE for the first
// value that is out of range; `title` names the architecture in the message.
zero_status zr_lm_fields_check(const zr_lm_field *fields, zr_lm_role first, zr_lm_role last,
                               const char *title, const void *config, zero_error *error);
void zr_lm_fields_read(const zr_lm_field *fields, zr_lm_role first, zr_lm_role last,
                       struct zr_model_json *file, void *config);
void zr_lm_fields_write(const zr_lm_field *fields, zr_lm_role first, zr_lm_role last,
                        const void *config, zr_json_writer *w);

// Return the value of a size, optional or not, and of a float; 0 if there is no such field.
int64_t zr_lm_field_size(const zr_lm_field *field, const void *config);
float zr_lm_field_float(const zr_lm_field *field, const void *config);
bool zr_lm_field_flag(const zr_lm_field *field, const void *config);
// Does nothing if there is no such field.
void zr_lm_field_set_size(const zr_lm_field *field, void *config, int64_t value);

// The text that names a new model: a preset, or a preset with fields, such as
// "gpt2:layers=4,heads=4,width=128" (spec.c).
#define ZR_SPEC_WORD 32 // the most bytes of a name or a value

// Sets the fields that follow the preset's name. Each may appear once; an unknown name is refused
// with the nearest one that the architecture has. "dropout" sets every dropout. *given has a bit
// (1 << role) for each that the text sets.
zero_status zr_spec_parse(const char *spec, const zr_lm_field *fields, void *config,
                          uint32_t *given, zero_error *error);
int zr_spec_distance(const char *a, const char *b); // Levenshtein; b shorter than ZR_SPEC_WORD
// Copies text[0..length) if it fits; a longer word is cut, and then matches no name.
void zr_spec_copy(char word[ZR_SPEC_WORD], const char *text, size_t length);

#endif
