#include "setup/model_lora.h"

#include "base/json.h"
#include "layers/layers.h"
#include <zero/lora.h>

#include <math.h>
#include <string.h>

// Appends "alpha=32," from an object's key, which peft spells in another way.
static void append_number(const json_t *object, const char *key, const char *other,
                          const char *word, zr_buffer *out)
{
    const json_t *value = json_object_get(object, key);
    value = value ? value : json_object_get(object, other);
    if (value)
        zr_buffer_printf(out, "%s=%.9g,", word,
                         json_is_number(value) ? json_number_value(value) : (double)NAN);
}

static void append_targets(const json_t *targets, zr_buffer *out)
{
    const json_t *item;
    size_t i;
    if (json_is_string(targets))
        zr_buffer_printf(out, "targets=%s,", json_string_value(targets));
    if (json_is_array(targets))
        zr_buffer_printf(out, "targets=");
    json_array_foreach(targets, i, item) zr_buffer_printf(
        out, "%s%s", i ? "+" : "", json_string_value(item) ? json_string_value(item) : "?");
    if (json_is_array(targets))
        zr_buffer_printf(out, ",");
}

static zero_status check_keys(const json_t *object, const char *name, zero_error *error)
{
    static const char *const known[] = {
        "r",      "alpha",      "lora_alpha",   "targets", "target_modules", "dropout",
        "rslora", "use_rslora", "lora_dropout", "dora",    "use_dora"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        bool found = false;
        for (int i = 0; i < ZR_COUNT(known); i++)
            found = found || !strcmp(key, known[i]);
        if (!found)
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "%s: " ZR_LORA_KEY ": the key \"%.64s\" is unknown; there are r, alpha, "
                           "targets, dropout, rslora and dora",
                           name, key);
    }
    return ZERO_OK;
}

// Writes an object as the text that zr_lora_parse reads.
static zero_status write_object(const json_t *object, const char *name, zr_buffer *out,
                                zero_error *error)
{
    const json_t *targets = json_object_get(object, "targets");
    ZERO_TRY(check_keys(object, name, error));
    append_number(object, "r", "r", "r", out);
    append_number(object, "alpha", "lora_alpha", "alpha", out);
    append_number(object, "dropout", "lora_dropout", "dropout", out);
    append_targets(targets ? targets : json_object_get(object, "target_modules"), out);
    if (json_is_true(json_object_get(object, "rslora")) ||
        json_is_true(json_object_get(object, "use_rslora")))
        zr_buffer_printf(out, "rslora,");
    if (json_is_true(json_object_get(object, "dora")) ||
        json_is_true(json_object_get(object, "use_dora")))
        zr_buffer_printf(out, "dora,");
    return ZERO_OK;
}

zero_status zr_model_lora_read(const zr_config *config, const zr_lm_config *model, zr_lora *out,
                               zero_error *error)
{
    const zr_setting *setting = zr_config_setting(config, ZR_LORA_KEY);
    const json_t *value = setting ? setting->value : NULL;
    const char *name = setting && setting->flag ? setting->flag : config->name;
    zr_buffer text = {0};
    *out = (zr_lora){0};
    if (!value || json_is_null(value))
        return ZERO_OK;
    if (json_is_string(value))
        return zr_lora_parse(json_string_value(value), name, model, out, error);
    if (!json_is_object(value))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: " ZR_LORA_KEY
                       ": expected text as \"r=16,alpha=32,targets=all-linear\", "
                       "or an object with these keys",
                       name);
    zero_status status = write_object(value, name, &text, error);
    if (status == ZERO_OK && text.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for " ZR_LORA_KEY);
    if (status == ZERO_OK)
        status = zr_lora_parse(text.data ? text.data : "", name, model, out, error);
    zr_buffer_free(&text);
    return status;
}

static bool is_same(const zr_lora *a, const zr_lora *b)
{
    return zr_lora_computes_same(a, b) && a->dropout == b->dropout;
}

zero_status zr_model_base_apply(const zr_config *config, zr_lm_config *model, zero_error *error)
{
    zr_weight_format asked = (zr_weight_format)config->base;
    if (asked && model->base && model->base != asked)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: " ZR_BASE_KEY " is %s, but the model's files have their weights in %s",
                       config->name, zr_weight_format_name(asked),
                       zr_weight_format_name(model->base));
    model->base = asked ? asked : model->base;
    return ZERO_OK;
}

zero_status zr_model_base_check(const zr_lm_config *model, const char *name, zero_error *error)
{
    if (!model->base || model->lora.rank)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: weights in %s do not train: --lora r=16 (" ZR_LORA_KEY ") trains adapters "
                   "of them",
                   name, zr_weight_format_name(model->base));
}

zero_status zr_model_lora_apply(const zr_config *config, zr_lm_config *model, bool *changed,
                                zero_error *error)
{
    const zr_lora before = model->lora;
    const zr_weight_format base = model->base;
    ZERO_TRY(zr_model_lora_read(config, model, &model->lora, error));
    ZERO_TRY(zr_model_base_apply(config, model, error));
    ZERO_TRY(zr_model_base_check(model, config->name, error));
    *changed = !is_same(&before, &model->lora) || base != model->base;
    return ZERO_OK;
}

// Returns whether the key is set to something else than no adapters.
static bool is_asked(const zr_config *config)
{
    const zr_setting *setting = zr_config_setting(config, ZR_LORA_KEY);
    const char *text = setting ? json_string_value(setting->value) : NULL;
    return setting && setting->value && !json_is_null(setting->value) &&
           !(text && !strcmp(text, "none"));
}

zero_status zr_model_lora_check(const zr_config *config, const zero_model *model, zero_error *error)
{
    const zr_lm_config *ours = zr_lm_config_of(model);
    zr_lora wanted = {0};
    if (ours)
        ZERO_TRY(zr_model_lora_read(config, ours, &wanted, error));
    bool asked = ours ? wanted.rank > 0 : is_asked(config);
    if (config->base && (!ours || (int)ours->base != config->base))
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "%s: " ZR_BASE_KEY " asks for weights in %s, which the model \"%s\" does not "
            "have: a program makes them by zero_lora_create_on",
            config->name, zr_weight_format_name((zr_weight_format)config->base), model->name);
    if (!asked || (ours && is_same(&wanted, &ours->lora)))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: " ZR_LORA_KEY " asks for adapters that the model \"%s\" does not have: a "
                   "program makes them by zero_lora_create",
                   config->name, model->name);
}

zero_status zero_lora_create(const zero_model *model, const char *adapters, zero_model **out,
                             zero_error *error)
{
    return zero_lora_create_on(model, NULL, adapters, out, error);
}

zero_status zero_lora_create_on(const zero_model *model, const char *base, const char *adapters,
                                zero_model **out, zero_error *error)
{
    ZR_NEED(error, model);
    ZR_NEED(error, adapters);
    ZR_NEED(error, out);
    const zr_lm_config *ours = zr_lm_config_of(model);
    if (!ours || model->whole)
        return zr_fail(
            error, ZERO_ERR_UNSUPPORTED,
            "zero_lora_create: the model \"%s\" is not one of the library's own: adapters "
            "stand next to the linear layers of these",
            model->name);
    zr_lm_config config = *ours;
    if (base && !zr_weight_format_find(base, &config.base))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_lora_create_on: the base \"%s\" is unknown: nf4 or int8", base);
    ZERO_TRY(zr_lora_parse(adapters, "zero_lora_create", ours, &config.lora, error));
    return zr_lm_create(&config, out, error);
}

void zero_lora_destroy(zero_model *model) { zr_lm_free(model); }
