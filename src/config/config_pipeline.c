// Settles how many stages a pipeline has, in which order they work, and how they are cut.
//
// A key at its default (pipeline.stages "auto", null or 1; no schedule, no split) says nothing;
// then the flag may say more. What both say has to be the same. Where nothing is trained there is
// no pipeline, because evaluation and generation run whole models.
#include "config/pipeline_keys.h"
#include "config/settings.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static zero_status refuse_inference(int flag, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE,
                   "--pipeline %d: evaluation and generation need a run without a pipeline", flag);
}

static zero_status settle_stages(zr_config *config, int flag, zero_error *error)
{
    int64_t said = zr_config_number(config, ZR_PIPELINE_STAGES, 1);
    char text[24], words[40];
    config->pipeline.stages = 1;
    if (config->for_inference)
        return flag > 1 ? refuse_inference(flag, error) : ZERO_OK;
    snprintf(text, sizeof text, "%d", flag);
    snprintf(words, sizeof words, "--pipeline %d", flag);
    if (flag && said && said != flag)
        return zr_config_refuse_flag(config, words, ZR_PIPELINE_STAGES, error);
    if (flag && !said)
        ZERO_TRY(zr_config_put_flag(config, ZR_PIPELINE_STAGES, text, "--pipeline", error));
    config->pipeline.stages = flag ? flag : said ? (int)said : 1;
    return ZERO_OK;
}

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

// Reads the schedule of the key; *given: it says one.
static zero_status read_key(const zr_config *config, order *out, bool *given, zero_error *error)
{
    const zr_setting *setting = zr_config_at(config, ZR_PIPELINE_SCHEDULE);
    *out = (order){.kind = ZR_PIPELINE_1F1B, .chunks = 1};
    *given = json_is_string(setting->value) && !zr_setting_is_auto(setting);
    if (!*given || read_order(json_string_value(setting->value), out))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: " ZR_PIPELINE_SCHEDULE ": found %s, expected one of %s",
                   zr_setting_where(config, setting).text, zr_value_shown(setting->value).text,
                   zr_pipeline_kinds());
}

// Puts the schedule of the flag into the key, in full.
static zero_status put_order(zr_config *config, const order *said, zero_error *error)
{
    char text[32];
    const char *name = zr_pipeline_kind_name(said->kind);
    if (said->kind == ZR_PIPELINE_INTERLEAVED)
        snprintf(text, sizeof text, "%s:%d", name, said->chunks);
    else
        snprintf(text, sizeof text, "%s", name);
    return zr_config_put_flag(config, ZR_PIPELINE_SCHEDULE, text, "--schedule", error);
}

static zero_status settle_schedule(zr_config *config, const char *flag, zero_error *error)
{
    order by_key, by_flag;
    bool given;
    char words[96];
    ZERO_TRY(read_key(config, &by_key, &given, error));
    by_flag = by_key;
    if (flag && !read_order(flag, &by_flag))
        return zr_fail(error, ZERO_ERR_USAGE, "--schedule %.64s: expected one of %s", flag,
                       zr_pipeline_kinds());
    snprintf(words, sizeof words, "--schedule %s", flag ? flag : "");
    if (given && (by_flag.kind != by_key.kind || by_flag.chunks != by_key.chunks))
        return zr_config_refuse_flag(config, words, ZR_PIPELINE_SCHEDULE, error);
    if (flag && !given)
        ZERO_TRY(put_order(config, &by_flag, error));
    if (config->pipeline.stages == 1) // one stage has nothing to take turns with
        by_flag = (order){.kind = ZR_PIPELINE_1F1B, .chunks = 1};
    config->pipeline.kind = by_flag.kind;
    config->pipeline.chunks = by_flag.chunks;
    return ZERO_OK;
}

zero_status zr_config_settle_pipeline(zr_config *config, const zr_config_facts *facts,
                                      zero_error *error)
{
    ZERO_TRY(settle_stages(config, facts->pipeline, error));
    ZERO_TRY(settle_schedule(config, facts->schedule, error));
    return zr_config_settle_split(config, facts->split, error);
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
static bool asks(const zr_config *config, const zr_key *key)
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
    if (!is_of_pipeline(key->path) || !asks(config, key))
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
