// The text that names a new model: "gpt2:layers=4,width=128". Its names are those of roles, the
// same for every architecture that has the field.
#include "model/lm_fields.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[ZR_ROLES] = {
    [ZR_ROLE_VOCABULARY] = "vocab",
    [ZR_ROLE_POSITIONS] = "context",
    [ZR_ROLE_WIDTH] = "width",
    [ZR_ROLE_INNER] = "inner",
    [ZR_ROLE_LAYERS] = "layers",
    [ZR_ROLE_HEADS] = "heads",
    [ZR_ROLE_KV_HEADS] = "kv_heads",
    [ZR_ROLE_HEAD_DIM] = "head_dim",
    [ZR_ROLE_ATTENTION_DROPOUT] = "dropout",
    [ZR_ROLE_THETA] = "theta",
    [ZR_ROLE_TIED] = "tied",
};

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

static bool can_be_set(const zr_lm_field *fields, int role)
{
    return names[role] && fields[role].kind != ZR_FIELD_NONE;
}

// Writes the nearest name, if more than half of its letters agree, else all: `did you mean
// "layers"?`, or `there are layers, heads, ...`.
static void suggest_name(const char *word, const zr_lm_field *fields, char *out, size_t size)
{
    int best = -1, length = (int)strlen(word);
    for (int i = 0; i < ZR_ROLES; i++)
        if (can_be_set(fields, i) &&
            (best < 0 || zr_spec_distance(word, names[i]) < zr_spec_distance(word, names[best])))
            best = i;
    const char *nearest = names[best];
    if (2 * zr_spec_distance(word, nearest) < ZR_MAX(length, (int)strlen(nearest))) {
        snprintf(out, size, "did you mean \"%s\"?", nearest);
        return;
    }
    size_t used = (size_t)snprintf(out, size, "there are");
    for (int i = 0; i < ZR_ROLES && used < size; i++)
        if (can_be_set(fields, i))
            used += (size_t)snprintf(out + used, size - used, i ? ", %s" : " %s", names[i]);
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

static zero_status flag_parse(const char *spec, const char *value, int *out, zero_error *error)
{
    int64_t tied = 0;
    ZERO_TRY(count_parse(spec, names[ZR_ROLE_TIED], value, &tied, error));
    if (tied > 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "model \"%s\": tied=%lld: 1 (the head reads the table of tokens) or 0", spec,
                       (long long)tied);
    *out = (int)tied;
    return ZERO_OK;
}

static zero_status field_set(const char *spec, const zr_lm_field *fields, int role,
                             const char *value, void *config, zero_error *error)
{
    void *at = (char *)config + fields[role].at;
    double number = 0;
    if (fields[role].kind == ZR_FIELD_FLAG)
        return flag_parse(spec, value, at, error);
    if (fields[role].kind <= ZR_FIELD_OPTIONAL)
        return count_parse(spec, names[role], value, at, error);
    ZERO_TRY(real_parse(spec, names[role], value, &number, error));
    if (fields[role].kind == ZR_FIELD_BASE)
        *(double *)at = number;
    else
        *(float *)at = (float)number;
    for (int i = ZR_ROLE_RESIDUAL_DROPOUT; i < ZR_ROLE_ATTENTION_DROPOUT; i++)
        if (role == ZR_ROLE_ATTENTION_DROPOUT && fields[i].kind != ZR_FIELD_NONE)
            *(float *)((char *)config + fields[i].at) = (float)number;
    return ZERO_OK;
}

// Parses one "name=value" of `length` bytes.
static zero_status field_parse(const char *spec, const char *text, size_t length,
                               const zr_lm_field *fields, void *config, uint32_t *given,
                               zero_error *error)
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
    int role = 0;
    while (role < ZR_ROLES && !(can_be_set(fields, role) && strcmp(name, names[role]) == 0))
        role++;
    if (role == ZR_ROLES) {
        char others[256];
        suggest_name(name, fields, others, sizeof others);
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": there is no field \"%s\"; %s", spec,
                       name, others);
    }
    if (*given >> role & 1)
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": %s is given twice", spec, name);
    *given |= 1u << role;
    return field_set(spec, fields, role, value, config, error);
}

zero_status zr_spec_parse(const char *spec, const zr_lm_field *fields, void *config,
                          uint32_t *given, zero_error *error)
{
    size_t length = strcspn(spec, ":");
    *given = 0;
    for (const char *text = spec + length; *text; text += length) {
        text++; // skips ':' or ','
        length = strcspn(text, ",");
        ZERO_TRY(field_parse(spec, text, length, fields, config, given, error));
    }
    return ZERO_OK;
}
