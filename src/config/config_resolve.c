// Turns settings into the fields that the rest of the program reads.
#include "config/config_ranks.h"
#include "config/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const batch_keys[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                         "gradient_accumulation_steps"};

static int64_t batch_value(const zr_config *config, const char *path)
{
    return json_integer_value(zr_config_value(config, path)); // 0 if absent, null or "auto"
}

static zero_status resolve_batch(zr_config *config, const zr_config_facts *facts,
                                 const zero_logger *logger, zero_error *error)
{
    zr_batch batch = {batch_value(config, batch_keys[0]), batch_value(config, batch_keys[1]),
                      batch_value(config, batch_keys[2])};
    if (!batch.train && !batch.micro)
        batch.micro = zr_config_usual_micro_batch(config, facts);
    const zr_batch given = batch;
    ZERO_TRY(zr_batch_solve(&batch, zr_config_grid(config), config->name, error));
    const int64_t solved[] = {batch.train, batch.micro, batch.accumulation};
    for (int i = 0; i < ZR_COUNT(batch_keys); i++)
        if (batch_value(config, batch_keys[i]) != solved[i])
            ZERO_TRY(zr_setting_put(zr_config_at(config, batch_keys[i]), json_integer(solved[i]),
                                    ZR_FROM_PROGRAM, error));
    if (!given.train || !given.micro || !given.accumulation)
        zr_log(logger, ZERO_LOG_DEBUG,
               "batch %" PRId64 " = micro-batch %" PRId64 " x accumulation %" PRId64 " x %s",
               batch.train, batch.micro, batch.accumulation,
               zr_ranks_in_words(zr_config_grid(config)).text);
    return ZERO_OK;
}

static int choice_index(const zr_key *key, const char *text)
{
    const char *choice = key->choices;
    size_t length = strlen(text);
    int index = 0;
    for (; strcspn(choice, "|") != length || strncmp(choice, text, length); index++)
        choice = strchr(choice, '|') + 1;
    return index;
}

static void fill_field(zr_config *config, const zr_key *key, const json_t *value)
{
    char *field = (char *)config + key->field;
    if (key->type == ZR_KEY_BOOL)
        *(bool *)field = json_is_true(value);
    else if (key->type == ZR_KEY_INT || key->type == ZR_KEY_BYTES)
        *(int64_t *)field = json_integer_value(value);
    else if (key->type == ZR_KEY_UPDATES)
        *(int64_t *)field = json_integer_value(value); // a part of the run follows
    else if (json_is_real(value))
        *(double *)field = json_number_value(value);
    else if (key->type == ZR_KEY_ENUM)
        *(int *)field = choice_index(key, json_string_value(value));
}

static void fill_fields(zr_config *config)
{
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        if (key->field && config->settings[i].value && zr_key_applies(key, config))
            fill_field(config, key, config->settings[i].value);
    }
    config->schedule.lr = config->optimizer.lr;
}

static zero_status fill_betas(zr_config *config, zero_error *error)
{
    const zr_setting *setting = zr_config_at(config, "optimizer.params.betas");
    const json_t *first = json_array_get(setting->value, 0),
                 *second = json_array_get(setting->value, 1);
    if (!setting->value)
        return ZERO_OK;
    double beta1 = json_number_value(first), beta2 = json_number_value(second);
    bool numbers =
        json_array_size(setting->value) == 2 && json_is_number(first) && json_is_number(second);
    if (!numbers || !(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: optimizer.params.betas: expected two numbers of at least 0 and below 1",
                       zr_setting_where(config, setting).text);
    config->optimizer.beta1 = beta1;
    config->optimizer.beta2 = beta2;
    return ZERO_OK;
}

// Adafactor has two of them, as torch.optim.Adafactor spells them, and other optimizers one.
static zero_status fill_eps(zr_config *config, zero_error *error)
{
    static const double LEAST = 1e-38; // whose reciprocal fp32 has
    const zr_setting *setting = zr_config_at(config, "optimizer.params.eps");
    const json_t *first = json_array_get(setting->value, 0),
                 *second = json_array_get(setting->value, 1);
    zr_optimizer_spec *o = &config->optimizer;
    bool given =
        setting->value && zr_key_applies(zr_key_at(zr_key_find("optimizer.params.eps")), config);
    if (!given || (o->kind != ZR_OPTIMIZER_ADAFACTOR && !json_is_array(setting->value)))
        return ZERO_OK;
    if (o->kind != ZR_OPTIMIZER_ADAFACTOR)
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: optimizer.params.eps of %s: expected a number",
                       zr_setting_where(config, setting).text,
                       zr_optimizer_traits_of(o->kind)->name);
    bool numbers = json_array_size(setting->value) == 2 && json_is_number(second) &&
                   (json_is_null(first) || json_number_value(first) >= LEAST) &&
                   json_number_value(second) >= 0;
    if (!numbers)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: optimizer.params.eps of Adafactor: expected [null, 1e-3] or two "
                       "numbers, the first of at least 1e-38 and the second of at least 0",
                       zr_setting_where(config, setting).text);
    o->least_root = json_is_null(first) ? zr_optimizer_traits_of(o->kind)->standard.least_root
                                        : json_number_value(first);
    o->eps = json_number_value(second);
    return ZERO_OK;
}

