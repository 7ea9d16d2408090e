// Whether two configurations are of one model: every field of config.json as we write it counts,
// but those few that change no arithmetic.
//
// Names and shapes of tensors do not tell it: heads, rotary settings, epsilons, windows and dropout
// have none.
#ifndef ZR_MODEL_MODEL_COMPARE_H
#define ZR_MODEL_MODEL_COMPARE_H

#include "base/json.h"
#include "model/architecture.h"

typedef uint32_t zr_lm_changes; // a bit for each name of what may differ on purpose
// "dropout": names with commas between them; NULL and "": none. An unknown one is refused with
// those that are known: ZERO_ERR_USAGE.
zero_status zr_lm_changes_parse(const char *names, zr_lm_changes *out, zero_error *error);

typedef struct zr_lm_difference {
    bool found;
    char key[40];
    char values[2][160]; // as JSON; "none" where a file has no such field
    const char *change;  // by which name it may differ on purpose; NULL: it may not
} zr_lm_difference;

// The first field that differs, and is not among `allowed`. ZERO_ERR_MEMORY.
zero_status zr_lm_compare(const zr_lm_config *a, const zr_lm_config *b, zr_lm_changes allowed,
                          zr_lm_difference *out, zero_error *error);

// config.json as an object, and back; name: of where it lies, for messages.
json_t *zr_lm_config_pack(const zr_lm_config *config); // NULL: no memory
zero_status zr_lm_config_unpack(const json_t *object, const char *name, zr_lm_config *out,
                                zero_error *error);

#endif
