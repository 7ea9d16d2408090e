// Fills in what was not given: "auto", the defaults of the chosen optimizer and schedule, and the
// program's own defaults.
//
// A key has a rule below if its "auto", absence or null depends on other settings or on the facts
// of the run; every other key takes its row's default. Rows are settled in the table's order, so
// the optimizer comes before the schedule.
#include "config/config_ranks.h"
#include "config/settings.h"

#include <stdio.h>
#include <string.h>

#define P "optimizer.params."
#define LR P "lr"
#define BETAS P "betas"
#define EPS P "eps"
#define DECAY P "weight_decay"
#define S "scheduler.params."

// Returns json_null if the value cannot be determined.
typedef json_t *(*make_value)(const zr_config *config, const zr_config_facts *facts);

typedef struct value_rule {
    const char *path;
    make_value of_auto, of_absent, of_null; // NULL: the row's default; of_null: null stays
} value_rule;

static const zr_optimizer_spec *optimizer_defaults(const zr_config *config)
{
    return &zr_optimizer_traits_of(config->optimizer.kind)->standard;
}

static bool is_adam(const zr_config *config)
{
    return config->optimizer.kind == ZR_OPTIMIZER_ADAMW ||
           config->optimizer.kind == ZR_OPTIMIZER_ADAM_L2;
}

static json_t *default_lr_of_optimizer(const zr_config *config, const zr_config_facts *facts)
{
    return json_real(optimizer_defaults(config)->lr);
}

static json_t *auto_lr(const zr_config *config, const zr_config_facts *facts)
{
    return is_adam(config) && facts->lr > 0 ? json_real(facts->lr)
                                            : default_lr_of_optimizer(config, facts);
}

static json_t *kind_betas(const zr_config *config, const zr_config_facts *facts)
{
    return json_pack("[ff]", optimizer_defaults(config)->beta1, optimizer_defaults(config)->beta2);
}

static json_t *auto_betas(const zr_config *config, const zr_config_facts *facts)
{
    return is_adam(config) ? json_pack("[ff]", 0.9, 0.95) : kind_betas(config, facts);
}

static json_t *kind_eps(const zr_config *config, const zr_config_facts *facts)
{
    double eps = optimizer_defaults(config)->eps;
    return config->optimizer.kind == ZR_OPTIMIZER_ADAFACTOR ? json_pack("[nf]", eps)
                                                            : json_real(eps);
}

static json_t *kind_momentum(const zr_config *config, const zr_config_facts *facts)
{
    return json_real(optimizer_defaults(config)->momentum);
}

static json_t *kind_nesterov(const zr_config *config, const zr_config_facts *facts)
{
    return json_boolean(optimizer_defaults(config)->nesterov);
}

static json_t *auto_decay(const zr_config *config, const zr_config_facts *facts)
{
    return json_real(is_adam(config) ? 0.1 : 0);
}

static json_t *auto_bucket(const zr_config *config, const zr_config_facts *facts)
{
    int64_t elements;
    if (facts->hidden < 1 || __builtin_mul_overflow(facts->hidden, facts->hidden, &elements))
        return zr_key_standard(zr_key_at(zr_key_find("zero_optimization.reduce_bucket_size")));
    return json_integer(elements);
}

// accelerate's rules for what it calls auto: the prefetch bucket is nine tenths of the width
// squared, the persistence threshold ten times the width.
static json_t *auto_prefetch(const zr_config *config, const zr_config_facts *facts)
{
    if (facts->hidden < 1 || facts->hidden > 1 << 30)
        return zr_key_standard(
            zr_key_at(zr_key_find("zero_optimization.stage3_prefetch_bucket_size")));
    return json_integer(facts->hidden * facts->hidden / 10 * 9);
}

static json_t *auto_persistence(const zr_config *config, const zr_config_facts *facts)
{
    if (facts->hidden < 1 || facts->hidden > 1 << 30)
        return zr_key_standard(
            zr_key_at(zr_key_find("zero_optimization.stage3_param_persistence_threshold")));
    return json_integer(10 * facts->hidden);
}

static json_t *lr_of_optimizer_params(const zr_config *config, const zr_config_facts *facts)
{
    return json_real(json_number_value(zr_config_value(config, LR)));
}

// DeepSpeed gives WarmupDecayLR a rate of its own; but if a flag sets the rate, it means this one
// too.
static json_t *absent_max_lr(const zr_config *config, const zr_config_facts *facts)
{
    bool own = config->schedule.kind == ZR_SCHEDULE_WARMUP_DECAY &&
               zr_config_at(config, LR)->origin != ZR_FROM_FLAG;
    return own ? json_real(0.001) : lr_of_optimizer_params(config, facts);
}

