// From what is said to what is open: the space in which candidates are searched.
#ifndef ZR_TUNE_TUNING_SPACE_H
#define ZR_TUNE_TUNING_SPACE_H

#include "tune/tuning_settings.h"
#include "tune/tuning_subject.h"

typedef struct zr_tuning_asked { // where a space comes from
    const zero_tune_options *options;
    const zr_tuning_file *file;
    const zr_tuning_settings *settings;
    const zr_model_choice *subject;
    int cores; // of this machine
} zr_tuning_asked;

// ZERO_ERR_CONFIG: a schedule that there is not, ranks that what is said cannot divide, or a step
// of too many samples.
zero_status zr_tuning_space_find(const zr_tuning_asked *asked, zr_tuning_space *out,
                                 zero_error *error);

#endif
