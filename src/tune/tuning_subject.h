// What zero tune tunes: a model of a shape, whose vocabulary may be that of the data, and windows.
#ifndef ZR_TUNE_TUNING_SUBJECT_H
#define ZR_TUNE_TUNING_SUBJECT_H

#include "setup/model_choice.h"
#include <zero/commands.h>

// Reads it as a training would; of the data only what the tokenizer needs, which has to fit to the
// model. The caller frees *out with zr_model_choice_free, also after an error.
zero_status zr_tuning_subject_read(const zero_tune_options *options, zr_model_choice *out,
                                   zero_error *error);

#endif
