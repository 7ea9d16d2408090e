// What DeepSpeed's section autotuning says of a search.
#ifndef ZR_TUNE_TUNING_SETTINGS_H
#define ZR_TUNE_TUNING_SETTINGS_H

#include "tune/base_config.h"

typedef enum zr_tuning_order { // in which candidates are measured
    ZR_ORDER_MODEL,            // the best predicted ones first
    ZR_ORDER_GRID,             // as they are listed
    ZR_ORDER_RANDOM,
} zr_tuning_order;

typedef struct zr_tuning_settings {
    bool fast; // tune only stage and micro-batch
    zr_tuning_metric metric;
    zr_tuning_order order;
    int64_t first_step, last_step; // measured steps of a trial, from 1; 0: they are chosen
    int64_t early_stopping;        // trials without a better one, after which no more are begun
    int64_t trials;                // at most
    int64_t model_ranks;           // mp_size
    int micro_batches;             // to try, of a grid and stage; 0: all
    int64_t least_micro_batch, most_micro_batch;
    int64_t least_batch, most_batch;    // 0: the batch stays
    const char *results_dir, *exps_dir; // NULL: not said
    bool overwrite;
} zr_tuning_settings;

// metric NULL: the section's. Texts are the file's. ZERO_ERR_CONFIG: steps that contradict each
// other, or are more than a trial makes. ZERO_ERR_USAGE: a metric that there is not.
zero_status zr_tuning_settings_read(const zr_tuning_file *file, const char *metric,
                                    zr_tuning_settings *out, zero_error *error);
const char *zr_tuning_metric_name(zr_tuning_metric metric);

#endif
