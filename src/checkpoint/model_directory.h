// The files next to the weights in a model directory: config.json and those of the tokenizer.
#ifndef ZR_CHECKPOINT_MODEL_DIRECTORY_H
#define ZR_CHECKPOINT_MODEL_DIRECTORY_H

#include "formats/source.h"

// Returns whether it is config.json or one of the files next to it.
bool zr_convert_copies(const char *name);
const char *zr_convert_dtype_name(zero_dtype dtype); // "float32", ...: as in config.json
// Copies these files into `directory`: from model_dir, or if that is NULL, from what belongs to the
// source. If there is no config.json, it is made from the checkpoint's own state. dtype: the
// weights' type for config.json; NULL: as it is. ZERO_ERR_IO if model_dir has no config.json.
zero_status zr_convert_model_files(const zr_source *source, const char *model_dir,
                                   const char *dtype, const char *directory, bool *has_config,
                                   bool *has_tokenizer, zero_error *error);

#endif