static json_t *auto_warmup(const zr_config *config, const zr_config_facts *facts)
{
    if (facts->warmup_steps > 0)
        return json_integer(facts->warmup_steps);
    return json_integer(facts->total_steps > 0 ? ZR_MAX(facts->total_steps / 20, 1) : 1000);
}

static json_t *own_warmup(const zr_config *config, const zr_config_facts *facts)
{
    return facts->total_steps > 0 ? auto_warmup(config, facts) : json_null();
}

static json_t *own_min_lr_ratio(const zr_config *config, const zr_config_facts *facts)
{
    return json_real(config->schedule.kind == ZR_SCHEDULE_OWN_COSINE ? 0.1 : 0);
}

static json_t *auto_total(const zr_config *config, const zr_config_facts *facts)
{
    return facts->total_steps > 0 ? json_integer(facts->total_steps) : json_null();
}

static json_t *first_step_size(const zr_config *config, const zr_config_facts *facts)
{
    return json_incref(zr_config_at(config, S "cycle_first_step_size")->value);
}

static json_t *first_stair_count(const zr_config *config, const zr_config_facts *facts)
{
    return json_incref(zr_config_at(config, S "cycle_first_stair_count")->value);
}

static json_t *usual_stages(const zr_config *config, const zr_config_facts *facts)
{
    return json_integer(config->pipeline.stages);
}

// Without a pipeline the resolved file says no schedule, so that a flag may still do so.
static json_t *usual_schedule(const zr_config *config, const zr_config_facts *facts)
{
    return config->pipeline.stages > 1 ? json_string(zr_pipeline_kind_name(ZR_PIPELINE_1F1B))
                                       : json_null();
}

static const value_rule rules[] = {
    {LR, auto_lr, default_lr_of_optimizer, NULL},
    {BETAS, auto_betas, kind_betas, NULL},
    {EPS, kind_eps, kind_eps, NULL},
    {DECAY, auto_decay, NULL, NULL},
    {P "momentum", kind_momentum, kind_momentum, NULL},
    {P "nesterov", kind_nesterov, kind_nesterov, NULL},
    {P "muon_lr", lr_of_optimizer_params, lr_of_optimizer_params, lr_of_optimizer_params},
    {P "adam_lr", lr_of_optimizer_params, lr_of_optimizer_params, lr_of_optimizer_params},
    {"zero_optimization.reduce_bucket_size", auto_bucket, NULL, NULL},
    {"zero_optimization.stage3_prefetch_bucket_size", auto_prefetch, NULL, NULL},
    {"zero_optimization.stage3_param_persistence_threshold", auto_persistence, NULL, NULL},
    {S "warmup_max_lr", lr_of_optimizer_params, absent_max_lr, lr_of_optimizer_params},
    {S "warmup_num_steps", auto_warmup, NULL, NULL},
    {S "total_num_steps", auto_total, NULL, NULL},
    {ZR_OWN_SCHEDULE "warmup", own_warmup, own_warmup, own_warmup},
    {ZR_OWN_SCHEDULE "min_lr_ratio", own_min_lr_ratio, own_min_lr_ratio, NULL},
    {S "cycle_max_lr", lr_of_optimizer_params, NULL, NULL},
    {S "cycle_second_step_size", NULL, NULL, first_step_size},
    {S "cycle_second_stair_count", NULL, NULL, first_stair_count},
    {ZR_PIPELINE_STAGES, usual_stages, usual_stages, usual_stages},
    {ZR_PIPELINE_SCHEDULE, usual_schedule, usual_schedule, usual_schedule},
};

static const value_rule *value_rule_of_key(const char *path)
{
    static const value_rule none = {.path = ""};
    for (int i = 0; i < ZR_COUNT(rules); i++)
        if (!strcmp(rules[i].path, path))
            return &rules[i];
    return &none;
}

static void log_auto_value(const zr_key *key, const json_t *value, const zero_logger *logger)
{
    zr_buffer text = {0};
    zr_value_write(value, 0, &text);
    bool off = key->treatment == ZR_KEY_REFUSED;
    zr_log(logger, ZERO_LOG_DEBUG, "%s auto: %s%s%s%s", key->path, text.failed ? "" : text.data,
           off ? " (" : "", off ? key->reason : "", off ? ")" : "");
    zr_buffer_free(&text);
}

