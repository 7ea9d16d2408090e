// The directory of an adapter, as peft saves and opens it:
//
//   DIR/adapter_config.json           model/lora_peft.h
//   DIR/adapter_model.safetensors     "base_model.model." + a layer + ".lora_A.weight", ...
//   DIR/labels.json                   of a model that gives texts labels: their names
//
// A training of adapters writes RUN/adapter, with the tokenizer next to these. peft keeps no names
// of labels: those of labels.json are what its and transformers' from_pretrained take as keywords.
#ifndef ZR_CHECKPOINT_ADAPTER_DIRECTORY_H
#define ZR_CHECKPOINT_ADAPTER_DIRECTORY_H

#include "model/lora_peft.h"

bool zr_is_adapter(const char *directory); // it has an adapter's weights
// Resolves `given`, which may be NULL: a run stands for its adapter, which is logged; any other
// directory stands for itself. ZERO_ERR_IO if there is no adapter; the message says what is there.
// zr_free.
zero_status zr_adapter_directory(const char *given, const zero_logger *logger, char **out,
                                 zero_error *error);
// Returns the directory whose tokenizer a model with its adapter has: the adapter's, if it has one,
// else the model's. adapter: NULL is allowed.
const char *zr_adapter_tokenizer(const char *adapter, const char *model);
// Warns if the adapter names another base model, a directory that is here.
zero_status zr_adapter_warn_base(const char *adapter, const char *model, const zero_logger *logger,
                                 zero_error *error);
// Reads adapter_config.json into config->lora, for the model of the rest of the configuration, and
// labels into config->labels: those of labels.json, else the model's own, else "LABEL_0" and so on,
// as many as the adapter's head has. Fails as zr_lora_read_peft does, and with ZERO_ERR_DATA if the
// model has labels and the adapter has no head of them.
zero_status zr_adapter_read_config(const char *directory, zr_lm_config *config, zero_error *error);
// Writes adapter_config.json and labels.json; base: the directory of the model that is adapted.
zero_status zr_adapter_write_config(const char *directory, const zr_lm_config *config,
                                    const char *base, zero_error *error);

#endif
