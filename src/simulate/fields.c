#include "simulate/fields.h"

#include <stdio.h>
#include <string.h>

// Of a path: sections nest at most twice, and keys are short.
enum { PATH_BYTES = 96 };

zero_status zr_sim_refuse_key(const zr_sim_text *file, const char *path, const char *what,
                              const char *wants, zero_error *error)
{
    char message[PATH_BYTES + 256];
    zr_json_position place = zr_json_find(file->text, file->length, path);
    snprintf(message, sizeof message, "\"%s\" %s: %s", path, what, wants);
    if (!place.line)
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: %s", file->name, message);
    return zr_fail(error, ZERO_ERR_CONFIG, "%s:%d:%d: %s", file->name, place.line, place.column,
                   message);
}

zero_status zr_sim_file_parse(const zr_sim_text *file, json_t **out, zero_error *error)
{
    ZERO_TRY(zr_json_parse(file->text, file->length, file->name, out, error));
    if (json_is_object(*out))
        return ZERO_OK;
    json_decref(*out);
    return zr_fail(error, ZERO_ERR_CONFIG, "%s: not an object { ... }", file->name);
}

static zero_status read_text(const zr_sim_text *file, const zr_sim_field *field,
                             const json_t *value, char *out, zero_error *error)
{
    if (!json_is_string(value))
        return zr_sim_refuse_key(file, field->path, "is not a text", field->wants, error);
    if (!field->room)
        return ZERO_OK;
    if (json_string_length(value) >= field->room)
        return zr_sim_refuse_key(file, field->path, "is too long", field->wants, error);
    snprintf(out, field->room, "%s", json_string_value(value));
    return ZERO_OK;
}

static zero_status read_choice(const zr_sim_text *file, const zr_sim_field *field,
                               const json_t *value, int *out, zero_error *error)
{
    const char *text = json_string_value(value);
    for (int i = 0; text && field->choices[i]; i++)
        if (!strcmp(field->choices[i], text)) {
            *out = i;
            return ZERO_OK;
        }
    return zr_sim_refuse_key(file, field->path, "is none of its words", field->wants, error);
}

static zero_status read_number(const zr_sim_text *file, const zr_sim_field *field,
                               const json_t *value, void *out, zero_error *error)
{
    bool whole = field->kind != ZR_SIM_REAL;
    double number = json_number_value(value), most = field->most;
    char what[64];
    if (!json_is_number(value) || (whole && !json_is_integer(value)))
        return zr_sim_refuse_key(file, field->path,
                                 whole ? "is not a whole number" : "is not a number", field->wants,
                                 error);
    if (!most)
        most = field->kind == ZR_SIM_COUNT ? 1 << 24 : number;
    if (!(number >= field->least && number <= most)) {
        snprintf(what, sizeof what, "is %.6g", number);
        return zr_sim_refuse_key(file, field->path, what, field->wants, error);
    }
    if (field->kind == ZR_SIM_COUNT)
        *(int *)out = (int)number;
    else if (field->kind == ZR_SIM_LARGE)
        *(int64_t *)out = (int64_t)json_integer_value(value);
    else
        *(double *)out = number * field->unit;
    return ZERO_OK;
}

zero_status zr_sim_field_read(const zr_sim_text *file, const zr_sim_field *field,
                              const json_t *value, void *base, zero_error *error)
{
    char *out = (char *)base + field->at;
    switch (field->kind) {
    case ZR_SIM_TEXT: return read_text(file, field, value, out, error);
    case ZR_SIM_CHOICE: return read_choice(file, field, value, (int *)out, error);
    case ZR_SIM_FLAG:
        if (!json_is_boolean(value))
            return zr_sim_refuse_key(file, field->path, "is neither true nor false", field->wants,
                                     error);
        *(bool *)out = json_is_true(value);
        return ZERO_OK;
    default: return read_number(file, field, value, out, error);
    }
}
