// Determines the precision of a run from libzero.dtype (--dtype), fp16.enabled, bf16.enabled and
// data_types together.
//
// A concrete value decides: libzero.dtype, else the section that is enabled. "auto" in a section
// waits for libzero.dtype; if nobody gives anything, training is in fp32, as DeepSpeed's is. Once
// settled, both switches are true or false and libzero.dtype is null again, so that the resolved
// file has only DeepSpeed's keys.
#include "config/settings.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    zero_dtype dtype;
    const char *switched_by; // NULL: it needs no switch
} types[] = {
    {"fp32", ZERO_F32, NULL},
    {"fp16", ZERO_F16, "fp16.enabled"},
    {"bf16", ZERO_BF16, "bf16.enabled"},
};

static const char *precision_name_of(zero_dtype dtype)
{
    int i = 0;
    while (types[i].dtype != dtype)
        i++;
    return types[i].name;
}

static zero_dtype type_named(const char *name)
{
    int i = 0;
    while (strcmp(types[i].name, name))
        i++;
    return types[i].dtype;
}

static zero_dtype enabled_type(const zr_config *config)
{
    for (int i = 0; i < ZR_COUNT(types); i++)
        if (types[i].switched_by && json_is_true(zr_config_value(config, types[i].switched_by)))
            return types[i].dtype;
    return ZERO_F32;
}

static zero_status check_switches(const zr_config *config, zero_dtype dtype, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(types); i++) {
        const zr_setting *setting =
            types[i].switched_by ? zr_config_at(config, types[i].switched_by) : NULL;
        bool on = types[i].dtype == dtype;
        if (setting && (on ? json_is_false(setting->value) : json_is_true(setting->value)))
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "%s: %s %s contradicts libzero.dtype \"%s\"; keep one of them",
                           zr_setting_where(config, setting).text, types[i].switched_by,
                           on ? "false" : "true", precision_name_of(dtype));
    }
    return ZERO_OK;
}

static bool nobody_chose(const zr_config *config)
{
    for (int i = 0; i < ZR_COUNT(types); i++)
        if (types[i].switched_by && json_is_boolean(zr_config_value(config, types[i].switched_by)))
            return false;
    return true;
}

static zero_status choose_precision(const zr_config *config, const zr_config_facts *facts,
                                    const zero_logger *logger, zero_dtype *out, zero_error *error)
{
    const zr_setting *word = zr_config_at(config, "libzero.dtype");
    *out = enabled_type(config);
    if (zr_setting_is_auto(word)) {
        if (*out == ZERO_F32 && !json_is_false(zr_config_value(config, "bf16.enabled")))
            *out = facts->auto_dtype;
        zr_log(logger, ZERO_LOG_DEBUG, "libzero.dtype auto: %s", precision_name_of(*out));
    } else if (json_is_string(word->value)) {
        *out = type_named(json_string_value(word->value));
        return check_switches(config, *out, error);
    } else if (facts->auto_dtype != ZERO_F32 && nobody_chose(config))
        zr_log(logger, ZERO_LOG_DEBUG,
               "training is in fp32; %s would be faster on this processor (--dtype %s)",
               precision_name_of(facts->auto_dtype), precision_name_of(facts->auto_dtype));
    return ZERO_OK;
}

static zero_status settle_switch(zr_config *config, const char *path, bool on, bool chosen,
                                 const zero_logger *logger, zero_error *error)
{
    zr_setting *setting = zr_config_at(config, path);
    if (json_is_boolean(setting->value))
        return ZERO_OK;
    bool is_auto = zr_setting_is_auto(setting);
    if (is_auto && setting->origin == ZR_FROM_FILE)
        zr_log(logger, ZERO_LOG_DEBUG, "%s auto: %s%s", path, on ? "true" : "false",
               chosen ? "" : " (no --dtype says otherwise)");
    return zr_setting_put(setting, json_boolean(on), is_auto ? ZR_FROM_AUTO : ZR_FROM_PROGRAM,
                          error);
}

