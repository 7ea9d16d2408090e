#include "setup/model_preference.h"

#include "base/json.h"
#include "layers/layers.h"

#include <string.h>

// Appends ",beta=0.1" for every setting; zr_preference_parse refuses what it does not know.
static void write_settings(const json_t *object, zr_buffer *out)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (!strcmp(key, "loss"))
            continue;
        if (json_is_boolean(value))
            zr_buffer_printf(out, ",%s=%s", key, json_is_true(value) ? "true" : "false");
        else if (json_is_number(value))
            zr_buffer_printf(out, ",%s=%.17g", key, json_number_value(value));
        else
            zr_buffer_printf(out, ",%s=%s", key,
                             json_is_string(value) ? json_string_value(value) : "?");
    }
}

static zero_status read_object(const json_t *object, const char *name, zr_preference *out,
                               zero_error *error)
{
    const char *loss = json_string_value(json_object_get(object, "loss"));
    zr_buffer text = {0};
    if (!loss)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: " ZR_PREFERENCE_KEY " has no \"loss\" that is text, as \"dpo\"", name);
    zr_buffer_printf(&text, "%s", loss);
    write_settings(object, &text);
    zero_status status = text.failed
                             ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for " ZR_PREFERENCE_KEY)
                             : zr_preference_parse(text.data, name, out, error);
    zr_buffer_free(&text);
    return status;
}

zero_status zr_model_preference_read(const zr_config *config, zr_preference *out, zero_error *error)
{
    const zr_setting *setting = zr_config_setting(config, ZR_PREFERENCE_KEY);
    const json_t *value = setting ? setting->value : NULL;
    const char *name = setting && setting->flag ? setting->flag : config->name;
    *out = (zr_preference){0};
    if (!value || json_is_null(value))
        return ZERO_OK;
    if (json_is_string(value))
        return zr_preference_parse(json_string_value(value), name, out, error);
    if (json_is_object(value))
        return read_object(value, name, out, error);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: " ZR_PREFERENCE_KEY
                   ": expected text as \"dpo,beta=0.1\", or an object with "
                   "the name of a loss as \"loss\" and its settings",
                   name);
}

const char *zr_model_reference_file(const zr_config *config)
{
    const zr_setting *setting = zr_config_setting(config, ZR_REFERENCE_KEY);
    return setting ? json_string_value(setting->value) : NULL;
}

zero_status zr_model_preference_apply(const zr_config *config, zr_lm_config *model, bool *changed,
                                      zero_error *error)
{
    const zr_preference before = model->preference;
    ZERO_TRY(zr_model_preference_read(config, &model->preference, error));
    model->documents = model->documents || model->preference.kind;
    *changed = !zr_preference_is_same(&before, &model->preference);
    return ZERO_OK;
}

zero_status zr_model_preference_check(const zr_config *config, const zero_model *model,
                                      zero_error *error)
{
    const zr_lm_config *ours = zr_lm_config_of(model);
    zr_preference wanted;
    ZERO_TRY(zr_model_preference_read(config, &wanted, error));
    if (!wanted.kind || (ours && zr_preference_is_same(&wanted, &ours->preference)))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: " ZR_PREFERENCE_KEY " asks for a loss that the model \"%s\" is not made "
                   "for: a program makes it by zero_preference_create",
                   config->name, model->name);
}

zero_status zero_preference_create(const zero_model *model, const char *preference,
                                   zero_model **out, zero_error *error)
{
    ZR_NEED(error, model);
    ZR_NEED(error, preference);
    ZR_NEED(error, out);
    const zr_lm_config *ours = zr_lm_config_of(model);
    if (!ours || model->whole)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "zero_preference_create: the model \"%s\" is not one of the library's own: "
                       "only the head of these computes losses of preferences",
                       model->name);
    zr_lm_config config = *ours;
    ZERO_TRY(zr_preference_parse(preference, "zero_preference_create", &config.preference, error));
    config.documents = config.documents || config.preference.kind;
    return zr_lm_create(&config, out, error);
}

void zero_preference_destroy(zero_model *model) { zr_lm_free(model); }
