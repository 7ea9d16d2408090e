#include "tune/tuning_settings.h"

#include "tune/trial.h"

#include <stdio.h>
#include <string.h>

static const char *const metrics[] = {[ZR_METRIC_THROUGHPUT] = "throughput",
                                      [ZR_METRIC_LATENCY] = "latency",
                                      [ZR_METRIC_FLOPS] = "flops"};

const char *zr_tuning_metric_name(zr_tuning_metric metric) { return metrics[metric]; }

// Returns a value of the section; NULL if it is absent or "auto".
static const json_t *section_value(const zr_tuning_file *file, const char *name)
{
    char path[ZR_KEY_PATH_BYTES];
    snprintf(path, sizeof path, "autotuning.%s", name);
    const zr_setting *setting = zr_config_setting(file->tuning, path);
    const char *word = json_string_value(setting->value);
    bool open = json_is_null(setting->value) || (word && strcmp(word, "auto") == 0);
    return open ? NULL : setting->value;
}

static int64_t section_number(const zr_tuning_file *file, const char *name, int64_t standard)
{
    const json_t *value = section_value(file, name);
    return value ? json_integer_value(value) : standard;
}

static bool section_flag(const zr_tuning_file *file, const char *name, bool standard)
{
    const json_t *value = section_value(file, name);
    return value ? json_is_true(value) : standard;
}

static const char *section_word(const zr_tuning_file *file, const char *name, const char *standard)
{
    const json_t *value = section_value(file, name);
    return value ? json_string_value(value) : standard;
}

static zr_tuning_metric metric_by_name(const char *name)
{
    int metric = ZR_METRIC_FLOPS;
    while (metric > 0 && strcmp(metrics[metric], name) != 0)
        metric--;
    return (zr_tuning_metric)metric;
}

static zr_tuning_order search_order_by_name(const char *type)
{
    return strcmp(type, "random") == 0       ? ZR_ORDER_RANDOM
           : strcmp(type, "gridsearch") == 0 ? ZR_ORDER_GRID
                                             : ZR_ORDER_MODEL;
}

// One of the two alone leaves the other at DeepSpeed's default.
static zero_status read_steps(const zr_tuning_file *file, zr_tuning_settings *out,
                              zero_error *error)
{
    if (!section_value(file, "start_profile_step") && !section_value(file, "end_profile_step"))
        return ZERO_OK;
    out->first_step = section_number(file, "start_profile_step", 3);
    out->last_step = section_number(file, "end_profile_step", 5);
    if (out->last_step > ZR_TRIAL_STEPS)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: autotuning.end_profile_step %lld: a trial makes at most %d steps",
                       file->name, (long long)out->last_step, ZR_TRIAL_STEPS);
    if (out->last_step >= out->first_step)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: autotuning.end_profile_step %lld comes before start_profile_step %lld",
                   file->name, (long long)out->last_step, (long long)out->first_step);
}

zero_status zr_tuning_settings_read(const zr_tuning_file *file, const char *metric,
                                    zr_tuning_settings *out, zero_error *error)
{
    const char *said_metric = metric ? metric : section_word(file, "metric", "throughput");
    *out = (zr_tuning_settings){
        .fast = section_flag(file, "fast", section_flag(file, "enabled", false)),
        .metric = metric_by_name(said_metric),
        .order = search_order_by_name(section_word(file, "tuner_type", "model_based")),
        .early_stopping = section_number(file, "tuner_early_stopping", 5),
        .trials = section_number(file, "tuner_num_trials", 50),
        .model_ranks = section_number(file, "mp_size", 1),
        .micro_batches =
            (int)ZR_MIN(section_number(file, "num_tuning_micro_batch_sizes", 0), ZR_SPACE_MOST),
        .least_micro_batch = section_number(file, "min_train_micro_batch_size_per_gpu", 1),
        .most_micro_batch = section_number(file, "max_train_micro_batch_size_per_gpu", 0),
        .least_batch = section_number(file, "min_train_batch_size", 0),
        .most_batch = section_number(file, "max_train_batch_size", 0),
        .results_dir = section_word(file, "results_dir", NULL),
        .exps_dir = section_word(file, "exps_dir", NULL),
        .overwrite = section_flag(file, "overwrite", true),
    };
    if (strcmp(said_metric, zr_tuning_metric_name(out->metric)) != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_tune: options.metric is \"%s\": throughput, latency or flops",
                       said_metric);
    return read_steps(file, out, error);
}