// Checks the conditions that hold between several keys.
static zero_status check_optimizer(const zr_config *config, zero_error *error)
{
    const zr_optimizer_spec *o = &config->optimizer;
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "%s: optimizer.params.nesterov needs a momentum above 0 and a dampening of 0",
            config->name);
    if (o->min_coeff > o->max_coeff)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: optimizer.params.min_coeff %g is above max_coeff %g", config->name,
                       o->min_coeff, o->max_coeff);
    if (o->beta2_decay > 0)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: optimizer.params.beta2_decay is %g; expected at most 0", config->name,
                       o->beta2_decay);
    return ZERO_OK;
}

// Returns the key of the highest rate if the schedule does not use the optimizer's; else NULL.
static const char *schedule_rate_key(const zr_config *config)
{
    static const char cycle[] = "scheduler.params.cycle_max_lr";
    if (config->schedule.kind == ZR_SCHEDULE_RANGE_TEST)
        return "scheduler.params.lr_range_test_min_lr";
    bool own = config->schedule.kind == ZR_SCHEDULE_ONE_CYCLE &&
               zr_config_at(config, cycle)->origin != ZR_FROM_AUTO;
    return own ? cycle : NULL;
}

static bool moves_beta1(const zr_config *config)
{
    const zr_lr_schedule *s = &config->schedule;
    return s->kind == ZR_SCHEDULE_ONE_CYCLE && s->cycle_momentum &&
           zr_key_applies(zr_key_at(zr_key_find("optimizer.params.betas")), config);
}

static zero_status check_momentum(const zr_config *config, zero_error *error)
{
    static const char *const bounds[] = {"scheduler.params.cycle_min_mom",
                                         "scheduler.params.cycle_max_mom"};
    const zr_lr_schedule *s = &config->schedule;
    double reached[] = {1, (double)s->first_steps + (double)s->second_steps + 1};
    for (int i = 0; i < ZR_COUNT(bounds) && moves_beta1(config); i++)
        if ((i ? s->max_momentum : s->min_momentum) >= 1)
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "%s: %s is 1, which beta1 reaches by update %.0f; expected a number of "
                           "at least 0 and below 1",
                           zr_setting_where(config, zr_config_at(config, bounds[i])).text,
                           bounds[i], reached[i]);
    return ZERO_OK;
}

zero_status zr_config_check_length(const zr_config *config, int64_t updates, zero_error *error)
{
    static const char key[] = "scheduler.params.decay_mom_rate";
    int64_t leaves =
        moves_beta1(config) ? zr_schedule_momentum_leaves(&config->schedule) : INT64_MAX;
    if (leaves >= updates)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: %s %g takes beta1 to 1 or above at update %" PRId64 " of %" PRId64
                   "; expected a rate with which it stays below 1",
                   zr_setting_where(config, zr_config_at(config, key)).text, key,
                   config->schedule.decay_momentum_rate, leaves + 1, updates);
}

// --lr means the highest rate, so a warm-up that would start above it is refused.
static zero_status check_warmup(const zr_config *config, zero_error *error)
{
    static const char least[] = "scheduler.params.warmup_min_lr";
    const zr_lr_schedule *s = &config->schedule;
    const zr_setting *lr = zr_config_at(config, "optimizer.params.lr");
    bool warms = s->kind == ZR_SCHEDULE_WARMUP || s->kind == ZR_SCHEDULE_WARMUP_DECAY;
    if (!warms || lr->origin != ZR_FROM_FLAG || s->min_lr <= s->max_lr)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "%s %g is below %s, which is %g (%s): the warm-up would come down to it",
                   lr->flag, s->max_lr, least, s->min_lr,
                   zr_setting_where(config, zr_config_at(config, least)).text);
}

