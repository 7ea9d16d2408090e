// Rows of autotuning, which zero tune reads (src/tune/tuning_settings.c); a training has no use for
// them.
#include "config/key_rows.h"
#include <zero/comm.h>

#define BY_TUNE "zero tune reads it"
#define OWN_TRIALS "zero tune runs zero train itself"

// clang-format off
const zr_key zr_keys_autotuning[] = {
    KEY(BOOL, "autotuning.enabled", "false",
        REFUSED("false", "a training does not search: zero tune does, with this file"),
        .help = "search for the fastest configuration"),
    KEY(BOOL, "autotuning.fast", "true", NO_EFFECT(BY_TUNE),
        .help = "tune only stage and micro-batch; false: everything that is open"),
    KEY(STRING, "autotuning.results_dir", "tuned", NO_EFFECT(BY_TUNE),
        .help = "directory of the results"),
    KEY(STRING, "autotuning.exps_dir", "tuned/experiments", NO_EFFECT(BY_TUNE),
        .help = "directory of the experiments"),
    KEY(BOOL, "autotuning.overwrite", "true", NO_EFFECT(BY_TUNE),
        .help = "replace earlier results"),
    KEY(ENUM, "autotuning.metric", "throughput", .choices = "throughput|latency|flops",
        NO_EFFECT(BY_TUNE),
        .help = "what is to be best"),
    KEY(STRING, "autotuning.metric_path", "null", .nullable = true, NO_EFFECT(OWN_TRIALS),
        .help = "file with the metric"),
    KEY(ANY, "autotuning.arg_mappings", "null", .nullable = true, NO_EFFECT(OWN_TRIALS),
        .help = "flags of the tuned program"),
    KEY(ANY, "autotuning.model_info", "null", .nullable = true, NO_EFFECT(OWN_TRIALS),
        .help = "what is known of the model"),
    KEY(INT, "autotuning.start_profile_step", "3", .least = 1, NO_EFFECT(BY_TUNE),
        .help = "first update measured; neither this nor the last one said: about two seconds of "
                "them, after two"),
    KEY(INT, "autotuning.end_profile_step", "5", .least = 1, NO_EFFECT(BY_TUNE),
        .help = "last update measured"),
    KEY(ENUM, "autotuning.tuner_type", "gridsearch", .choices = "gridsearch|random|model_based",
        NO_EFFECT(BY_TUNE),
        .help = "order in which candidates are measured; not said: model_based, the best predicted "
                "ones first"),
    KEY(INT, "autotuning.tuner_early_stopping", "5", .least = 1, NO_EFFECT(BY_TUNE),
        .help = "experiments without a better one before the end"),
    KEY(INT, "autotuning.tuner_num_trials", "50", .least = 1, NO_EFFECT(BY_TUNE),
        .help = "experiments, at most"),
    KEY(INT, "autotuning.num_tuning_micro_batch_sizes", "3", .least = 1, NO_EFFECT(BY_TUNE),
        .help = "micro-batches to try; not said: all, at most 24"),
    KEY(INT, "autotuning.mp_size", "1", .least = 1, .most = ZERO_MAX_RANKS, NO_EFFECT(BY_TUNE),
        .help = "ranks of one model"),
    KEY(INT, "autotuning.max_train_batch_size", "null", .nullable = true, .least = 1,
        NO_EFFECT(BY_TUNE),
        .help = "largest batch"),
    KEY(INT, "autotuning.min_train_batch_size", "1", .least = 1, NO_EFFECT(BY_TUNE),
        .help = "least batch"),
    KEY(INT, "autotuning.max_train_micro_batch_size_per_gpu", "1024", .least = 1,
        NO_EFFECT(BY_TUNE),
        .help = "largest micro-batch; not said: no limit"),
    KEY(INT, "autotuning.min_train_micro_batch_size_per_gpu", "1", .least = 1, NO_EFFECT(BY_TUNE),
        .help = "least micro-batch"),
};
// clang-format on
const int zr_keys_autotuning_count = ZR_COUNT(zr_keys_autotuning);
