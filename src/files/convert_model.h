// What stands next to the weights in a model directory: config.json and the tokenizer's files.
#ifndef ZR_FILES_CONVERT_MODEL_H
#define ZR_FILES_CONVERT_MODEL_H

#include "checkpoint/source.h"

bool zr_convert_copies(const char *name);            // config.json, and the files next to it
const char *zr_convert_dtype_name(zero_dtype dtype); // "float32", ...: as config.json has it
// Into `directory`: from model_dir, or, where that is NULL, from what belongs to the source;
// config.json, where no file is there, from the checkpoint's own state. dtype: what config.json is
// to say of the weights; NULL: as it is. ZERO_ERR_IO where model_dir has no config.json.
zero_status zr_convert_model_files(const zr_source *source, const char *model_dir,
                                   const char *dtype, const char *directory, bool *has_config,
                                   bool *has_tokenizer, zero_error *error);

#endif
