// Settles how many stages a pipeline has, in which order they work, and how they are cut.
//
// Where nothing is trained there is no pipeline, because evaluation and generation run whole
// models.
#include "config/config_ranks.h"
#include "config/settings.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct order { // in which the stages work
    zr_pipeline_kind kind;
    int chunks;
} order;

// Reads a schedule; "interleaved" alone has the fewest chunks that it can have.
static bool read_order(const char *text, order *out)
{
    const char *interleaved = zr_pipeline_kind_name(ZR_PIPELINE_INTERLEAVED);
    *out = (order){.kind = ZR_PIPELINE_INTERLEAVED, .chunks = 2};
    return !strcmp(text, interleaved) || zr_pipeline_kind_read(text, &out->kind, &out->chunks);
}

json_t *zr_schedule_of_flag(const char *text, const char **wanted)
{
    static const char one_of[] = "one of " ZR_PIPELINE_KINDS;
    char full[32];
    order flag;
    bool good = read_order(text, &flag);
    *wanted = good ? "" : one_of;
    if (!good || flag.kind != ZR_PIPELINE_INTERLEAVED)
        return good ? json_string(text) : NULL;
    snprintf(full, sizeof full, "%s:%d", zr_pipeline_kind_name(flag.kind), flag.chunks);
    return json_string(full);
}

bool zr_schedule_is_same(const json_t *in_file, const json_t *by_flag)
{
    order file, flag;
    if (!read_order(json_string_value(in_file), &file))
        return true; // settle_schedule refuses it
    return read_order(json_string_value(by_flag), &flag) && file.kind == flag.kind &&
           file.chunks == flag.chunks;
}

static zero_status settle_schedule(zr_config *config, zero_error *error)
{
    const zr_setting *setting = zr_config_at(config, ZR_PIPELINE_SCHEDULE);
    order chosen = {.kind = ZR_PIPELINE_1F1B, .chunks = 1};
    bool given = json_is_string(setting->value) && !zr_setting_is_auto(setting);
    if (given && !read_order(json_string_value(setting->value), &chosen))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: " ZR_PIPELINE_SCHEDULE ": found %s, expected one of %s",
                       zr_setting_where(config, setting).text, zr_value_shown(setting->value).text,
                       ZR_PIPELINE_KINDS);
    if (config->pipeline.stages == 1) // one stage has nothing to take turns with
        chosen = (order){.kind = ZR_PIPELINE_1F1B, .chunks = 1};
    config->pipeline.kind = chosen.kind;
    config->pipeline.chunks = chosen.chunks;
    return ZERO_OK;
}

zero_status zr_config_settle_pipeline(zr_config *config, zero_error *error)
{
    int64_t stages = zr_config_number(config, ZR_PIPELINE_STAGES, 1);
    config->pipeline.stages = stages && !config->for_inference ? (int)stages : 1;
    ZERO_TRY(settle_schedule(config, error));
    return zr_config_settle_split(config, error);
}

static zero_status check_regex(const zr_config *config, const char *regex, zero_error *error)
{
    char why[160];
    regex_t compiled;
    int code = regcomp(&compiled, regex, REG_EXTENDED | REG_ICASE | REG_NOSUB);
    if (!code) {
        regfree(&compiled);
        return ZERO_OK;
    }
    regerror(code, &compiled, why, sizeof why);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: " ZR_PIPELINE_PARTITION ": \"%.64s\" is no regular expression: %s",
                   zr_setting_where(config, zr_config_at(config, ZR_PIPELINE_PARTITION)).text,
                   regex, why);
}

zero_status zr_config_fill_partition(zr_config *config, zero_error *error)
{
    static const char *const words[ZR_SPLIT_METHOD_COUNT] = {[ZR_SPLIT_BEST] = "best",
                                                             [ZR_SPLIT_UNIFORM] = "uniform",
                                                             [ZR_SPLIT_PARAMETERS] = "parameters",
                                                             [ZR_SPLIT_TYPE] = "type:"};
    const zr_setting *setting = zr_config_at(config, ZR_PIPELINE_PARTITION);
    const char *text = json_string_value(setting->value);
    size_t length = strlen(words[ZR_SPLIT_TYPE]);
    bool by_type = !strncasecmp(text, words[ZR_SPLIT_TYPE], length) && text[length];
    int method = 0;
    while (method < ZR_SPLIT_TYPE && strcasecmp(text, words[method]))
        method++;
    if (method == ZR_SPLIT_TYPE && !by_type)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: " ZR_PIPELINE_PARTITION
                       ": found %s, expected best, uniform, parameters or type:REGEX%s",
                       zr_setting_where(config, setting).text, zr_value_shown(setting->value).text,
                       strcasecmp(text, "profile") ? "" : " (DeepSpeed itself has no profile)");
    config->pipeline.method = (zr_split_method)method;
    config->pipeline.regex = by_type ? text + length : NULL;
    return by_type ? check_regex(config, text + length, error) : ZERO_OK;
}

// Returns whether the key asks for something else than its default.
static bool has_other_than_default(const zr_config *config, const zr_key *key)
{
    const json_t *value = zr_config_value(config, key->path);
    json_t *standard = zr_key_standard(key);
    bool same = json_is_null(value) || json_equal(value, standard);
    json_decref(standard);
    return !same;
}

static bool is_of_pipeline(const char *path)
{
    static const char deepspeeds[] = "pipeline.", ours[] = "libzero.pipeline.";
    return !strncmp(path, deepspeeds, sizeof deepspeeds - 1) ||
           !strncmp(path, ours, sizeof ours - 1);
}

const char *zr_config_pipeline_idle(const zr_config *config, const zr_key *key)
{
    const zr_pipeline_spec *p = &config->pipeline;
    bool is_stages = !strcmp(key->path, ZR_PIPELINE_STAGES);
    if (!is_of_pipeline(key->path) || !has_other_than_default(config, key))
        return NULL;
    if (is_stages)
        return config->for_inference && zr_config_number(config, key->path, 1)
                   ? "where nothing is trained there is no pipeline"
                   : NULL;
    if (p->stages == 1)
        return "there is no pipeline";
    if (!strcmp(key->path, ZR_PIPELINE_FLUSH) && !zr_pipeline_is_asynchronous(p->kind))
        return "a synchronous schedule drains the pipeline after each step";
    return !strcmp(key->path, ZR_PIPELINE_PARTITION) && p->split_count ? ZR_PIPELINE_SPLIT
               " says where the model is cut"
                                                                       : NULL;
}
