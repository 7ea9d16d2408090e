// The loss of preferences that a configuration asks for (libzero.preference, --preference):
// model/preference_spec.h.
#ifndef ZR_SETUP_MODEL_PREFERENCE_H
#define ZR_SETUP_MODEL_PREFERENCE_H

#include "config/config.h"
#include "model/architecture.h"

#define ZR_PREFERENCE_KEY "libzero.preference"
#define ZR_REFERENCE_KEY "libzero.reference"

// Reads the key: text as zr_preference_parse takes it, or an object of the same settings with the
// name as "loss". Returns ZERO_ERR_CONFIG as zr_preference_parse does; no preference if the key is
// not set.
zero_status zr_model_preference_read(const zr_config *config, zr_preference *out,
                                     zero_error *error);
// Returns the file of the reference that the configuration names; NULL: it names none.
const char *zr_model_reference_file(const zr_config *config);
// Sets model->preference and, with one, model->documents. *changed: a model that was built from it
// before has to be built again.
zero_status zr_model_preference_apply(const zr_config *config, zr_lm_config *model, bool *changed,
                                      zero_error *error);
// Returns ZERO_ERR_CONFIG if the configuration asks for a preference that the model, already built,
// is not made for.
zero_status zr_model_preference_check(const zr_config *config, const zero_model *model,
                                      zero_error *error);

#endif
