// Checks what libzero.exact_world requires of the other settings. Micro-batch k of data rank r is
// number g = k*N + r of a step on N of them, and the gradients of all numbers are summed along one
// binary tree over the bits of g, whose low bits are the rank. So N and the number K of
// micro-batches must be powers of two, a micro-batch must have the same samples at any N, and no
// sum may be rounded before the end.
#include "config/config_ranks.h"
#include "config/settings.h"

static zero_status check_counts(const zr_config *config, zero_error *error)
{
    zr_where where = zr_setting_where(config, zr_config_at(config, "libzero.exact_world"));
    zr_ranks_words words = zr_ranks_in_words(zr_config_grid(config));
    if (!ZR_IS_POWER_OF_TWO(config->ranks))
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "%s: libzero.exact_world on %s: found %d, expected a power of two (1, 2, 4, ...)",
            where.text, words.text, config->ranks);
    if (!ZR_IS_POWER_OF_TWO(config->accumulation))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: libzero.exact_world with gradient_accumulation_steps %lld (a batch of "
                       "%lld = %lld x %lld x %s): expected a power of two (1, 2, 4, ...)",
                       where.text, (long long)config->accumulation, (long long)config->train_batch,
                       (long long)config->micro_batch, (long long)config->accumulation, words.text);
    return ZERO_OK;
}

// A micro-batch derived from the number of ranks would change with that number, and matrix products
// of other shapes give other bits.
static zero_status check_micro_batch(const zr_config *config, zero_error *error)
{
    const zr_setting *micro = zr_config_at(config, "train_micro_batch_size_per_gpu");
    if (micro->origin == ZR_FROM_FILE || micro->origin == ZR_FROM_FLAG)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: libzero.exact_world needs train_micro_batch_size_per_gpu (--micro-batch): "
                   "it was not given, and the %lld that follow from %s "
                   "would be others on others; with train_batch_size in addition one file serves "
                   "any number of ranks",
                   zr_setting_where(config, zr_config_at(config, "libzero.exact_world")).text,
                   (long long)config->micro_batch, zr_ranks_in_words(zr_config_grid(config)).text);
}

static zero_status check_type(const zr_config *config, const char *path, bool given,
                              zero_dtype dtype, const char *what, zero_error *error)
{
    if (!given || dtype == ZERO_F32)
        return ZERO_OK;
    const zr_setting *setting = zr_config_at(config, path);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: %s is %s, but with libzero.exact_world %s; expected fp32, or null",
                   zr_setting_where(config, setting).text, path, json_string_value(setting->value),
                   what);
}

zero_status zr_config_check_exact(const zr_config *config, zero_error *error)
{
    if (!config->exact_world)
        return ZERO_OK;
    ZERO_TRY(check_counts(config, error));
    ZERO_TRY(check_micro_batch(config, error));
    ZERO_TRY(check_type(config, "communication_data_type", config->wire_given, config->wire_dtype,
                        "gradients are exchanged in fp32", error));
    return check_type(config, "data_types.grad_accum_dtype", config->accumulator_given,
                      config->accumulator_dtype,
                      "sums are fp32 until all micro-batches are in them", error);
}