static zero_status check_schedule(const zr_config *config, const zero_logger *logger,
                                  zero_error *error)
{
    const zr_lr_schedule *s = &config->schedule;
    const zr_setting *lr = zr_config_at(config, "optimizer.params.lr");
    const char *own_rate = schedule_rate_key(config);
    if (own_rate && lr->origin == ZR_FROM_FLAG)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s: the schedule %s of %s has rates of its own; change %s (%s)", lr->flag,
                       zr_schedule_name(s->kind), config->name, own_rate,
                       zr_setting_where(config, zr_config_at(config, own_rate)).text);
    if (own_rate && lr->origin == ZR_FROM_FILE)
        zr_log(logger, ZERO_LOG_WARNING,
               "%s: optimizer.params.lr has no effect: %s has rates of its own",
               zr_setting_where(config, lr).text, zr_schedule_name(s->kind));
    ZERO_TRY(check_momentum(config, error));
    ZERO_TRY(check_warmup(config, error));
    if (s->from_one && s->kind != ZR_SCHEDULE_WARMUP_COSINE)
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "%s: libzero.schedule_from_one is for WarmupCosineLR; the schedule is %s",
            zr_setting_where(config, zr_config_at(config, "libzero.schedule_from_one")).text,
            zr_schedule_name(s->kind));
    bool bounded = s->kind == ZR_SCHEDULE_WARMUP_DECAY || s->kind == ZR_SCHEDULE_WARMUP_COSINE;
    if (bounded && s->total_steps < s->warmup_steps)
        zr_log(logger, ZERO_LOG_WARNING,
               "%s: the warm-up of %" PRId64 " updates is longer than the schedule's %" PRId64,
               config->name, s->warmup_steps, s->total_steps);
    return ZERO_OK;
}

static void warn_renamed(const zr_config *config, const zero_logger *logger)
{
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_setting *setting = &config->settings[i];
        if (setting->spelled)
            zr_log(logger, ZERO_LOG_WARNING, "%s: %s is read as %s: %s",
                   zr_setting_where(config, setting).text, setting->spelled->path,
                   zr_key_at(i)->path, setting->spelled->reason);
    }
}

static void report_decay(const zr_config *config, const zero_logger *logger)
{
    if (config->optimizer.weight_decay > 0)
        zr_log(logger, ZERO_LOG_DEBUG, "weight decay %g on %s (libzero.decay_all)",
               config->optimizer.weight_decay,
               config->optimizer.decay_all ? "every tensor"
                                           : "tensors of two or more dimensions only");
}

zero_status zr_config_resolve(zr_config *config, const zr_config_facts *facts,
                              const zero_logger *logger, zero_error *error)
{
    if (facts->world < 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a configuration for %d ranks: at least one is needed", facts->world);
    warn_renamed(config, logger);
    ZERO_TRY(zr_config_refuse(config, error));
    ZERO_TRY(zr_config_settle_kinds(config, error));
    ZERO_TRY(zr_config_find_ranks(config, facts, error));
    ZERO_TRY(zr_config_settle_elastic(config, logger, error));
    ZERO_TRY(resolve_batch(config, facts, logger, error));
    ZERO_TRY(zr_config_settle_precision(config, facts, logger, error));
    ZERO_TRY(zr_config_settle_values(config, facts, logger, error));
    fill_fields(config);
    zr_config_fill_schedule(config, facts, logger);
    ZERO_TRY(fill_betas(config, error));
    ZERO_TRY(fill_eps(config, error));
    ZERO_TRY(check_optimizer(config, error));
    ZERO_TRY(check_schedule(config, logger, error));
    ZERO_TRY(zr_config_fill_precision(config, logger, error));
    ZERO_TRY(zr_config_fill_profilers(config, error));
    ZERO_TRY(zr_config_fill_offload(config, error));
    ZERO_TRY(zr_config_fill_tensor(config, error));
    ZERO_TRY(zr_config_fill_states(config, error));
    ZERO_TRY(zr_config_check_quantised(config, error));
    ZERO_TRY(zr_config_fill_pipeline(config, logger, error));
    ZERO_TRY(zr_config_check_exact(config, error));
    zr_config_report_idle(config, logger);
    report_decay(config, logger);
    return ZERO_OK;
}

zero_status zr_config_choose(zr_config *config, const char *path, int64_t value, zero_error *error)
{
    ZERO_TRY(
        zr_setting_put(zr_config_at(config, path), json_integer(value), ZR_FROM_PROGRAM, error));
    fill_field(config, zr_key_at(zr_key_find(path)), zr_config_value(config, path));
    return ZERO_OK;
}
