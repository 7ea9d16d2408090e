// adapter_config.json as peft writes and reads it (checked with peft 0.21.2).
#ifndef ZR_MODEL_LORA_PEFT_H
#define ZR_MODEL_LORA_PEFT_H

#include "model/architecture.h"

#define ZR_ADAPTER_CONFIG "adapter_config.json"
#define ZR_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define ZR_LABELS_FILE "labels.json"          // next to these, of ours alone
#define ZR_ADAPTER_PREFIX "base_model.model." // begins the names of its tensors
#define ZR_ADAPTER_SCORE ZR_ADAPTER_PREFIX ZR_SCORE_WEIGHT

typedef struct zr_lora_file {
    zr_lora lora;
    char *base; // the name of the adapted model's directory or repository; NULL: the file has none
    // The adapter has the whole head of labels, which trains, too: "modules_to_save" names it.
    bool scores;
} zr_lora_file;

// Reads the file at `path`, of an adapter for the model of `config`. Returns ZERO_ERR_DATA, with
// the key, for a file that is broken, and for adapters that would compute something else than
// model/lora.h says: ranks for each layer, biases, other modules trained as a whole, and others.
zero_status zr_lora_read_peft(const char *path, const zr_lm_config *config, zr_lora_file *out,
                              zero_error *error);
void zr_lora_file_free(zr_lora_file *file); // a zeroed one is allowed
// Reads only the name of the model that is adapted.
zero_status zr_lora_read_base(const char *path, char **base, zero_error *error);
// The same for the file of an adapter's directory.
zero_status zr_lora_read_base_in(const char *directory, char **base, zero_error *error);
// base: NULL to write null. Of a model with labels: what peft writes for "SEQ_CLS".
void zr_lora_write_peft(const zr_lm_config *config, const char *base, zr_buffer *out);

#endif