zero_status zr_config_settle_precision(zr_config *config, const zr_config_facts *facts,
                                       const zero_logger *logger, zero_error *error)
{
    zr_setting *word = zr_config_at(config, "libzero.dtype");
    ZERO_TRY(choose_precision(config, facts, logger, &config->dtype, error));
    bool chosen = json_is_string(word->value) || !nobody_chose(config);
    for (int i = 0; i < ZR_COUNT(types); i++)
        if (types[i].switched_by)
            ZERO_TRY(settle_switch(config, types[i].switched_by, types[i].dtype == config->dtype,
                                   chosen, logger, error));
    zr_setting_clear(word);
    return ZERO_OK;
}

static double number_at(const zr_config *config, const char *path)
{
    return json_number_value(zr_config_value(config, path));
}

static zr_loss_scale_spec loss_scale_spec(const zr_config *config)
{
    double fixed = number_at(config, "fp16.loss_scale");
    if (config->dtype != ZERO_F16)
        return (zr_loss_scale_spec){.kind = ZR_SCALE_NONE};
    if (fixed > 0)
        return (zr_loss_scale_spec){.kind = ZR_SCALE_STATIC, .initial = fixed};
    return (zr_loss_scale_spec){
        .kind = ZR_SCALE_DYNAMIC,
        .initial = ldexp(1, (int)number_at(config, "fp16.initial_scale_power")),
        .min_scale = number_at(config, "fp16.min_loss_scale"),
        .window = json_integer_value(zr_config_value(config, "fp16.loss_scale_window")),
        .hysteresis = (int)number_at(config, "fp16.hysteresis"),
        .consecutive_hysteresis =
            json_is_true(zr_config_value(config, "fp16.consecutive_hysteresis")),
    };
}

static zero_status fill_loss_scale(zr_config *config, zero_error *error)
{
    config->loss_scale = loss_scale_spec(config);
    const zr_loss_scale_spec *scale = &config->loss_scale;
    if (scale->kind == ZR_SCALE_DYNAMIC && scale->initial < scale->min_scale)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: the first loss scale, %g (2 to fp16.initial_scale_power), is below "
                       "fp16.min_loss_scale, %g",
                       zr_setting_where(config, zr_config_at(config, "fp16.min_loss_scale")).text,
                       scale->initial, scale->min_scale);
    return ZERO_OK;
}

// Returns whether the key names a type, and puts it into *out. Warns about fp16 in a run of another
// type, because small gradients become zero in fp16 without a loss scale.
static bool fill_type(const zr_config *config, const char *path, const zero_logger *logger,
                      zero_dtype *out)
{
    const zr_setting *setting = zr_config_at(config, path);
    if (!json_is_string(setting->value))
        return false;
    *out = type_named(json_string_value(setting->value));
    if (*out == ZERO_F16 && config->dtype != ZERO_F16)
        zr_log(logger, ZERO_LOG_WARNING,
               "%s: %s fp16 in a run in %s: gradients below 6e-8 become zero, as only fp16.enabled "
               "brings a loss scale",
               zr_setting_where(config, setting).text, path, precision_name_of(config->dtype));
    return true;
}

static zero_status check_parameters(const zr_config *config, zero_error *error)
{
    const zr_setting *setting = zr_config_at(config, "data_types.param_dtype");
    if (!json_is_string(setting->value) ||
        type_named(json_string_value(setting->value)) == config->dtype)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: data_types.param_dtype %s contradicts the precision of the run, %s "
                   "(fp16.enabled, bf16.enabled "
                   "or --dtype)",
                   zr_setting_where(config, setting).text, json_string_value(setting->value),
                   precision_name_of(config->dtype));
}

zero_status zr_config_fill_precision(zr_config *config, const zero_logger *logger,
                                     zero_error *error)
{
    ZERO_TRY(check_parameters(config, error));
    config->accumulator_given =
        fill_type(config, "data_types.grad_accum_dtype", logger, &config->accumulator_dtype);
    config->wire_given = fill_type(config, "communication_data_type", logger, &config->wire_dtype);
    return fill_loss_scale(config, error);
}
