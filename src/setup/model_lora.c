#include "setup/model_lora.h"

#include "base/json.h"

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
    static const char *const known[] = {"r",       "alpha",          "lora_alpha",
                                        "targets", "target_modules", "dropout",
                                        "rslora",  "use_rslora",     "lora_dropout"};
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
                           "targets, dropout and rslora",
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
    return a->rank == b->rank && a->alpha == b->alpha && a->dropout == b->dropout &&
           a->rank_root == b->rank_root && a->targets == b->targets;
}

zero_status zr_model_lora_apply(const zr_config *config, zr_lm_config *model, bool *changed,
                                zero_error *error)
{
    const zr_lora before = model->lora;
    ZERO_TRY(zr_model_lora_read(config, model, &model->lora, error));
    *changed = !is_same(&before, &model->lora);
    return ZERO_OK;
}
