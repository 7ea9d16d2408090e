// Settles where a pipeline is cut, if somebody says so: libzero.pipeline.split [0, 6] or --split
// 0,6, the first units of the chunks. Where the first of them is missing it is 0. Whether the model
// has so many units is for those to check who know it.
#include "config/pipeline_keys.h"
#include "config/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANTED "first units of chunks in ascending order from 0, such as "

typedef struct split { // first units
    int count;         // 0: nobody says any
    int at[ZR_MOST_PIPELINE_STAGES * ZR_MOST_CHUNKS];
} split;

static int count_chunks(const zr_config *config)
{
    return config->pipeline.stages * config->pipeline.chunks;
}

// Adds a unit. Returns false if it is none, or not above the one before.
static bool add_split(split *out, int64_t unit)
{
    bool fits = out->count < ZR_COUNT(out->at) && unit >= 0 && unit <= INT32_MAX &&
                (!out->count || unit > out->at[out->count - 1]);
    if (fits)
        out->at[out->count++] = (int)unit;
    return fits;
}

// Reads the key; a list that is none of ascending units is refused.
static zero_status read_key(const zr_config *config, split *out, zero_error *error)
{
    const zr_setting *setting = zr_config_at(config, ZR_PIPELINE_SPLIT);
    size_t size = json_array_size(setting->value); // 0 if it is no list
    bool good = size || !json_is_array(setting->value);
    *out = (split){0};
    for (size_t i = 0; i < size && good; i++) {
        const json_t *unit = json_array_get(setting->value, i);
        good = json_is_integer(unit) && add_split(out, json_integer_value(unit));
    }
    if (good)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG, "%s: expected " WANTED "[0, 6]",
                   zr_config_said(config, ZR_PIPELINE_SPLIT).text);
}

// Reads "0,6" likewise.
static zero_status read_flag(const char *text, split *out, zero_error *error)
{
    const char *at = text;
    bool good = true;
    *out = (split){0};
    while (good) {
        char *end;
        errno = 0;
        long long unit = strtoll(at, &end, 10);
        good = at[0] >= '0' && at[0] <= '9' && errno == 0 && add_split(out, unit);
        if (!*end)
            break;
        good = good && *end == ',';
        at = end + 1;
    }
    if (good)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE, "--split %.64s: expected " WANTED "0,6", text);
}

// Checks that there is one first unit for each chunk; `who` says them. Adds the first chunk's where
// it is missing.
static zero_status complete(split *s, const zr_config *config, const char *who, zero_status refusal,
                            zero_error *error)
{
    const zr_pipeline_spec *p = &config->pipeline;
    bool from_0 = s->at[0] == 0;
    int wanted = count_chunks(config), begun = s->count + !from_0;
    if (!from_0 && s->count == wanted)
        return zr_fail(error, refusal,
                       "%s does not begin with unit 0, with which the first of %d chunks begins",
                       who, wanted);
    if (begun != wanted)
        return zr_fail(error, refusal,
                       "%s begins %d chunk%s, and there %s %d: %d pipeline stage%s of %d chunk%s",
                       who, begun, begun == 1 ? "" : "s", wanted == 1 ? "is" : "are", wanted,
                       p->stages, p->stages == 1 ? "" : "s", p->chunks, p->chunks == 1 ? "" : "s");
    if (!from_0)
        memmove(s->at + 1, s->at, (size_t)s->count * sizeof *s->at);
    s->at[0] = 0;
    s->count = begun;
    return ZERO_OK;
}

static zero_status put_split(zr_config *config, const split *said, zero_error *error)
{
    zr_buffer text = {0};
    for (int i = 0; i < said->count; i++)
        zr_buffer_printf(&text, "%s%d", i ? ", " : "[", said->at[i]);
    zr_buffer_printf(&text, "]");
    zero_status status =
        text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "--split: no memory for a setting")
                    : zr_config_put_flag(config, ZR_PIPELINE_SPLIT, text.data, "--split", error);
    zr_buffer_free(&text);
    return status;
}

static bool split_is_same(const split *a, const split *b)
{
    return a->count == b->count && !memcmp(a->at, b->at, (size_t)a->count * sizeof *a->at);
}

// Without a pipeline, a list of the file's has nothing to divide.
static zero_status settle_key(const zr_config *config, split *out, zero_error *error)
{
    ZERO_TRY(read_key(config, out, error));
    if (config->pipeline.stages == 1)
        out->count = 0;
    return out->count ? complete(out, config, zr_config_said(config, ZR_PIPELINE_SPLIT).text,
                                 ZERO_ERR_CONFIG, error)
                      : ZERO_OK;
}

static zero_status settle_flag(zr_config *config, const char *flag, const split *by_key, split *out,
                               zero_error *error)
{
    char words[96];
    snprintf(words, sizeof words, "--split %s", flag);
    ZERO_TRY(read_flag(flag, out, error));
    ZERO_TRY(complete(out, config, words, ZERO_ERR_USAGE, error));
    if (by_key->count && !split_is_same(out, by_key))
        return zr_config_refuse_flag(config, words, ZR_PIPELINE_SPLIT, error);
    return by_key->count ? ZERO_OK : put_split(config, out, error);
}

zero_status zr_config_settle_split(zr_config *config, const char *flag, zero_error *error)
{
    split by_key, said;
    ZERO_TRY(settle_key(config, &by_key, error));
    said = by_key;
    if (flag)
        ZERO_TRY(settle_flag(config, flag, &by_key, &said, error));
    config->pipeline.split_count = config->pipeline.stages > 1 ? said.count : 0;
    memcpy(config->pipeline.split, said.at, sizeof said.at);
    return ZERO_OK;
}
