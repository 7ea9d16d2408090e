// Flags over the file: the flag wins, and says so.
#include "config/settings.h"

#include <string.h>

static json_t *read_value(const zr_key *key, const char *text)
{
    if (key->type == ZR_KEY_STRING || key->type == ZR_KEY_ENUM)
        return json_string(text);
    json_error_t why;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &why);
    bool no_json = !value && json_error_code(&why) != json_error_out_of_memory;
    return no_json ? json_string(text) : value;
}

static zero_status find_key(const char *path, const char *flag, int *index, zero_error *error)
{
    *index = zr_key_find(path);
    if (*index >= 0 && zr_key_at(*index)->treatment != ZR_KEY_RENAMED)
        return ZERO_OK;
    char nearest[ZR_KEY_PATH_BYTES];
    zr_key_nearest(path, nearest);
    return zr_fail(error, ZERO_ERR_USAGE, "%s: the configuration has no key \"%s\"%s%s", flag, path,
                   nearest[0] ? "; did you mean " : "", nearest);
}

static zero_status check_value(const zr_key *key, const char *text, const char *flag, json_t **out, zero_error *error)
{
    char wanted[ZR_KEY_WANTED_BYTES] = "";
    json_t *value = read_value(key, text);
    *out = value ? zr_key_check(key, value, wanted) : NULL;
    json_decref(value);
    if (wanted[0])
        return zr_fail(error, ZERO_ERR_USAGE, "%s: %s: found %.64s, expected %s", flag, key->path, text, wanted);
    return *out ? ZERO_OK : zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for a setting", flag);
}

// The flag and the file differ: one line, or an error.
static zero_status report(const zr_config *config, const zr_setting *setting, const zr_key *key, const json_t *value,
                          const char *flag, bool strict, const zero_logger *logger, zero_error *error)
{
    const char *dot = strrchr(key->path, '.'), *name = dot ? dot + 1 : key->path;
    zr_shown now = zr_value_shown(value), before = zr_value_shown(setting->value);
    if (strict)
        return zr_fail(error, ZERO_ERR_USAGE, "%s %s contradicts %s:%d, which says %s %s (strict)", flag, now.text,
                       config->name, setting->line, name, before.text);
    zr_log(logger, ZERO_LOG_INFO, "%s %s (%s; %s:%d says %s)", name, now.text, flag, config->name, setting->line,
           before.text);
    return ZERO_OK;
}

static zero_status put_flag(zr_setting *setting, json_t *value, const char *flag, zero_error *error)
{
    char *copy = zr_strdup(flag, error);
    if (!copy) {
        json_decref(value);
        return ZERO_ERR_MEMORY;
    }
    zr_free(setting->flag);
    setting->flag = copy;
    setting->spelled = NULL;
    return zr_setting_put(setting, value, ZR_FROM_FLAG, error);
}

zero_status zr_config_override(zr_config *config, const char *path, const char *text, const char *flag, bool strict,
                               const zero_logger *logger, zero_error *error)
{
    int index;
    json_t *value;
    ZERO_TRY(find_key(path, flag, &index, error));
    const zr_key *key = zr_key_at(index);
    zr_setting *setting = &config->settings[index];
    ZERO_TRY(check_value(key, text, flag, &value, error));
    bool differs = setting->origin == ZR_FROM_FILE && setting->value && !zr_setting_is_auto(setting) &&
                   !json_equal(setting->value, value);
    zero_status status = differs ? report(config, setting, key, value, flag, strict, logger, error) : ZERO_OK;
    if (status != ZERO_OK) {
        json_decref(value);
        return status;
    }
    ZERO_TRY(put_flag(setting, value, flag, error));
    // The file's schedule may hold the rate that the flag means.
    static const char warmup_max[] = "scheduler.params.warmup_max_lr";
    if (!strcmp(path, "optimizer.params.lr") && json_is_number(zr_config_value(config, warmup_max)))
        return zr_config_override(config, warmup_max, text, flag, strict, logger, error);
    return ZERO_OK;
}
