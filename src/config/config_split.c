// Settles where a pipeline is cut, if libzero.pipeline.split [0, 6] or --split 0,6 names the first
// units of the chunks. Where the first of them is missing it is 0. Callers that know the
// model check whether it has that many units.
#include "config/config_ranks.h"
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
static bool append_first_unit(split *out, int64_t unit)
{
    bool fits = out->count < ZR_COUNT(out->at) && unit >= 0 && unit <= INT32_MAX &&
                (!out->count || unit > out->at[out->count - 1]);
    if (fits)
        out->at[out->count++] = (int)unit;
    return fits;
}

// Reads a list of ascending units. Returns false if the value is something else.
static bool read_list(const json_t *list, split *out)
{
    size_t size = json_array_size(list); // 0 if it is no list
    bool good = size > 0;
    *out = (split){0};
    for (size_t i = 0; i < size && good; i++) {
        const json_t *unit = json_array_get(list, i);
        good = json_is_integer(unit) && append_first_unit(out, json_integer_value(unit));
    }
    return good;
}

// Reads "0,6" in the same way.
static bool read_text(const char *text, split *out)
{
    const char *at = text;
    bool good = true;
    *out = (split){0};
    while (good) {
        char *end;
        errno = 0;
        long long unit = strtoll(at, &end, 10);
        good = at[0] >= '0' && at[0] <= '9' && errno == 0 && append_first_unit(out, unit);
        if (!*end)
            break;
        good = good && *end == ',';
        at = end + 1;
    }
    return good;
}

static json_t *split_to_json(const split *s)
{
    json_t *list = json_array();
    bool good = list;
    for (int i = 0; i < s->count && good; i++)
        good = !json_array_append_new(list, json_integer(s->at[i]));
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

json_t *zr_split_of_flag(const char *text, const char **wanted)
{
    split flag;
    json_t *list = text[0] == '[' ? json_loads(text, 0, NULL) : NULL;
    bool good = list ? read_list(list, &flag) : read_text(text, &flag);
    json_decref(list);
    *wanted = good ? "" : WANTED "0,6";
    return good ? split_to_json(&flag) : NULL;
}

bool zr_split_is_same(const json_t *in_file, const json_t *by_flag)
{
    split file, flag;
    if (!read_list(in_file, &file))
        return true; // settle_split refuses it
    if (!read_list(by_flag, &flag))
        return false;
    int a = file.at[0] == 0, b = flag.at[0] == 0; // the first unit 0 may be missing
    return file.count - a == flag.count - b &&
           !memcmp(file.at + a, flag.at + b, (size_t)(file.count - a) * sizeof *file.at);
}

// Checks that there is one first unit for each chunk; `who` says them. Adds the first chunk's where
// it is missing.
static zero_status complete_split(split *s, const zr_config *config, const char *who,
                                  zero_status refusal, zero_error *error)
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

zero_status zr_config_settle_split(zr_config *config, zero_error *error)
{
    zr_setting *setting = zr_config_at(config, ZR_PIPELINE_SPLIT);
    bool by_flag = setting->origin == ZR_FROM_FLAG, piped = config->pipeline.stages > 1;
    const zr_said who = zr_config_said(config, ZR_PIPELINE_SPLIT);
    split chosen = {0};
    if (json_is_array(setting->value) && !read_list(setting->value, &chosen))
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: expected " WANTED "[0, 6]", who.text);
    if (chosen.count && (piped || by_flag)) // without a pipeline a file's list divides nothing
        ZERO_TRY(complete_split(&chosen, config, who.text,
                                by_flag ? ZERO_ERR_USAGE : ZERO_ERR_CONFIG, error));
    if (chosen.count && by_flag)
        ZERO_TRY(zr_setting_put(setting, split_to_json(&chosen), ZR_FROM_FLAG, error));
    config->pipeline.split_count = piped ? chosen.count : 0;
    memcpy(config->pipeline.split, chosen.at, sizeof chosen.at);
    return ZERO_OK;
}
