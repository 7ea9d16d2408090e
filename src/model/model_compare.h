// Whether two configurations describe one model: every field of config.json as we write it counts,
// except the few that do not change the arithmetic.
//
// Names and shapes of tensors are not enough, because heads, rotary settings, epsilons, windows and
// dropout do not affect them.
#ifndef ZR_MODEL_MODEL_COMPARE_H
#define ZR_MODEL_MODEL_COMPARE_H

#include "base/json.h"
#include "model/architecture.h"

typedef uint32_t zr_lm_changes; // one bit for each name of a change that may be allowed
// Parses names with commas between them, such as "dropout"; NULL and "": none. An unknown name is
// ZERO_ERR_USAGE, with a list of those that are known.
zero_status zr_lm_changes_parse(const char *names, zr_lm_changes *out, zero_error *error);

typedef struct zr_lm_difference {
    bool found;
    char key[40];
    char values[2][160]; // as JSON; "none" if a file has no such field
    const char *change;  // the name of the change that would allow it; NULL: nothing would
} zr_lm_difference;

// Finds the first field that differs and is not among `allowed`. Can fail with ZERO_ERR_MEMORY.
zero_status zr_lm_compare(const zr_lm_config *a, const zr_lm_config *b, zr_lm_changes allowed,
                          zr_lm_difference *out, zero_error *error);

// Turn a configuration into the object of config.json, and back. `name` tells messages where it is
// from.
json_t *zr_lm_config_pack(const zr_lm_config *config); // NULL: no memory
zero_status zr_lm_config_unpack(const json_t *object, const char *name, zr_lm_config *out,
                                zero_error *error);

#endif
