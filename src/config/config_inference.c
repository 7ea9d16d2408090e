// What a configuration sets when nothing is trained: the precision, where parameters lie, how they
// travel, and budgets. Everything else is forgotten before anything is resolved, so that the file
// of a training also serves every user of its model, on any number of ranks.
#include "config/settings.h"

#include <string.h>

#define Z "zero_optimization."

static const char *const read_too[] = {
    // A dot at the end means the whole section.
    "libzero.allow_unknown",
    "libzero.dtype",
    "libzero.exact_tensor",
    "fp16.enabled",
    "bf16.enabled",
    "data_types.param_dtype",
    Z "offload_param.",
    Z "overlap_comm",
    Z "stage3_prefetch_bucket_size",
    Z "stage3_max_live_parameters",
    Z "stage3_param_persistence_threshold",
    Z "stage3_model_persistence_threshold",
    "aio.",
    "libzero.device_memory",
    "libzero.host_memory",
    "libzero.tiling.",
    "libzero.nvme_path",
    // They decide nothing here; they are kept so that a log line can say so.
    "tensor_parallel.autotp_size",
    "tensor_parallel.tp.tp_size",
    "pipeline.stages",
};

static bool is_read_by_inference(const char *path, bool travels)
{
    for (int i = 0; i < ZR_COUNT(read_too); i++) {
        size_t length = strlen(read_too[i]);
        bool section = read_too[i][length - 1] == '.';
        if (section ? !strncmp(path, read_too[i], length) : !strcmp(path, read_too[i]))
            return travels || strncmp(path, "aio.", 4);
    }
    return false;
}

zero_status zr_config_keep_inference(zr_config *config, zero_error *error)
{
    const json_t *device = zr_config_value(config, Z "offload_param.device");
    config->for_inference = true;
    bool travels = json_is_string(device) && !strcmp(json_string_value(device), "nvme");
    for (int i = 0; i < zr_key_count(); i++) {
        zr_setting *setting = &config->settings[i];
        if (is_read_by_inference(zr_key_at(i)->path, travels))
            continue;
        zr_setting_clear(setting);
        setting->spelled = NULL;
    }
    return zr_setting_put(zr_config_at(config, Z "stage"), json_integer(3), ZR_FROM_PROGRAM, error);
}
