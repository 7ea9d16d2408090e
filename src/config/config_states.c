// The type of optimizer states, from libzero.optimizer_states (--optimizer-states) and DeepSpeed's
// two switches, and what has no states of that type; the decay of the average of the weights.
#include "config/settings.h"

#include <string.h>

#define STATES "libzero.optimizer_states"
#define EMA "libzero.ema_decay"

static const struct {
    const char *path;
    bool value;      // with which it asks for bf16
    bool needs_bf16; // it counts only where bf16.enabled is true
} switches[] = {
    {"bf16.bf16_optimizer_states", true, true},
    {"optimizer.params.fp32_optimizer_states", false, false},
};

// Returns the switch that asks for bf16; NULL if there is none.
static const zr_setting *find_switch(const zr_config *config, const char **path)
{
    for (int i = 0; i < ZR_COUNT(switches); i++) {
        const zr_setting *setting = zr_config_at(config, switches[i].path);
        bool counts = zr_key_applies(zr_key_at(zr_key_find(switches[i].path)), config) &&
                      (!switches[i].needs_bf16 || config->dtype == ZERO_BF16);
        *path = switches[i].path;
        if (counts && json_is_boolean(setting->value) &&
            json_is_true(setting->value) == switches[i].value)
            return setting;
    }
    return NULL;
}

static zero_dtype type_named(const char *name)
{
    return !strcmp(name, "fp32") ? ZERO_F32 : !strcmp(name, "bf16") ? ZERO_BF16 : ZERO_U8;
}

static bool has_states_of(const zr_config *config)
{
    uint32_t adams = 1u << ZR_OPTIMIZER_ADAMW | 1u << ZR_OPTIMIZER_ADAM_L2;
    if (config->optimizer.kind == ZR_OPTIMIZER_ADAFACTOR)
        return config->states_dtype == ZERO_F32;
    return config->states_dtype != ZERO_U8 || adams >> config->optimizer.kind & 1;
}

static zero_status check_states(const zr_config *config, const char *path, zero_error *error)
{
    const char *name = zr_optimizer_traits_of(config->optimizer.kind)->name;
    char why[256] = "";
    if (config->states_dtype == ZERO_BF16 && config->dtype == ZERO_F16)
        snprintf(why, sizeof why,
                 "training is in fp16; expected fp32 or 8bit states, or bf16 training");
    else if (!has_states_of(config) && config->optimizer.kind == ZR_OPTIMIZER_ADAFACTOR)
        snprintf(why, sizeof why,
                 "the optimizer is %s, whose states are small and stay fp32; expected fp32", name);
    else if (!has_states_of(config))
        snprintf(why, sizeof why, "the optimizer is %s; Adam and AdamW have states of 8 bits",
                 name);
    else if (config->states_dtype == ZERO_U8 && config->exact_tensor_said)
        snprintf(why, sizeof why,
                 "libzero.exact_tensor promises the same bits on any number of tensor ranks, and "
                 "blocks of states lie in slices of theirs; expected fp32 or bf16 states");
    return why[0] ? zr_config_refuse_setting(config, path, why, error) : ZERO_OK;
}

zero_status zr_config_fill_states(zr_config *config, zero_error *error)
{
    const char *path;
    const zr_setting *asked = find_switch(config, &path), *own = zr_config_at(config, STATES);
    const char *name = json_string_value(own->value);
    if (config->optimizer.ema_decay >= 1)
        return zr_config_refuse_setting(
            config, EMA, "such an average never moves; expected at least 0 and below 1", error);
    config->states_dtype = name ? type_named(name) : asked ? ZERO_BF16 : ZERO_F32;
    if (name && asked && config->states_dtype != ZERO_BF16)
        return zr_config_refuse_setting(
            config, path, "libzero.optimizer_states says another type; keep one of them", error);
    return check_states(config, name ? STATES : path, error);
}
