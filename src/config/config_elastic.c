// Reads the section elasticity and derives the batch from it, in place of the batch keys.
#include "config/config_ranks.h"
#include "config/settings.h"

#include <inttypes.h>
#include <string.h>

#define E "elasticity."

static const char *const batch_keys[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                         "gradient_accumulation_steps"};

// Returns a new reference to a key's value or its default; NULL if memory has run out.
static json_t *value_or_default(const zr_config *config, const char *path)
{
    const zr_setting *setting = zr_config_at(config, path);
    if (setting->value && !zr_setting_is_auto(setting))
        return json_incref(setting->value);
    return zr_key_standard(zr_key_at(zr_key_find(path)));
}

static int64_t integer_or_default(const zr_config *config, const char *path)
{
    json_t *value = value_or_default(config, path);
    int64_t number = json_integer_value(value); // 0 if it is null
    json_decref(value);
    return number;
}

static bool is_value_true(const zr_config *config, const char *path)
{
    json_t *value = value_or_default(config, path);
    bool set = json_is_true(value);
    json_decref(value);
    return set;
}

static zero_status refuse_found_value(const zr_config *config, const char *path, zero_error *error,
                                      const char *wanted)
{
    const zr_setting *setting = zr_config_at(config, path);
    zr_shown found = {"nothing"};
    if (setting->value)
        found = zr_value_shown(setting->value);
    return zr_fail(error, ZERO_ERR_CONFIG, "%s: %s: found %s, expected %s",
                   zr_setting_where(config, setting).text, path, found.text, wanted);
}

static zero_status read_micros(const zr_config *config, zr_elastic_rule *rule, zero_error *error)
{
    static const char path[] = E "micro_batch_sizes",
                      wanted[] = "a list of 1 to 64 integers of at least 1";
    const json_t *list = zr_config_value(config, path);
    if (!json_array_size(list) || json_array_size(list) > ZR_ELASTIC_MOST_MICROS)
        return refuse_found_value(config, path, error, wanted);
    rule->micro_count = (int)json_array_size(list);
    for (int i = 0; i < rule->micro_count; i++) {
        const json_t *micro = json_array_get(list, (size_t)i);
        rule->micros[i] = json_integer_value(micro);
        if (!json_is_integer(micro) || rule->micros[i] < 1 ||
            rule->micros[i] > ZR_ELASTIC_MOST_SAMPLES)
            return refuse_found_value(config, path, error, wanted);
    }
    return ZERO_OK;
}

static zero_status read_version(const zr_config *config, zr_elastic_rule *rule, zero_error *error)
{
    json_t *value = value_or_default(config, E "version");
    double version = json_number_value(value);
    json_decref(value);
    rule->by_node = version == 0.2;
    return version == 0.1 || version == 0.2
               ? ZERO_OK
               : refuse_found_value(config, E "version", error, "0.1 or 0.2");
}

typedef struct model_words { // how messages call the ranks of a model
    const char *one, *several, *keys;
} model_words;

static model_words words_of_model(const zr_config *config)
{
    if (config->pipeline.stages > 1)
        return (model_words){.one = "rank",
                             .several = "ranks",
                             .keys = "pipeline.stages x tensor_parallel.autotp_size"};
    return (model_words){.one = "tensor rank",
                         .several = "tensor ranks",
                         .keys = "tensor_parallel.autotp_size, --tensor"};
}

// Checks that the section means the same ranks of a model, and can count with them, as DeepSpeed
// does.
static zero_status check_elastic_model(const zr_config *config, const zr_elastic_rule *rule,
                                       zero_error *error)
{
    static const char size[] = E "model_parallel_size", node[] = E "num_gpus_per_node";
    int64_t model = zr_config_model_ranks(config), said_size = integer_or_default(config, size),
            node_ranks = integer_or_default(config, node);
    const model_words words = words_of_model(config);
    if (said_size != model)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: %s is %" PRId64 ", but a model has %" PRId64 " %s (%s); expected "
                       "%" PRId64,
                       zr_setting_where(config, zr_config_at(config, size)).text, size, said_size,
                       model, model == 1 ? words.one : words.several, words.keys, model);
    if (model > 1 && !rule->by_node)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: elasticity.version 0.1 counts no %s%s, and a model has %" PRId64
                       "; expected 0.2",
                       zr_setting_where(config, zr_config_at(config, E "version")).text,
                       words.several, config->pipeline.stages > 1 ? " of a model" : "", model);
    if (node_ranks % model)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: %s: found %" PRId64 ", expected a multiple of the %" PRId64
                       " %s of a model (%" PRId64 ", %" PRId64 ", ...)",
                       zr_setting_where(config, zr_config_at(config, node)).text, node, node_ranks,
                       model, words.several, model, 2 * model);
    return ZERO_OK;
}

// The rule counts data ranks, the section all ranks. Dividing each number rounds down as DeepSpeed
// does, which divides them by the ranks of a machine.
static zero_status read_rule(const zr_config *config, zr_elastic_rule *rule, zero_error *error)
{
    int64_t model = zr_config_model_ranks(config);
    *rule = (zr_elastic_rule){.most_samples = integer_or_default(config, E "max_train_batch_size"),
                              .min_ranks = integer_or_default(config, E "min_gpus"),
                              .max_ranks = integer_or_default(config, E "max_gpus"),
                              .prefer_larger = is_value_true(config, E "prefer_larger_batch")};
    if (!rule->most_samples)
        return refuse_found_value(config, E "max_train_batch_size", error,
                                  "the largest batch, in samples");
    ZERO_TRY(read_micros(config, rule, error));
    ZERO_TRY(read_version(config, rule, error));
    if (rule->max_ranks < rule->min_ranks)
        return refuse_found_value(config, E "max_gpus", error, "no less than elasticity.min_gpus");
    ZERO_TRY(check_elastic_model(config, rule, error));
    rule->min_ranks /= model;
    rule->max_ranks /= model;
    rule->node_ranks = integer_or_default(config, E "num_gpus_per_node") / model;
    return ZERO_OK;
}

