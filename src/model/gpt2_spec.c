// What a person types to name a new GPT-2: a published preset, or a preset with fields.
//   gpt2-medium        gpt2:layers=4,heads=4,width=128,context=64,vocab=V,dropout=p
// Every field may appear once; a name that does not exist is answered with the nearest that does.
#include "model/gpt2.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 32

typedef struct preset {
    const char *name;
    int64_t layers, heads, width;
} preset;

typedef enum field_id {
    FIELD_LAYERS,
    FIELD_HEADS,
    FIELD_WIDTH,
    FIELD_CONTEXT,
    FIELD_VOCAB,
    FIELD_DROPOUT,
    FIELD_COUNT
} field_id;

static const preset presets[] = {
    {.name = "gpt2", .layers = 12, .heads = 12, .width = 768},
    {.name = "gpt2-medium", .layers = 24, .heads = 16, .width = 1024},
    {.name = "gpt2-large", .layers = 36, .heads = 20, .width = 1280},
    {.name = "gpt2-xl", .layers = 48, .heads = 25, .width = 1600},
};

static const char *const field_names[FIELD_COUNT] = {
    [FIELD_LAYERS] = "layers",
    [FIELD_HEADS] = "heads",
    [FIELD_WIDTH] = "width",
    [FIELD_CONTEXT] = "context",
    [FIELD_VOCAB] = "vocab",
    [FIELD_DROPOUT] = "dropout",
};

static int edit_distance(const char *a, const char *b) // Levenshtein; b shorter than WORD_BYTES
{
    int row[WORD_BYTES];
    int length = (int)strlen(b);
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

static const char *nearest_field(const char *word)
{
    int best = 0;
    for (int i = 1; i < FIELD_COUNT; i++)
        if (edit_distance(word, field_names[i]) < edit_distance(word, field_names[best]))
            best = i;
    return field_names[best];
}

static const char *nearest_preset(const char *word)
{
    int best = 0;
    for (int i = 1; i < ZR_COUNT(presets); i++)
        if (edit_distance(word, presets[i].name) < edit_distance(word, presets[best].name))
            best = i;
    return presets[best].name;
}

// Copies text[0..length) where it fits; a longer word is cut, and then matches no name.
static void word_copy(char word[WORD_BYTES], const char *text, size_t length)
{
    length = ZR_MIN(length, (size_t)WORD_BYTES - 1);
    memcpy(word, text, length);
    word[length] = 0;
}

static zero_status preset_apply(const char *spec, const char *name, zero_gpt2_config *config, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(presets); i++)
        if (strcmp(name, presets[i].name) == 0) {
            config->n_layer = presets[i].layers;
            config->n_head = presets[i].heads;
            config->n_embd = presets[i].width;
            return ZERO_OK;
        }
    return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": there is no preset \"%s\"; did you mean \"%s\"?", spec, name,
                   nearest_preset(name));
}

static zero_status count_parse(const char *spec, const char *name, const char *value, int64_t *out, zero_error *error)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno)
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": %s=\"%s\" is not a whole number", spec, name, value);
    *out = number;
    return ZERO_OK;
}

static zero_status fraction_parse(const char *spec, const char *name, const char *value, float *out, zero_error *error)
{
    char *end = NULL;
    float number = strtof(value, &end);
    if (end == value || *end)
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": %s=\"%s\" is not a number", spec, name, value);
    *out = number;
    return ZERO_OK;
}

static zero_status field_set(const char *spec, field_id id, const char *value, zero_gpt2_config *config,
                             zero_error *error)
{
    int64_t *const counts[FIELD_COUNT] = {
        [FIELD_LAYERS] = &config->n_layer,
        [FIELD_HEADS] = &config->n_head,
        [FIELD_WIDTH] = &config->n_embd,
        [FIELD_CONTEXT] = &config->n_positions,
        [FIELD_VOCAB] = &config->vocab_size,
    };
    if (id != FIELD_DROPOUT)
        return count_parse(spec, field_names[id], value, counts[id], error);
    ZERO_TRY(fraction_parse(spec, field_names[id], value, &config->resid_pdrop, error));
    config->embd_pdrop = config->attn_pdrop = config->resid_pdrop;
    return ZERO_OK;
}

// One "name=value" of `length` bytes; *seen has a bit for each field that came before.
static zero_status field_parse(const char *spec, const char *text, size_t length, unsigned *seen,
                               zero_gpt2_config *config, zero_error *error)
{
    char name[WORD_BYTES], value[WORD_BYTES];
    const char *equal = memchr(text, '=', length);
    if (!equal)
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": \"%.*s\" is not a field: name=value is expected", spec,
                       (int)ZR_MIN(length, 64), text);
    word_copy(name, text, (size_t)(equal - text));
    word_copy(value, equal + 1, length - (size_t)(equal + 1 - text));
    int id = 0;
    while (id < FIELD_COUNT && strcmp(name, field_names[id]) != 0)
        id++;
    if (id == FIELD_COUNT)
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": there is no field \"%s\"; did you mean \"%s\"?", spec,
                       name, nearest_field(name));
    if (*seen & 1u << id)
        return zr_fail(error, ZERO_ERR_USAGE, "model \"%s\": %s is given twice", spec, name);
    *seen |= 1u << id;
    return field_set(spec, (field_id)id, value, config, error);
}

zero_status zr_gpt2_parse_spec(const char *spec, zero_gpt2_config *out, bool *vocab_given, zero_error *error)
{
    zero_gpt2_config config;
    char name[WORD_BYTES];
    unsigned seen = 0;
    size_t length = strcspn(spec, ":");
    zero_gpt2_defaults(&config);
    word_copy(name, spec, length);
    ZERO_TRY(preset_apply(spec, name, &config, error));
    bool bare = spec[length] == 0;
    for (const char *text = spec + length; *text; text += length) {
        text++; // ':' or ','
        length = strcspn(text, ",");
        ZERO_TRY(field_parse(spec, text, length, &seen, &config, error));
    }
    zero_status status = zr_gpt2_check(&config, error);
    if (status != ZERO_OK) {
        zr_error_prefix(error, "model \"%s\"", spec);
        return status;
    }
    *out = config;
    *vocab_given = bare || (seen & 1u << FIELD_VOCAB);
    return ZERO_OK;
}
