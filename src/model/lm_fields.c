// Accesses numbers by their offsets in an architecture's struct.
#include "model/lm_fields.h"
#include "model/model_json.h"
#include <math.h>

static bool is_size(const zr_lm_field *field)
{
    return field->kind == ZR_FIELD_SIZE || field->kind == ZR_FIELD_OPTIONAL;
}

static bool is_double(const zr_lm_field *field)
{
    return field->kind == ZR_FIELD_FRACTION || field->kind == ZR_FIELD_BASE;
}

static int64_t *size_at(const void *config, size_t at) { return (int64_t *)((char *)config + at); }

static float *float_at(const void *config, size_t at) { return (float *)((char *)config + at); }

static double *double_at(const void *config, size_t at) { return (double *)((char *)config + at); }

static int *flag_at(const void *config, size_t at) { return (int *)((char *)config + at); }

int64_t zr_lm_field_size(const zr_lm_field *field, const void *config)
{
    return field->kind == ZR_FIELD_NONE ? 0 : *size_at(config, field->at);
}

float zr_lm_field_float(const zr_lm_field *field, const void *config)
{
    return field->kind == ZR_FIELD_NONE ? 0 : *float_at(config, field->at);
}

bool zr_lm_field_flag(const zr_lm_field *field, const void *config)
{
    return field->kind != ZR_FIELD_NONE && *flag_at(config, field->at);
}

void zr_lm_field_set_size(const zr_lm_field *field, void *config, int64_t value)
{
    if (field->kind != ZR_FIELD_NONE)
        *size_at(config, field->at) = value;
}

static zero_status size_check(const zr_lm_field *field, const char *title, const void *config,
                              zero_error *error)
{
    int64_t value = zr_lm_field_size(field, config);
    int64_t most = field->most ? field->most : *size_at(config, field->most_at);
    if ((value >= 1 && value <= most) || (value == 0 && field->kind == ZR_FIELD_OPTIONAL))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE, "%s: %s is %lld: it must be 1 to %lld", title, field->key,
                   (long long)value, (long long)most);
}

static zero_status float_check(const zr_lm_field *field, const char *title, const void *config,
                               zero_error *error)
{
    static const char *const needs[] = {
        [ZR_FIELD_EPSILON] = "it must be above 0 and below 1",
        [ZR_FIELD_DEVIATION] = "a finite standard deviation is needed",
        [ZR_FIELD_PROBABILITY] = "a probability from 0 to below 1 is needed",
        [ZR_FIELD_FRACTION] = "it must be above 0 and at most 1",
        [ZR_FIELD_BASE] = "it must be above 1",
    };
    double value = is_double(field) ? *double_at(config, field->at) : *float_at(config, field->at);
    bool good[] = {
        [ZR_FIELD_EPSILON] = value > 0 && value < 1,
        [ZR_FIELD_DEVIATION] = value >= 0 && isfinite(value),
        [ZR_FIELD_PROBABILITY] =
            value >= 0 && value<1, [ZR_FIELD_FRACTION] = value> 0 && value <= 1,
        [ZR_FIELD_BASE] = value > 1 && isfinite(value),
    };
    if (good[field->kind])
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE, "%s: %s is %g: %s", title, field->key, value,
                   needs[field->kind]);
}

zero_status zr_lm_fields_check(const zr_lm_field *fields, zr_lm_role first, zr_lm_role last,
                               const char *title, const void *config, zero_error *error)
{
    for (int i = (int)first; i <= (int)last; i++) {
        if (fields[i].kind == ZR_FIELD_NONE || fields[i].kind == ZR_FIELD_FLAG)
            continue;
        ZERO_TRY(
            (is_size(&fields[i]) ? size_check : float_check)(&fields[i], title, config, error));
    }
    return ZERO_OK;
}

// A file may have a size under its other name, too. If it has both, they must be equal.
static int64_t read_size(const zr_lm_field *field, zr_model_json *file)
{
    static const int64_t none = 0;
    const char *key = field->key, *other = field->other_key;
    if (other && !zr_model_json_get(file, key) && zr_model_json_get(file, other))
        key = other;
    int64_t value = zr_model_json_size(file, key, field->kind == ZR_FIELD_OPTIONAL ? &none : NULL);
    int64_t again = other ? zr_model_json_size(file, other, &value) : value;
    if (file->status == ZERO_OK && again != value)
        file->status = zr_fail(file->error, ZERO_ERR_DATA,
                               "%s: \"%s\" is %lld and \"%s\", its other name, is %lld: keep the "
                               "right one",
                               file->path, key, (long long)value, other, (long long)again);
    return value;
}

void zr_lm_fields_read(const zr_lm_field *fields, zr_lm_role first, zr_lm_role last,
                       zr_model_json *file, void *config)
{
    for (int i = (int)first; i <= (int)last; i++) {
        const zr_lm_field *field = &fields[i];
        if (!field->key)
            continue;
        if (is_size(field))
            *size_at(config, field->at) = read_size(field, file);
        else if (field->kind == ZR_FIELD_FLAG)
            *flag_at(config, field->at) =
                zr_model_json_bool(file, field->key, field->otherwise != 0);
        else if (is_double(field))
            *double_at(config, field->at) = zr_model_json_real(file, field->key, &field->otherwise);
        else
            *float_at(config, field->at) =
                (float)zr_model_json_real(file, field->key, &field->otherwise);
    }
}

static void write_field(const zr_lm_field *field, const char *key, const void *config,
                        zr_json_writer *w)
{
    int64_t size = is_size(field) ? *size_at(config, field->at) : 0;
    if (field->kind == ZR_FIELD_OPTIONAL && size == 0)
        zr_json_null(w, key);
    else if (is_size(field))
        zr_json_integer(w, key, size);
    else if (field->kind == ZR_FIELD_FLAG)
        zr_json_flag(w, key, *flag_at(config, field->at));
    else if (is_double(field))
        zr_model_json_put_real(w, key, *double_at(config, field->at), false);
    else
        zr_model_json_put_real(w, key, *float_at(config, field->at), true);
}

void zr_lm_fields_write(const zr_lm_field *fields, zr_lm_role first, zr_lm_role last,
                        const void *config, zr_json_writer *w)
{
    for (int i = (int)first; i <= (int)last; i++) {
        if (fields[i].key)
            write_field(&fields[i], fields[i].key, config, w);
        if (fields[i].repeated)
            write_field(&fields[i], fields[i].repeated, config, w);
    }
}
