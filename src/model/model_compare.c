#include "model/lm_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Keys of config.json that do not change the arithmetic: they only name a model, describe how to
// read it, or set how its first weights were drawn. All other keys count.
static const char *const no_arithmetic[] = {"architectures", "torch_dtype",  "bos_token_id",
                                            "eos_token_id",  "pad_token_id", "initializer_range"};

static const struct {
    const char *name;
    zr_lm_role first, last; // the fields that it lets differ
} changes[] = {
    {"dropout", ZR_ROLE_RESIDUAL_DROPOUT, ZR_ROLE_ATTENTION_DROPOUT},
};

static zero_status refuse_change(const char *name, size_t length, zero_error *error)
{
    char known[128] = "";
    for (int c = 0, at = 0; c < ZR_COUNT(changes) && at < (int)sizeof known; c++)
        at += snprintf(known + at, sizeof known - (size_t)at, c ? ", %s" : "%s", changes[c].name);
    return zr_fail(error, ZERO_ERR_USAGE,
                   "allow-change: nothing is called \"%.*s\"; what may change on purpose: %s",
                   (int)ZR_MIN(length, (size_t)80), name, known);
}

zero_status zr_lm_changes_parse(const char *names, zr_lm_changes *out, zero_error *error)
{
    *out = 0;
    for (const char *at = names; at && *at;) {
        size_t length = strcspn(at, ",");
        int c = 0;
        while (c < ZR_COUNT(changes) &&
               (strlen(changes[c].name) != length || memcmp(changes[c].name, at, length)))
            c++;
        if (c == ZR_COUNT(changes))
            return refuse_change(at, length, error);
        *out |= (zr_lm_changes)1 << c;
        at += length + (at[length] == ',');
    }
    return ZERO_OK;
}

// Of a model that has these keys, but uses no window.
static const char *const of_windows[] = {"sliding_window", "max_window_layers", "layer_types"};

static bool changes_arithmetic(const json_t *model, const char *key)
{
    bool windows = !json_is_false(json_object_get(model, "use_sliding_window"));
    for (int i = 0; i < ZR_COUNT(of_windows); i++)
        if (!windows && !strcmp(of_windows[i], key))
            return false;
    for (int i = 0; i < ZR_COUNT(no_arithmetic); i++)
        if (!strcmp(no_arithmetic[i], key))
            return false;
    return true;
}

// Returns the change that permits the key to differ; -1 if the key may not differ.
static int find_change(const zr_lm_field *fields, const char *key)
{
    for (int c = 0; c < ZR_COUNT(changes); c++)
        for (int role = (int)changes[c].first; role <= (int)changes[c].last; role++)
            if (fields[role].key && !strcmp(fields[role].key, key))
                return c;
    return -1;
}

static void write_value_text(const json_t *value, char *out, size_t size)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    snprintf(out, size, "%s", text ? text : "none");
    free(text);
}

// Finds the first key of `a`, which has these fields, with another value in `b` or none.
static void compare_keys(const json_t *a, const json_t *b, const zr_lm_field *fields,
                         zr_lm_changes allowed, zr_lm_difference *out)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)a, key, value)
    {
        int change = find_change(fields, key);
        if (out->found || !changes_arithmetic(a, key) ||
            json_equal(value, json_object_get(b, key)) || (change >= 0 && allowed >> change & 1))
            continue;
        *out =
            (zr_lm_difference){.found = true, .change = change < 0 ? NULL : changes[change].name};
        snprintf(out->key, sizeof out->key, "%s", key);
    }
}

zero_status zr_lm_compare_saved(const json_t *saved, const zr_lm_config *config,
                                zr_lm_changes allowed, zr_lm_difference *out, zero_error *error)
{
    json_t *ours = zr_lm_config_pack(config);
    const zr_lm_field *fields = zr_architecture_of(config)->fields;
    *out = (zr_lm_difference){.found = false};
    if (!ours)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for a model's configuration");
    compare_keys(saved, ours, fields, allowed, out);
    compare_keys(ours, saved, fields, allowed, out);
    const json_t *of[2] = {saved, ours};
    for (int i = 0; i < 2 && out->found; i++)
        write_value_text(json_object_get(of[i], out->key), out->values[i], sizeof out->values[i]);
    json_decref(ours);
    return ZERO_OK;
}

zero_status zr_lm_compare(const zr_lm_config *a, const zr_lm_config *b, zr_lm_changes allowed,
                          zr_lm_difference *out, zero_error *error)
{
    json_t *saved = zr_lm_config_pack(a);
    if (!saved)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for a model's configuration");
    zero_status status = zr_lm_compare_saved(saved, b, allowed, out, error);
    json_decref(saved);
    return status;
}

json_t *zr_lm_config_pack(const zr_lm_config *config)
{
    zr_buffer text = {0};
    zr_lm_config_write(config, &text);
    json_t *object = text.failed ? NULL : json_loadb(text.data, text.length, 0, NULL);
    zr_buffer_free(&text);
    return object;
}
