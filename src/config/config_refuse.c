// Refuses what cannot be done before anything is resolved: values that are not built, and
// parameters that belong to another kind of optimizer or schedule.
#include "config/settings.h"

#include <string.h>

static bool is_true(const zr_config *config, const char *path)
{
    return json_is_true(zr_config_value(config, path));
}

static bool is_word(const zr_config *config, const char *path, const char *word)
{
    const json_t *value = zr_config_value(config, path);
    return json_is_string(value) && !strcmp(json_string_value(value), word);
}

static zero_status refuse_value(const zr_config *config, int index, zero_error *error)
{
    const zr_key *key = zr_key_at(index);
    const zr_setting *setting = &config->settings[index];
    zero_status status =
        key->treatment == ZR_KEY_FORBIDDEN ? ZERO_ERR_CONFIG : ZERO_ERR_UNSUPPORTED;
    const char *path = setting->spelled ? setting->spelled->path : key->path;
    bool plain = !json_is_object(setting->value) && !json_is_array(setting->value);
    return zr_fail(error, status, "%s: %s%s%s is refused: %s",
                   zr_setting_where(config, setting).text, path, plain ? " " : "",
                   plain ? zr_value_shown(setting->value).text : "",
                   zr_key_refusal(key, setting->value));
}

zero_status zr_config_refuse_unknown(const zr_config *config, const zero_logger *logger,
                                     zero_error *error)
{
    const char *line = config->unknown.data;
    int length;
    if (!config->unknown.length)
        return config->unknown.failed
                   ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to read \"%s\"", config->name)
                   : ZERO_OK;
    if (!is_true(config, "libzero.allow_unknown"))
        return zr_fail(error, ZERO_ERR_CONFIG, "%.*s (--allow-unknown ignores such keys)",
                       (int)strcspn(line, "\n"), line);
    for (; *line; line += length + 1) {
        length = (int)strcspn(line, "\n");
        zr_log(logger, ZERO_LOG_WARNING, "%.*s: it is ignored", length, line);
    }
    return ZERO_OK;
}

zero_status zr_config_refuse(const zr_config *config, zero_error *error)
{
    if (is_true(config, "fp16.enabled") && is_true(config, "bf16.enabled"))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: fp16 and bf16 are both enabled; a run has one precision",
                       zr_setting_where(config, zr_config_at(config, "bf16.enabled")).text);
    if (is_true(config, "libzero.exact_world") && is_word(config, "libzero.reduce", "per_step"))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: libzero.exact_world sums the gradient of each micro-batch along one "
                       "tree, libzero.reduce per_step sums those of a rank first; keep one of them",
                       zr_setting_where(config, zr_config_at(config, "libzero.reduce")).text);
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_setting *setting = &config->settings[i];
        bool asks = setting->value &&
                    (!zr_setting_is_auto(setting) || zr_key_at(i)->treatment == ZR_KEY_FORBIDDEN);
        if (asks && !zr_key_allows(zr_key_at(i), setting->value))
            return refuse_value(config, i, error);
    }
    return ZERO_OK;
}

static zero_status refuse_unknown_parameter(const zr_config *config, int index, zero_error *error)
{
    const zr_key *key = zr_key_at(index);
    bool of_optimizer = !strncmp(key->path, "optimizer", 9);
    if (zr_key_is_own_schedule(key))
        return zr_config_refuse_schedule_key(config, index, error);
    int kind = of_optimizer ? (int)config->optimizer.kind : (int)config->schedule.kind;
    const char *name = of_optimizer ? zr_optimizer_traits_of(config->optimizer.kind)->name
                                    : zr_schedule_name(config->schedule.kind);
    zr_where where = zr_setting_where(config, &config->settings[index]);
    bool theirs = kind != ZR_SCHEDULE_CONSTANT && !zr_schedule_is_own((zr_lr_schedule_kind)kind);
    if (!of_optimizer && !theirs)
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: %s needs a scheduler.type", where.text,
                       key->path);
    zr_buffer known = {0};
    zr_key_list_parameters(of_optimizer ? "optimizer.params." : "scheduler.params.", kind, &known);
    zero_status status = zr_fail(error, ZERO_ERR_CONFIG, "%s: %s has no %s; it has %s", where.text,
                                 name, key->path, known.failed ? "others" : known.data);
    zr_buffer_free(&known);
    return status;
}

void zr_config_settle_optimizer(zr_config *config)
{
    const json_t *optimizer = zr_config_value(config, "optimizer.type");
    const json_t *mode = zr_config_value(config, "optimizer.params.adam_w_mode");
    const char *name = json_is_string(optimizer) ? json_string_value(optimizer) : "AdamW";
    if (!strcmp(name, "auto"))
        name = "AdamW";
    config->optimizer.kind = (zr_optimizer_kind)zr_optimizer_find(name, !json_is_false(mode));
}

zero_status zr_config_settle_kinds(zr_config *config, zero_error *error)
{
    zr_config_settle_optimizer(config);
    ZERO_TRY(zr_config_settle_schedule(config, error));
    for (int i = 0; i < zr_key_count(); i++)
        if (zr_setting_is_given(&config->settings[i]) && !zr_key_applies(zr_key_at(i), config))
            return refuse_unknown_parameter(config, i, error);
    return ZERO_OK;
}
