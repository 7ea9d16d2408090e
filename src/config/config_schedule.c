// The program's own schedules, libzero.schedule: which one a configuration names, and how many
// updates its warm-up and its decay are once the length of the run is known.
#include "config/config_ranks.h"
#include "config/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TYPE ZR_OWN_SCHEDULE "type"
#define WARMUP ZR_OWN_SCHEDULE "warmup"
#define DECAY ZR_OWN_SCHEDULE "decay"
#define SCHEDULER "scheduler.type"
#define FROM_ONE "libzero.schedule_from_one"

// Returns ZR_SCHEDULE_CONSTANT if the key names none.
static zr_lr_schedule_kind kind_of_key(const zr_config *config, const char *path)
{
    const json_t *name = zr_config_value(config, path);
    int kind = json_is_string(name) ? zr_schedule_find(json_string_value(name)) : -1;
    return kind < 0 ? ZR_SCHEDULE_CONSTANT : (zr_lr_schedule_kind)kind;
}

zero_status zr_config_settle_schedule(zr_config *config, zero_error *error)
{
    zr_lr_schedule_kind own = kind_of_key(config, TYPE), other = kind_of_key(config, SCHEDULER);
    config->schedule.kind = own ? own : other;
    if (!own || !other)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG, "%s and %s are both schedules: say one of them",
                   zr_config_said(config, SCHEDULER).text, zr_config_said(config, TYPE).text);
}

// Writes the names of the schedules that have a key: "linear, cosine or wsd".
static void list_kinds(const zr_key *key, char *out, size_t size)
{
    size_t used = 0;
    unsigned left = key->kinds;
    for (int kind = 0; left && used < size; kind++, left = key->kinds >> kind << kind) {
        if (!(key->kinds >> kind & 1))
            continue;
        bool last = key->kinds >> kind == 1;
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 !used  ? ""
                                 : last ? " or "
                                        : ", ",
                                 zr_schedule_name((zr_lr_schedule_kind)kind));
    }
}

zero_status zr_config_refuse_schedule_key(const zr_config *config, int index, zero_error *error)
{
    const zr_key *key = zr_key_at(index);
    char kinds[80] = "";
    list_kinds(key, kinds, sizeof kinds);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: %s is for the schedule %s (" TYPE ", --schedule-lr); %s%s",
                   zr_setting_where(config, &config->settings[index]).text, key->path, kinds,
                   config->schedule.kind ? "this one is " : "none is named",
                   config->schedule.kind ? zr_schedule_name(config->schedule.kind) : "");
}

void zr_config_forget_scheduler(zr_config *config)
{
    for (int i = 0; i < zr_key_count(); i++) {
        const char *path = zr_key_at(i)->path;
        if (strncmp(path, "scheduler.", 10) && strcmp(path, FROM_ONE))
            continue;
        zr_setting_clear(&config->settings[i]);
        config->settings[i].spelled = NULL;
    }
}

// Returns the updates of a key that may be a part of the run.
static int64_t updates_of_key(const zr_config *config, const char *path, int64_t total)
{
    const json_t *value = zr_config_value(config, path);
    if (!json_is_string(value))
        return json_integer_value(value); // 0 if null
    return llround(zr_key_percent(json_string_value(value)) / 100 * (double)total);
}

static void describe_schedule(const zr_lr_schedule *s, const zero_logger *logger)
{
    char decay[96] = "";
    if (s->decay_steps)
        snprintf(decay, sizeof decay, ", decay over the last %" PRId64 ", down to %g of the rate",
                 s->decay_steps, s->min_lr_ratio);
    zr_log(logger, ZERO_LOG_DEBUG, "schedule %s, warm-up over %" PRId64 " of %" PRId64 " updates%s",
           zr_schedule_name(s->kind), s->warmup_steps, s->total_steps, decay);
}

void zr_config_fill_schedule(zr_config *config, const zr_config_facts *facts,
                             const zero_logger *logger)
{
    zr_lr_schedule *s = &config->schedule;
    if (!zr_schedule_is_own(s->kind))
        return;
    s->total_steps = facts->total_steps;
    s->warmup_steps = updates_of_key(config, WARMUP, s->total_steps);
    // A warm-up of 0 updates is one of 1: the first update has the whole rate.
    int64_t after = ZR_MAX(s->total_steps - ZR_MAX(s->warmup_steps, 1), 0);
    if (s->kind == ZR_SCHEDULE_OWN_WSD) {
        s->decay_steps = updates_of_key(config, DECAY, s->total_steps);
    } else {
        s->decay_steps = s->kind == ZR_SCHEDULE_OWN_CONSTANT ? 0 : after;
        s->decay_shape = s->kind == ZR_SCHEDULE_OWN_COSINE ? ZR_SHAPE_COSINE : ZR_SHAPE_LINEAR;
    }
    if (s->total_steps)
        describe_schedule(s, logger);
}

static zero_status refuse_length(const zr_config *config, zero_error *error)
{
    const zr_lr_schedule *s = &config->schedule;
    bool decays = s->kind == ZR_SCHEDULE_OWN_WSD && s->decay_steps;
    bool by_flag = zr_config_at(config, WARMUP)->origin == ZR_FROM_FLAG ||
                   (decays && zr_config_at(config, DECAY)->origin == ZR_FROM_FLAG);
    char both[480] = "";
    if (decays)
        snprintf(both, sizeof both, " and a decay of %" PRId64 " (%s)", s->decay_steps,
                 zr_config_said(config, DECAY).text);
    return zr_fail(error, by_flag ? ZERO_ERR_USAGE : ZERO_ERR_CONFIG,
                   "a warm-up of %" PRId64 " updates (%s)%s do%s not fit into a run of %" PRId64,
                   s->warmup_steps, zr_config_said(config, WARMUP).text, both, decays ? "" : "es",
                   s->total_steps);
}

zero_status zr_config_check_schedule(const zr_config *config, zero_error *error)
{
    const zr_lr_schedule *s = &config->schedule;
    if (!zr_schedule_is_own(s->kind))
        return ZERO_OK;
    bool endless =
        s->kind == ZR_SCHEDULE_OWN_CONSTANT && json_is_integer(zr_config_value(config, WARMUP));
    if (!s->total_steps && !endless)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s needs the length of the run, which zero_options.total_steps says",
                       zr_config_said(config, TYPE).text);
    int64_t decay = s->kind == ZR_SCHEDULE_OWN_WSD ? s->decay_steps : 0;
    // Each of them is compared first, because a sum of both might overflow.
    if (!s->total_steps ||
        (s->warmup_steps <= s->total_steps && decay <= s->total_steps - s->warmup_steps))
        return ZERO_OK;
    return refuse_length(config, error);
}
