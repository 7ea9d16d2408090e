// Refuses the keys of ZeRO++ (arXiv 2306.10209) where what they ask for has no meaning or is not
// built.
#include "config/settings.h"

#define WEIGHTS "zero_optimization.zero_quantized_weights"
#define GRADIENTS "zero_optimization.zero_quantized_gradients"
#define BITS "libzero.quantized_gradient_bits"

static zero_status refuse(const zr_config *config, const char *path, const char *why,
                          zero_error *error)
{
    const zr_setting *setting = zr_config_at(config, path);
    return zr_fail(error, ZERO_ERR_CONFIG, "%s: %s is %s, but %s",
                   zr_setting_where(config, setting).text, path,
                   zr_value_shown(setting->value).text, why);
}

static zero_status check_stage(const zr_config *config, const char *path, int least,
                               const char *expected, zero_error *error)
{
    char why[128];
    if (config->stage >= least)
        return ZERO_OK;
    snprintf(why, sizeof why, "the stage is %d, where ranks do not exchange them so; expected %s",
             (int)config->stage, expected);
    return refuse(config, path, why, error);
}

static zero_status check_weights(const zr_config *config, zero_error *error)
{
    if (!config->quantised_weights)
        return ZERO_OK;
    ZERO_TRY(check_stage(config, WEIGHTS, 3, "stage 3", error));
    if (config->offload.parameters == ZERO_TIER_nvme)
        return refuse(config, WEIGHTS,
                      "parameters are on NVMe (offload_param.device), whose blocks of 4096 bytes "
                      "codes do not fill; expected them on \"cpu\" or \"none\"",
                      error);
    if (config->exact_tensor_said)
        return refuse(config, WEIGHTS,
                      "libzero.exact_tensor promises the same bits on any number of tensor ranks, "
                      "and blocks lie in slices of theirs; keep one of them",
                      error);
    return ZERO_OK;
}

static zero_status check_gradients(const zr_config *config, zero_error *error)
{
    if (!config->quantised_gradients)
        return ZERO_OK;
    ZERO_TRY(check_stage(config, GRADIENTS, 1, "stage 1, 2 or 3", error));
    if (config->gradient_bits != 4 && config->gradient_bits != 8)
        return refuse(config, BITS, "codes have 4 bits or 8", error);
    if (config->exact_tensor_said)
        return refuse(config, GRADIENTS,
                      "libzero.exact_tensor promises the same bits on any number of tensor ranks, "
                      "and blocks lie in slices of theirs; keep one of them",
                      error);
    return ZERO_OK;
}

zero_status zr_config_check_quantised(const zr_config *config, zero_error *error)
{
    ZERO_TRY(check_weights(config, error));
    return check_gradients(config, error);
}
