// Adapters in zero_convert: added to a model, and taken out of a checkpoint of their training.
#ifndef ZR_COMMANDS_CONVERT_LORA_H
#define ZR_COMMANDS_CONVERT_LORA_H

#include "formats/safetensors_write.h"
#include "formats/source.h"
#include <zero/commands.h>

// Adds the adapter of a directory, or of a run, to a source with its model's weights. *directory
// (zr_free) is where it lies. model_dir: with the model's config.json; NULL: it is the source's.
// widens: as zr_source_merge takes it.
zero_status zr_convert_merge(zr_source *source, const char *adapter, const char *model_dir,
                             bool widens, const zero_logger *logger, char **directory,
                             zero_error *error);

// Gives the config.json in a directory the labels of the adapter that its model was merged with, if
// it has any, and the class that transformers opens it with.
zero_status zr_convert_label(const char *adapter, const char *directory, zero_error *error);

bool zr_is_adapter_checkpoint(const zr_source *source); // it holds adapters alone
// Writes a checkpoint's adapters into an empty directory as peft saves them, with the tokenizer of
// the run. base: the directory of the model that is adapted; NULL: as the run named it.
zero_status zr_convert_adapter_files(zr_source *source, const char *base, const char *directory,
                                     zr_export *export, zero_error *error);

#endif
