// Refuses the keys of ZeRO++ (arXiv 2306.10209) where what they ask for has no meaning or is not
// built.
#include "config/settings.h"

#define WEIGHTS "zero_optimization.zero_quantized_weights"
#define FROZEN "zero_optimization.zero_quantized_nontrainable_weights"
#define GRADIENTS "zero_optimization.zero_quantized_gradients"
#define LOCO "zero_optimization.zeropp_loco_param"
#define BITS "libzero.quantized_gradient_bits"

static zero_status check_stage(const zr_config *config, const char *path, int least,
                               const char *expected, zero_error *error)
{
    char why[128];
    if (config->stage >= least)
        return ZERO_OK;
    snprintf(why, sizeof why, "the stage is %d, where ranks do not exchange them so; expected %s",
             (int)config->stage, expected);
    return zr_config_refuse_setting(config, path, why, error);
}

static zero_status check_slices(const zr_config *config, const char *path, zero_error *error)
{
    if (!config->exact_tensor_said)
        return ZERO_OK;
    return zr_config_refuse_setting(
        config, path,
        "libzero.exact_tensor promises the same bits on any number of tensor ranks, and blocks lie "
        "in slices of theirs; keep one of them",
        error);
}

static zero_status check_weights(const zr_config *config, const char *path, zero_error *error)
{
    ZERO_TRY(check_stage(config, path, 3, "stage 3", error));
    if (config->offload.parameters == ZERO_TIER_nvme)
        return zr_config_refuse_setting(
            config, path,
            "parameters are on NVMe (offload_param.device), whose blocks of 4096 bytes "
            "codes do not fill; expected them on \"cpu\" or \"none\"",
            error);
    return check_slices(config, path, error);
}

static zero_status check_gradients(const zr_config *config, zero_error *error)
{
    if (!config->quantised_gradients)
        return ZERO_OK;
    ZERO_TRY(check_stage(config, GRADIENTS, 1, "stage 1, 2 or 3", error));
    if (config->exact_world)
        return zr_config_refuse_setting(
            config, GRADIENTS,
            "libzero.exact_world promises the same bits on any number of ranks, and ranks "
            "of one machine round their sums together; keep one of them",
            error);
    if (config->gradient_bits != 4 && config->gradient_bits != 8)
        return zr_config_refuse_setting(config, BITS, "codes have 4 bits or 8", error);
    return check_slices(config, GRADIENTS, error);
}

static zero_status check_carry(const zr_config *config, zero_error *error)
{
    bool beta = json_is_number(zr_config_value(config, LOCO ".err_beta")),
         reset = json_is_number(zr_config_value(config, LOCO ".reset_T"));
    if (!beta && !reset)
        return ZERO_OK;
    const char *path = beta ? LOCO ".err_beta" : LOCO ".reset_T";
    if (!beta || !reset)
        return zr_config_refuse_setting(
            config, path, "the other of err_beta and reset_T is not there; expected both", error);
    if (!config->quantised_gradients)
        return zr_config_refuse_setting(
            config, path, "gradients are not quantised; expected " GRADIENTS ": true", error);
    if (config->carry_beta >= 1)
        return zr_config_refuse_setting(
            config, path, "such a carry never takes anything; expected at least 0 and below 1",
            error);
    return ZERO_OK;
}

zero_status zr_config_check_quantised(const zr_config *config, zero_error *error)
{
    if (config->quantised_weights)
        ZERO_TRY(check_weights(config, WEIGHTS, error));
    if (config->quantised_frozen)
        ZERO_TRY(check_weights(config, FROZEN, error));
    ZERO_TRY(check_gradients(config, error));
    return check_carry(config, error);
}
