// What a search starts from: DeepSpeed's section autotuning, the model, and the space of candidates
// that the user's configuration and flags leave open.
#ifndef ZR_TUNE_TUNING_SETTINGS_H
#define ZR_TUNE_TUNING_SETTINGS_H

#include "setup/model_choice.h"
#include "tune/base_config.h"
#include <zero/commands.h>

typedef enum zr_tuning_order { // in which candidates are measured
    ZR_ORDER_MODEL,            // the best predicted ones first
    ZR_ORDER_GRID,             // as they are listed
    ZR_ORDER_RANDOM,
} zr_tuning_order;

typedef struct zr_tuning_settings { // the section autotuning
    bool fast;                      // tune only stage and micro-batch
    zr_tuning_metric metric;
    zr_tuning_order order;
    int64_t first_step, last_step; // measured steps of a trial, from 1; 0: zero tune chooses
    int64_t early_stopping;        // the search ends after this many trials without a better one
    int64_t trials;                // at most
    int64_t model_ranks;           // mp_size
    int micro_batches;             // to try for each grid and stage; 0: all
    int64_t least_micro_batch, most_micro_batch;
    int64_t least_batch, most_batch;    // 0: the batch stays
    const char *results_dir, *exps_dir; // NULL if not given
    bool overwrite;
} zr_tuning_settings;

// Reads the section. metric NULL: the section's. Texts belong to the file. ZERO_ERR_CONFIG: the
// steps contradict each other, or are more than a trial makes. ZERO_ERR_USAGE: the metric is
// unknown.
zero_status zr_tuning_settings_read(const zr_tuning_file *file, const char *metric,
                                    zr_tuning_settings *out, zero_error *error);
const char *zr_tuning_metric_name(zr_tuning_metric metric);

// Reads the model's shape and the windows as a training would, and of the data only what the
// tokenizer needs, which has to fit the model. The caller frees *out with zr_model_choice_free,
// also after an error.
zero_status zr_tuning_subject_read(const zero_tune_options *options, zr_model_choice *out,
                                   zero_error *error);

typedef struct zr_tuning_asked { // what a space is derived from
    const zero_tune_options *options;
    const zr_tuning_file *file;
    const zr_tuning_settings *settings;
    const zr_model_choice *subject;
    int cores; // of this machine
} zr_tuning_asked;

// Finds the space. ZERO_ERR_CONFIG: an unknown schedule, ranks that the given grid does not divide,
// or a step of too many samples.
zero_status zr_tuning_space_find(const zr_tuning_asked *asked, zr_tuning_space *out,
                                 zero_error *error);

#endif