zero_status zr_config_find_elastic(zr_config *config, zero_error *error)
{
    zr_elastic_rule rule;
    if (config->elastic || !is_value_true(config, E "enabled"))
        return ZERO_OK;
    ZERO_TRY(read_rule(config, &rule, error));
    config->elastic = zr_alloc(sizeof *config->elastic, error);
    if (!config->elastic)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_elastic_solve(&rule, config->elastic, error);
    if (status != ZERO_OK)
        zr_error_prefix(error, "%s: elasticity",
                        zr_setting_where(config, zr_config_at(config, E "micro_batch_sizes")).text);
    return status;
}

// Refuses batch keys given together with elasticity, because elasticity decides the batch. The file
// may say that its own batch keys are to be ignored; a flag that differs is never ignored.
static zero_status check_batch_key(const zr_config *config, const char *path, int64_t chosen,
                                   const zero_logger *logger, zero_error *error)
{
    const zr_setting *setting = zr_config_at(config, path);
    zr_where where = zr_setting_where(config, setting);
    zr_shown shown = zr_value_shown(setting->value);
    bool flag = setting->origin == ZR_FROM_FLAG,
         other = json_integer_value(setting->value) != chosen;
    if (!zr_setting_is_given(setting) || zr_setting_is_auto(setting) ||
        json_is_null(setting->value))
        return ZERO_OK;
    if (!is_value_true(config, E "ignore_non_elastic_batch_info"))
        return zr_fail(error, flag ? ZERO_ERR_USAGE : ZERO_ERR_CONFIG,
                       "%s: %s %s is given together with elasticity, which chooses the batch: drop "
                       "one of them, or set elasticity.ignore_non_elastic_batch_info",
                       where.text, path, shown.text);
    if (flag && other)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s: %s %s contradicts elasticity of %s, which takes %" PRId64
                       ": drop one of them",
                       where.text, path, shown.text, config->name, chosen);
    if (other)
        zr_log(logger, ZERO_LOG_WARNING, "%s: %s %s is ignored: elasticity takes %" PRId64,
               where.text, path, shown.text, chosen);
    return ZERO_OK;
}

static zero_status refuse_rank_count(const zr_config *config, zero_error *error)
{
    char list[512];
    zr_ranks_words ranks = zr_ranks_in_words(zr_config_grid(config));
    const zr_elastic *elastic = config->elastic;
    zr_where where = zr_setting_where(config, zr_config_at(config, E "enabled"));
    zr_elastic_list(elastic, list, sizeof list);
    if (elastic->rule.by_node)
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "%s: elasticity: %s need more than max_train_batch_size %" PRId64
            " for one of the micro-batches; numbers of %s that share %" PRId64 " samples: %s",
            where.text, ranks.text, elastic->rule.most_samples, ranks.kind, elastic->batch, list);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: elasticity: a batch of %" PRId64
                   " samples cannot be shared by %s; numbers of %s that can: %s",
                   where.text, elastic->batch, ranks.text, ranks.kind, list);
}

static void log_chosen_batch(const zr_config *config, const zr_elastic_batch *chosen,
                             const zero_logger *logger)
{
    char list[256];
    zr_ranks_words ranks = zr_ranks_in_words(zr_config_grid(config));
    zr_elastic_list(config->elastic, list, sizeof list);
    if (chosen->other)
        zr_log(logger, ZERO_LOG_WARNING,
               "%s: elasticity: %s cannot share the batch of %" PRId64
               " samples and take one of %" PRId64
               ": what they save goes on with the same batch alone; "
               "numbers of %s that can: %s",
               zr_setting_where(config, zr_config_at(config, E "enabled")).text, ranks.text,
               config->elastic->batch, chosen->train, ranks.kind, list);
    zr_log(logger, ZERO_LOG_INFO,
           "batch %" PRId64 " = micro-batch %" PRId64 " x accumulation %" PRId64
           " x %s (elasticity; numbers of %s: %s)",
           chosen->train, chosen->micro, chosen->accumulation, ranks.text, ranks.kind, list);
}

zero_status zr_config_settle_elastic(zr_config *config, const zero_logger *logger,
                                     zero_error *error)
{
    zr_elastic_batch chosen;
    ZERO_TRY(zr_config_find_elastic(config, error));
    if (!config->elastic)
        return ZERO_OK;
    if (!zr_elastic_share(config->elastic, config->ranks, &chosen))
        return refuse_rank_count(config, error);
    const int64_t values[] = {chosen.train, chosen.micro, chosen.accumulation};
    for (int i = 0; i < ZR_COUNT(batch_keys); i++)
        ZERO_TRY(check_batch_key(config, batch_keys[i], values[i], logger, error));
    log_chosen_batch(config, &chosen, logger);
    for (int i = 0; i < ZR_COUNT(batch_keys); i++)
        ZERO_TRY(zr_setting_put(zr_config_at(config, batch_keys[i]), json_integer(values[i]),
                                ZR_FROM_PROGRAM, error));
    // The resolved file has both, and with this key it resolves again.
    return zr_setting_put(zr_config_at(config, E "ignore_non_elastic_batch_info"), json_true(),
                          ZR_FROM_PROGRAM, error);
}