static zero_status settle_auto(zr_config *config, int index, const zr_config_facts *facts,
                               const zero_logger *logger, zero_error *error)
{
    const zr_key *key = zr_key_at(index);
    zr_setting *setting = &config->settings[index];
    make_value make = value_rule_of_key(key->path)->of_auto;
    if (!make && !key->standard && key->treatment == ZR_KEY_REFUSED) {
        zr_log(logger, ZERO_LOG_DEBUG, "%s auto: off (%s)", key->path, key->reason);
        zr_setting_clear(setting);
        return ZERO_OK;
    }
    json_t *value = make ? make(config, facts) : key->standard ? zr_key_standard(key) : json_null();
    if (json_is_null(value) && !key->nullable)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: %s is \"auto\", which nothing here determines: give its value",
                       zr_setting_where(config, setting).text, key->path);
    ZERO_TRY(zr_setting_put(setting, value, ZR_FROM_AUTO, error));
    log_auto_value(key, value, logger);
    return ZERO_OK;
}

static zero_status settle_absent(zr_config *config, int index, const zr_config_facts *facts,
                                 zero_error *error)
{
    const zr_key *key = zr_key_at(index);
    make_value make = value_rule_of_key(key->path)->of_absent;
    if (!make && !key->standard && key->nullable)
        return ZERO_OK; // it has a value where somebody gives one
    if (!make && !key->standard)
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: %s needs %s", config->name,
                       zr_schedule_name(config->schedule.kind), key->path);
    return zr_setting_put(&config->settings[index],
                          make ? make(config, facts) : zr_key_standard(key), ZR_FROM_DEFAULT,
                          error);
}

static zero_status settle_key(zr_config *config, int index, const zr_config_facts *facts,
                              const zero_logger *logger, zero_error *error)
{
    const zr_key *key = zr_key_at(index);
    zr_setting *setting = &config->settings[index];
    bool honoured = key->treatment == ZR_KEY_HONOURED;
    if (zr_key_is_idle(key, config))
        return ZERO_OK;
    bool word = key->choices && strstr(key->choices, "auto"); // here "auto" is one of the choices
    if (zr_setting_is_auto(setting) && !word && key->treatment != ZR_KEY_NO_EFFECT)
        ZERO_TRY(settle_auto(config, index, facts, logger, error));
    else if (!setting->value && honoured)
        ZERO_TRY(settle_absent(config, index, facts, error));
    make_value of_null = value_rule_of_key(key->path)->of_null;
    if (json_is_null(setting->value) && of_null)
        return zr_setting_put(setting, of_null(config, facts), setting->origin, error);
    return ZERO_OK;
}

zero_status zr_config_settle_values(zr_config *config, const zr_config_facts *facts,
                                    const zero_logger *logger, zero_error *error)
{
    for (int i = 0; i < zr_key_count(); i++)
        if (zr_key_applies(zr_key_at(i), config))
            ZERO_TRY(settle_key(config, i, facts, logger, error));
    return ZERO_OK;
}

static bool is_given_value(const zr_config *config, const char *path)
{
    const zr_setting *setting = zr_config_at(config, path);
    return zr_setting_is_given(setting) && !zr_setting_is_auto(setting) &&
           !json_is_null(setting->value);
}

// Puts in a program default if there is no value yet.
static zero_status put_unless_given(zr_config *config, const char *path, json_t *value,
                                    zero_error *error)
{
    if (!is_given_value(config, path))
        return zr_setting_put(zr_config_at(config, path), value, ZR_FROM_PROGRAM, error);
    json_decref(value);
    return ZERO_OK;
}

static double number_of_key(const zr_config *config, const char *path)
{
    return json_number_value(zr_config_value(config, path));
}

// Puts in a program default of a parameter that the optimizer has.
static zero_status put_parameter(zr_config *config, const char *path, json_t *value,
                                 zero_error *error)
{
    if (zr_key_applies(zr_key_at(zr_key_find(path)), config))
        return put_unless_given(config, path, value, error);
    json_decref(value);
    return ZERO_OK;
}

static void log_optimizer(const zr_config *config, const zero_logger *logger)
{
    const json_t *betas = zr_config_value(config, BETAS), *eps = zr_config_value(config, EPS);
    char text[96] = "";
    size_t end = 0;
    if (betas)
        end = (size_t)snprintf(text, sizeof text, ", betas %g and %g",
                               json_number_value(json_array_get(betas, 0)),
                               json_number_value(json_array_get(betas, 1)));
    if (json_is_number(eps))
        snprintf(text + end, sizeof text - end, ", eps %g", json_number_value(eps));
    zr_log(logger, ZERO_LOG_DEBUG, "optimizer %s, lr %g%s, weight decay %g (the program's choice)",
           zr_optimizer_traits_of(config->optimizer.kind)->name, number_of_key(config, LR), text,
           number_of_key(config, DECAY));
}

