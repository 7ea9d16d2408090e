#include "model/lm_fields.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int zr_spec_distance(const char *a, const char *b)
{
    int row[ZR_SPEC_WORD];
    int length = (int)strlen(b);
    assert(length < ZR_SPEC_WORD);
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int substitute = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = ZR_MIN(substitute, ZR_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[length];
}

void zr_spec_copy(char word[ZR_SPEC_WORD], const char *text, size_t length)
{
    length = ZR_MIN(length, (size_t)ZR_SPEC_WORD - 1);
    memcpy(word, text, length);
    word[length] = 0;
}

// Writes the nearest field, if more than half of its letters agree, else all: `; did you mean
// "layers"?`, or `; there are layers, heads, ...`.
static void suggest_field(const char *word, const zr_spec_field *fields, int count, char *out,
                          size_t size)
{
    int best = 0, length = (int)strlen(word);
    for (int i = 1; i < count; i++)
        if (zr_spec_distance(word, fields[i].name) < zr_spec_distance(word, fields[best].name))
            best = i;
    const char *nearest = fields[best].name;
    if (2 * zr_spec_distance(word, nearest) < ZR_MAX(length, (int)strlen(nearest))) {
        snprintf(out, size, "did you mean \"%s\"?", nearest);
        return;
    }
    size_t used = (size_t)snprintf(out, size, "there are");
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, i ? ", %s" : " %s", fields[i].name);
}

static zero_status count_parse(const char *spec, const char *name, const char *value, int64_t *out,
                               zero_error *error)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno)
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": %s=\"%s\" is not a whole number", spec,
                       name, value);
    *out = number;
    return ZERO_OK;
}

static zero_status real_parse(const char *spec, const char *name, const char *value, double *out,
                              zero_error *error)
{
    char *end = NULL;
    double number = strtod(value, &end);
    if (end == value || *end)
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": %s=\"%s\" is not a number", spec, name,
                       value);
    *out = number;
    return ZERO_OK;
}

static zero_status field_set(const char *spec, const zr_spec_field *field, const char *value,
                             zero_error *error)
{
    double number = 0;
    if (field->count)
        return count_parse(spec, field->name, value, field->count, error);
    ZERO_TRY(real_parse(spec, field->name, value, &number, error));
    if (field->fraction)
        *field->fraction = (float)number;
    else
        *field->real = number;
    return ZERO_OK;
}

// Parses one "name=value" of `length` bytes.
static zero_status field_parse(const char *spec, const char *text, size_t length,
                               zr_spec_field *fields, int count, zero_error *error)
{
    char name[ZR_SPEC_WORD], value[ZR_SPEC_WORD];
    const char *equal = memchr(text, '=', length);
    if (!equal)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "model \"%s\": \"%.*s\" is not a field: name=value is expected", spec,
                       (int)ZR_MIN(length, 64), text);
    zr_spec_copy(name, text, (size_t)(equal - text));
    size_t value_length = length - (size_t)(equal + 1 - text);
    if (value_length >= ZR_SPEC_WORD)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "model \"%.64s...\": the value of %s has %zu characters, at most %d are expected", spec,
            name, value_length, ZR_SPEC_WORD - 1);
    zr_spec_copy(value, equal + 1, value_length);
    int id = 0;
    while (id < count && strcmp(name, fields[id].name) != 0)
        id++;
    if (id == count) {
        char others[256];
        suggest_field(name, fields, count, others, sizeof others);
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": there is no field \"%s\"; %s", spec,
                       name, others);
    }
    if (fields[id].given)
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": %s is given twice", spec, name);
    fields[id].given = true;
    return field_set(spec, &fields[id], value, error);
}

zero_status zr_spec_parse(const char *spec, zr_spec_field *fields, int count, zero_error *error)
{
    size_t length = strcspn(spec, ":");
    for (const char *text = spec + length; *text; text += length) {
        text++; // skips ':' or ','
        length = strcspn(text, ",");
        ZERO_TRY(field_parse(spec, text, length, fields, count, error));
    }
    return ZERO_OK;
}
