// The adapters that a configuration asks for (libzero.lora, --lora): model/lora.h; and how the
// weights that they adapt are kept (libzero.base, --base): base/quantised.h.
#ifndef ZR_SETUP_MODEL_LORA_H
#define ZR_SETUP_MODEL_LORA_H

#include "config/config.h"
#include "model/architecture.h"

#define ZR_LORA_KEY "libzero.lora"
#define ZR_BASE_KEY "libzero.base"

// Reads the key for a model: text as zr_lora_parse takes it, or an object with the same keys, of
// which peft's names (lora_alpha, target_modules, ...) are understood too. Returns ZERO_ERR_CONFIG
// as zr_lora_parse does; no adapters if the key is not set.
zero_status zr_model_lora_read(const zr_config *config, const zr_lm_config *model, zr_lora *out,
                               zero_error *error);
// Sets model->base. ZERO_ERR_CONFIG if the files of the model have another format than the key asks
// for.
zero_status zr_model_base_apply(const zr_config *config, zr_lm_config *model, zero_error *error);
// Refuses to train weights in codes: only adapters can train then. `name` is for messages.
zero_status zr_model_base_check(const zr_lm_config *model, const char *name, zero_error *error);
// Sets model->lora and model->base. *changed: a model that was built from it before has to be built
// again.
zero_status zr_model_lora_apply(const zr_config *config, zr_lm_config *model, bool *changed,
                                zero_error *error);
// Returns ZERO_ERR_CONFIG if the configuration asks for adapters, or for a base, that the model,
// already built, does not have.
zero_status zr_model_lora_check(const zr_config *config, const zero_model *model,
                                zero_error *error);

#endif
