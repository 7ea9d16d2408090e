#include "model/model_json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_LIMIT (1 << 20) // the most bytes of a config.json

zero_status zr_model_json_open(const char *path, zr_model_json *out, zero_error *error)
{
    *out = (zr_model_json){.path = path, .error = error};
    ZERO_TRY(zr_json_load(path, CONFIG_LIMIT, &out->root, error));
    out->at = out->root;
    if (json_is_object(out->root))
        return ZERO_OK;
    zr_model_json_close(out);
    return zr_fail(error, ZERO_ERR_DATA, "%s: a JSON object is expected", path);
}

void zr_model_json_close(zr_model_json *file)
{
    json_decref(file->root);
    file->root = NULL;
}

const json_t *zr_model_json_get(const zr_model_json *file, const char *key)
{
    const json_t *value = file->status == ZERO_OK ? json_object_get(file->at, key) : NULL;
    return json_is_null(value) ? NULL : value;
}

static void refuse_missing_key(zr_model_json *file, const char *key)
{
    file->status =
        zr_fail(file->error, ZERO_ERR_DATA, "%s: key \"%s\" is missing", file->path, key);
}

int64_t zr_model_json_size(zr_model_json *file, const char *key, const int64_t *otherwise)
{
    const json_t *value = zr_model_json_get(file, key);
    if (file->status != ZERO_OK)
        return 0;
    if (!value && otherwise)
        return *otherwise;
    if (!value)
        refuse_missing_key(file, key);
    else if (!json_is_integer(value))
        file->status = zr_fail(file->error, ZERO_ERR_DATA, "%s: \"%s\" is not a whole number",
                               file->path, key);
    return file->status == ZERO_OK ? (int64_t)json_integer_value(value) : 0;
}

double zr_model_json_real(zr_model_json *file, const char *key, const double *otherwise)
{
    const json_t *value = zr_model_json_get(file, key);
    if (file->status != ZERO_OK)
        return 0;
    if (!value && otherwise)
        return *otherwise;
    if (!value)
        refuse_missing_key(file, key);
    else if (!json_is_number(value))
        file->status =
            zr_fail(file->error, ZERO_ERR_DATA, "%s: \"%s\" is not a number", file->path, key);
    return file->status == ZERO_OK ? json_number_value(value) : 0;
}

bool zr_model_json_bool(zr_model_json *file, const char *key, bool otherwise)
{
    const json_t *value = zr_model_json_get(file, key);
    if (!value)
        return otherwise;
    if (!json_is_boolean(value))
        file->status = zr_fail(file->error, ZERO_ERR_DATA, "%s: \"%s\" is neither true nor false",
                               file->path, key);
    return json_is_true(value);
}

const char *zr_model_json_text(zr_model_json *file, const char *key, const char *otherwise)
{
    const json_t *value = zr_model_json_get(file, key);
    if (file->status != ZERO_OK || (!value && otherwise))
        return otherwise;
    if (!json_is_string(value))
        file->status = zr_fail(file->error, ZERO_ERR_DATA, "%s: \"%s\" is %s", file->path, key,
                               value ? "not a string" : "missing");
    return json_string_value(value);
}

void zr_model_json_require_bool(zr_model_json *file, const char *key, bool right, bool otherwise)
{
    bool found = zr_model_json_bool(file, key, otherwise);
    if (file->status == ZERO_OK && found != right)
        file->status = zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                               "%s: \"%s\" is %s: only %s can be computed exactly", file->path, key,
                               right ? "false" : "true", right ? "true" : "false");
}

void zr_model_json_require_text(zr_model_json *file, const char *key, const char *right,
                                const char *synonym)
{
    const char *text = zr_model_json_text(file, key, right);
    if (file->status == ZERO_OK && strcmp(text, right) != 0 &&
        (!synonym || strcmp(text, synonym) != 0))
        file->status = zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                               "%s: \"%s\" is \"%s\": only \"%s\" can be computed exactly",
                               file->path, key, text, right);
}

void zr_model_json_refuse(zr_model_json *file, const char *key, const char *why)
{
    if (zr_model_json_get(file, key))
        file->status = zr_fail(file->error, ZERO_ERR_UNSUPPORTED, "%s: \"%s\" is given: %s",
                               file->path, key, why);
}

static bool has_text(const json_t *object, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(object, key));
    return found && !strcmp(found, text);
}

void zr_model_json_read_base(zr_model_json *file, zr_weight_format *out)
{
    static const char key[] = "quantization_config";
    const json_t *how = zr_model_json_get(file, key);
    bool ours = has_text(how, "quant_method", "bitsandbytes"),
         four = json_is_true(json_object_get(how, "load_in_4bit")),
         nested = json_is_true(json_object_get(how, "bnb_4bit_use_double_quant"));
    *out = ZR_WEIGHT_PLAIN;
    if (!how)
        return;
    if (ours && four && nested && has_text(how, "bnb_4bit_quant_type", "nf4"))
        *out = ZR_WEIGHT_NF4;
    else if (ours && !four && json_is_true(json_object_get(how, "load_in_8bit")))
        *out = ZR_WEIGHT_INT8;
    else
        zr_model_json_refuse(file, key,
                             "of quantised weights, bitsandbytes' int8, and its nf4 with double "
                             "quantisation, can be read");
}

void zr_model_json_tokens(zr_model_json *file, const char *key, zr_token_ids *out)
{
    const json_t *found = json_object_get(file->at, key);
    size_t count = json_is_array(found) ? json_array_size(found) : json_is_integer(found);
    *out = (zr_token_ids){.given = found != NULL, .listed = json_is_array(found)};
    bool right = !found || json_is_null(found) || json_is_array(found) || json_is_integer(found);
    for (size_t i = 0; i < count && i < ZR_MOST_TOKEN_IDS; i++) {
        const json_t *id = out->listed ? json_array_get(found, i) : found;
        right = right && json_is_integer(id);
        out->at[out->count++] = json_integer_value(id);
    }
    if (file->status == ZERO_OK && (!right || count > ZR_MOST_TOKEN_IDS))
        file->status =
            zr_fail(file->error, ZERO_ERR_DATA,
                    "%s: \"%s\" is neither a token's id, nor null, nor a list of at most %d ids",
                    file->path, key, ZR_MOST_TOKEN_IDS);
}

void zr_model_json_put_real(zr_json_writer *w, const char *key, double value, bool single)
{
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if ((single ? (double)strtof(digits, NULL) : strtod(digits, NULL)) == value)
            break;
    }
    if (!strpbrk(digits, ".e"))
        strcat(digits, ".0");
    zr_json_verbatim(w, key, digits);
}

void zr_model_json_put_tokens(zr_json_writer *w, const char *key, const zr_token_ids *ids)
{
    if (!ids->given)
        return;
    if (ids->listed)
        zr_json_begin_array(w, key);
    else if (!ids->count)
        zr_json_null(w, key);
    for (int i = 0; i < ids->count; i++)
        zr_json_integer(w, ids->listed ? NULL : key, ids->at[i]);
    if (ids->listed)
        zr_json_end(w);
}
