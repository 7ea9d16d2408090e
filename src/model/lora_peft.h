// adapter_config.json as peft writes and reads it (checked with peft 0.21.2).
#ifndef ZR_MODEL_LORA_PEFT_H
#define ZR_MODEL_LORA_PEFT_H

#include "model/architecture.h"

#define ZR_ADAPTER_CONFIG "adapter_config.json"
#define ZR_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define ZR_ADAPTER_PREFIX "base_model.model." // begins the names of its tensors

// Reads the file at `path`, of an adapter for the model of `config`. *base is the name of that
// model's directory or repository, NULL if the file has none (zr_free). Returns ZERO_ERR_DATA, with
// the key, for a file that is broken, and for adapters that would compute something else than
// model/lora.h says: ranks for each layer, biases, modules trained as a whole, and others.
zero_status zr_lora_read_peft(const char *path, const zr_lm_config *config, zr_lora *out,
                              char **base, zero_error *error);
// Reads only the name of the model that is adapted.
zero_status zr_lora_read_base(const char *path, char **base, zero_error *error);
// The same for the file of an adapter's directory.
zero_status zr_lora_read_base_in(const char *directory, char **base, zero_error *error);
// base: NULL to write null.
void zr_lora_write_peft(const zr_lm_config *config, const char *base, zr_buffer *out);

#endif