// By the program's choice Muon's matrices take steps of AdamW's size (adjust_lr_fn), so AdamW's
// rate and decay fit them.
static json_t *chosen_lr(const zr_config *config, const zr_config_facts *facts)
{
    bool muon = config->optimizer.kind == ZR_OPTIMIZER_MUON;
    return muon && facts->lr > 0 ? json_real(facts->lr) : auto_lr(config, facts);
}

static json_t *chosen_decay(const zr_config *config, const zr_config_facts *facts)
{
    bool muon = config->optimizer.kind == ZR_OPTIMIZER_MUON;
    return muon ? json_real(0.1) : auto_decay(config, facts);
}

static zero_status fill_optimizer(zr_config *config, const zr_config_facts *facts,
                                  const zero_logger *logger, zero_error *error)
{
    ZERO_TRY(put_unless_given(config, "optimizer.type", json_string("AdamW"), error));
    zr_config_settle_optimizer(config);
    ZERO_TRY(put_unless_given(config, LR, chosen_lr(config, facts), error));
    ZERO_TRY(put_unless_given(config, DECAY, chosen_decay(config, facts), error));
    ZERO_TRY(put_parameter(config, BETAS, auto_betas(config, facts), error));
    ZERO_TRY(put_parameter(config, EPS, kind_eps(config, facts), error));
    ZERO_TRY(put_parameter(config, P "adjust_lr_fn", json_string("match_rms_adamw"), error));
    log_optimizer(config, logger);
    return ZERO_OK;
}

static zero_status fill_schedule(zr_config *config, const zr_config_facts *facts,
                                 const zero_logger *logger, zero_error *error)
{
    if (is_given_value(config, ZR_OWN_SCHEDULE "warmup") ||
        is_given_value(config, ZR_OWN_SCHEDULE "min_lr_ratio"))
        return put_unless_given(config, ZR_OWN_SCHEDULE "type", json_string("cosine"), error);
    if (facts->total_steps < 1) {
        zr_log(logger, ZERO_LOG_DEBUG,
               "schedule: a constant rate, as the length of the run is unknown");
        return ZERO_OK;
    }
    ZERO_TRY(put_unless_given(config, "scheduler.type", json_string("WarmupCosineLR"), error));
    ZERO_TRY(put_unless_given(config, S "total_num_steps", auto_total(config, facts), error));
    ZERO_TRY(put_unless_given(config, S "warmup_num_steps", auto_warmup(config, facts), error));
    ZERO_TRY(put_unless_given(config, S "warmup_type", json_string("linear"), error));
    ZERO_TRY(put_unless_given(config, S "cos_min_ratio", json_real(0.1), error));
    ZERO_TRY(put_unless_given(config, "libzero.schedule_from_one", json_true(), error));
    zr_log(logger, ZERO_LOG_DEBUG,
           "schedule WarmupCosineLR%s, warm-up over %g of "
           "%g updates, down to %g of the rate "
           "(the program's choice)",
           json_is_true(zr_config_value(config, "libzero.schedule_from_one"))
               ? " from the first update on"
               : "",
           number_of_key(config, S "warmup_num_steps"), number_of_key(config, S "total_num_steps"),
           number_of_key(config, S "cos_min_ratio"));
    return ZERO_OK;
}

zero_status zr_config_defaults_apply(zr_config *config, const zr_config_facts *facts,
                                     const zero_logger *logger, zero_error *error)
{
    bool optimizer = is_given_value(config, "optimizer.type") &&
                     zr_config_at(config, "optimizer.type")->origin != ZR_FROM_FLAG,
         schedule = is_given_value(config, "scheduler.type") ||
                    is_given_value(config, ZR_OWN_SCHEDULE "type");
    if (!optimizer)
        ZERO_TRY(fill_optimizer(config, facts, logger, error));
    if (!optimizer && !schedule)
        ZERO_TRY(fill_schedule(config, facts, logger, error));
    if (is_given_value(config, "gradient_clipping"))
        return ZERO_OK;
    zr_log(logger, ZERO_LOG_DEBUG, "gradient_clipping 1 (the program's choice)");
    return put_unless_given(config, "gradient_clipping", json_real(1), error);
}
