// What zero tune tunes: a model of a shape, whose vocabulary may be that of the data, and windows.
#ifndef ZR_TUNE_TUNING_SUBJECT_H
#define ZR_TUNE_TUNING_SUBJECT_H

#include "model/architecture.h"
#include <zero/tune.h>

typedef struct zr_tuning_subject {
    char *model_dir, *tokenizer; // as directories; NULL: not given
    const char *name;            // of the model, for messages
    zr_lm_config model;
    zr_lm_shape shape;
    int64_t parameters;
    int64_t seq;
} zr_tuning_subject;

// Reads it as a training would; of the data only what the vocabulary needs. The caller frees *out
// with zr_tuning_subject_free, also after an error.
zero_status zr_tuning_subject_read(const zero_tune_options *options, zr_tuning_subject *out,
                                   zero_error *error);
void zr_tuning_subject_free(zr_tuning_subject *subject);

#endif
