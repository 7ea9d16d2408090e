// Reads a simulated run from a DeepSpeed file. Its keys are read but not resolved, because a
// simulation does not depend on what libzero would refuse or choose for a training.
#include "config/config_ranks.h"
#include "config/settings.h"
#include "setup/resolve.h"
#include "commands/simulate_report.h"

#include <string.h>

static bool is_on(const zr_config *config, const char *path)
{
    return json_is_true(zr_config_value(config, path));
}

static bool is_text(const zr_config *config, const char *path, const char *text)
{
    const char *value = json_string_value(zr_config_value(config, path));
    return value && !strcmp(value, text);
}

static void read_states(const zr_config *config, zr_sim_run *run)
{
    static const char optimizer[] = "zero_optimization.offload_optimizer.device",
                      parameters[] = "zero_optimization.offload_param.device";
    run->stage = (int)zr_config_number(config, "zero_optimization.stage", 0);
    run->optimizer_on_host = is_text(config, optimizer, "cpu");
    run->optimizer_on_nvme = is_text(config, optimizer, "nvme");
    run->parameters_on_host = is_text(config, parameters, "cpu");
    run->parameters_on_nvme = is_text(config, parameters, "nvme");
    run->fully_sharded_in_node =
        zr_config_number(config, "zero_optimization.zero_hpz_partition_size", 1) > 1;
    run->wire_bits_parameters = is_on(config, "zero_optimization.zero_quantized_weights") ? 8 : 0;
    run->wire_bits_gradients =
        is_on(config, "zero_optimization.zero_quantized_gradients")
            ? (int)zr_config_number(config, "libzero.quantized_gradient_bits", 4)
            : 0;
}

static void read_precision(const zr_config *config, zr_sim_run *run)
{
    static const char dtype[] = "libzero.dtype";
    bool named = json_is_string(zr_config_value(config, dtype));
    if (named ? is_text(config, dtype, "fp32")
              : zr_config_has_value(config, "bf16.enabled") && !is_on(config, "bf16.enabled") &&
                    !is_on(config, "fp16.enabled"))
        run->number = ZR_SIM_FP32;
}

static zero_status read_grid(const zr_config *config, zr_sim_run *run, zero_error *error)
{
    const char *schedule = json_string_value(zr_config_value(config, ZR_PIPELINE_SCHEDULE));
    int64_t tensor = zr_config_number(config, "tensor_parallel.autotp_size", 0);
    if (!tensor)
        tensor = zr_config_number(config, "tensor_parallel.tp.tp_size", 1);
    run->tensor = (int)tensor;
    run->pipeline = (int)zr_config_number(config, ZR_PIPELINE_STAGES, 1);
    run->flush_every = (int)zr_config_number(config, ZR_PIPELINE_FLUSH, 0);
    run->sequence_parallel = is_on(config, "libzero.sequence_parallel");
    if (schedule && !zr_pipeline_kind_read(schedule, &run->schedule, &run->chunks))
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: \"%s\" is no schedule; there are %s",
                       ZR_PIPELINE_SCHEDULE, schedule, ZR_PIPELINE_KINDS);
    return ZERO_OK;
}

static zero_status read_config(const zr_config *config, zr_sim_run *run, zero_error *error)
{
    run->global_batch = zr_config_number(config, "train_batch_size", 0);
    run->micro_batch = zr_config_number(config, "train_micro_batch_size_per_gpu", 0);
    run->accumulation = zr_config_number(config, "gradient_accumulation_steps", 0);
    if (zr_config_number(config, "activation_checkpointing.number_checkpoints", 0) > 0 ||
        is_on(config, "activation_checkpointing.cpu_checkpointing") ||
        zr_config_number(config, ZR_PIPELINE_INTERVAL, 0) > 0)
        run->recompute = ZR_SIM_FULL;
    run->divided_checkpoints = is_on(config, "activation_checkpointing.partition_activations");
    run->checkpoints_on_host = is_on(config, "activation_checkpointing.cpu_checkpointing");
    read_states(config, run);
    read_precision(config, run);
    return read_grid(config, run, error);
}

zero_status zr_simulate_configure(const zero_simulate_options *options, zr_sim_run *run,
                                  zero_error *error)
{
    char *text;
    size_t length;
    zr_config *config;
    ZERO_TRY(zr_resolve_text(options->config_path, &text, &length, error));
    zero_status status = zr_config_parse(
        text, length, options->config_path ? options->config_path : "defaults", &config, error);
    zr_free(text);
    for (int i = 0; i < options->override_count && status == ZERO_OK; i++) {
        const zero_override *flag = &options->overrides[i];
        status = zr_config_override(config, flag->key, flag->value, flag->flag, false,
                                    &options->logger, error);
    }
    if (status == ZERO_OK)
        status = zr_config_refuse_unknown(config, &options->logger, error);
    if (status == ZERO_OK)
        status = read_config(config, run, error);
    zr_config_destroy(config);
    return status;
}
