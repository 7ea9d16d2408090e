// Applies the flags on top of the file. A key's row says whether its flag wins, which a log line
// says then, or must agree with the file.
#include "config/config_ranks.h"
#include "config/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static json_t *read_value(const zr_key *key, const char *text)
{
    if (key->type == ZR_KEY_STRING || key->type == ZR_KEY_ENUM)
        return json_string(text);
    json_error_t why;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &why);
    bool no_json = !value && json_error_code(&why) != json_error_out_of_memory;
    return no_json ? json_string(text) : value;
}

static zero_status find_key(const char *path, const char *flag, int *index, zero_error *error)
{
    *index = zr_key_find(path);
    if (*index >= 0 && zr_key_at(*index)->treatment != ZR_KEY_RENAMED)
        return ZERO_OK;
    char nearest[ZR_KEY_PATH_BYTES];
    zr_key_nearest(path, nearest);
    return zr_fail(error, ZERO_ERR_USAGE, "%s: the configuration has no key \"%s\"%s%s", flag, path,
                   nearest[0] ? "; did you mean " : "", nearest);
}

static zero_status parse_flag_value(const zr_key *key, const char *text, const char *flag,
                                    json_t **out, zero_error *error)
{
    char wanted[ZR_KEY_WANTED_BYTES] = "";
    const char *form = "";
    json_t *value = key->read_flag ? key->read_flag(text, &form) : read_value(key, text);
    if (form[0])
        return zr_fail(error, ZERO_ERR_USAGE, "%s %.64s: expected %s", flag, text, form);
    *out = value ? zr_key_check(key, value, wanted) : NULL;
    json_decref(value);
    if (wanted[0])
        return zr_fail(error, ZERO_ERR_USAGE, "%s: %s: found %.64s, expected %s", flag, key->path,
                       text, wanted);
    return *out ? ZERO_OK : zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for a setting", flag);
}

typedef struct flagging { // a flag on its way into the settings
    zr_config *config;
    const char *flag;
    bool strict;
    const zero_logger *logger;
    zero_error *error;
} flagging;

static const char *last_part_of_path(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static bool differs_from_file(const zr_setting *setting, const json_t *value)
{
    return setting->origin == ZR_FROM_FILE && setting->value && !zr_setting_is_auto(setting) &&
           !json_equal(setting->value, value);
}

// Reports that the flag and the file differ, as a log line or, if strict, as an error. The flag
// gives `value` for `name`; the file gives the value in `setting` for `other`.
static zero_status report_contradicted_file(const flagging *f, const char *name,
                                            const json_t *value, const char *other,
                                            const zr_setting *setting)
{
    zr_shown now = zr_value_shown(value), before = zr_value_shown(setting->value);
    if (f->strict)
        return zr_fail(f->error, ZERO_ERR_USAGE,
                       "%s %s contradicts %s:%d, which says %s %s (strict)", f->flag, now.text,
                       f->config->name, setting->line, other, before.text);
    bool same = !strcmp(name, other);
    zr_log(f->logger, ZERO_LOG_INFO, "%s %s (%s; %s:%d says %s%s%s)", name, now.text, f->flag,
           f->config->name, setting->line, same ? "" : other, same ? "" : " ", before.text);
    return ZERO_OK;
}

static zero_status put_flag(const flagging *f, zr_setting *setting, json_t *value)
{
    char *copy = zr_strdup(f->flag, f->error);
    if (!copy) {
        json_decref(value);
        return ZERO_ERR_MEMORY;
    }
    zr_free(setting->flag);
    setting->flag = copy;
    setting->spelled = NULL;
    return zr_setting_put(setting, value, ZR_FROM_FLAG, f->error);
}

// Keys that mean the same as libzero.dtype. implied_by_dtype() returns the value of each if
// libzero.dtype is `word`; "auto" is never fp16.
static const struct {
    const char *path, *type; // NULL: the key names a type; else the key switches this type on
} precision_keys[] = {
    {"fp16.enabled", "fp16"}, {"bf16.enabled", "bf16"}, {"data_types.param_dtype", NULL}};

static json_t *implied_by_dtype(int key, const json_t *word)
{
    const char *type = precision_keys[key].type, *name = json_string_value(word);
    if (!type || (!strcmp(name, "auto") && strcmp(type, "fp16")))
        return json_string(name);
    return json_boolean(!strcmp(name, type));
}

// Reports the first of the file's precision keys that the flag contradicts.
static zero_status report_precision(const flagging *f, const json_t *word)
{
    for (int i = 0; i < ZR_COUNT(precision_keys); i++) {
        const zr_setting *setting = zr_config_at(f->config, precision_keys[i].path);
        json_t *value = implied_by_dtype(i, word);
        bool contradicts = value && differs_from_file(setting, value);
        json_decref(value);
        if (contradicts)
            return report_contradicted_file(f, "dtype", word, precision_keys[i].path, setting);
    }
    return ZERO_OK;
}

static zero_status put_precision(const flagging *f, const json_t *word)
{
    for (int i = 0; i < ZR_COUNT(precision_keys); i++) {
        zr_setting *setting = zr_config_at(f->config, precision_keys[i].path);
        bool needed = precision_keys[i].type || json_is_string(setting->value);
        if (needed)
            ZERO_TRY(put_flag(f, setting, implied_by_dtype(i, word)));
    }
    return ZERO_OK;
}

// Returns whether the key leaves it to a flag what it is.
static bool is_left_open(const zr_key *key, const zr_setting *setting)
{
    const json_t *value = setting->value;
    return !value || json_is_null(value) || zr_setting_is_auto(setting) ||
           (json_is_integer(value) && json_integer_value(value) == key->silent);
}

static zero_status refuse_contradicting_flags(const flagging *f, const zr_key *key,
                                              const char *text, const char *other)
{
    bool alone = key->type == ZR_KEY_BOOL;
    return zr_fail(f->error, ZERO_ERR_USAGE,
                   "%s%s%.80s contradicts %s: say one of them, or both alike", f->flag,
                   alone ? "" : " ", alone ? "" : text, zr_config_said(f->config, other).text);
}

// Where nothing is trained the flag divides the ranks by itself, because the file of a training
// serves any number of them: its keys keep their numbers, which are reported. Returns whether the
// key is one of these.
static bool take_inference_division(const flagging *f, const zr_key *key, const json_t *value,
                                    zero_status *status)
{
    int64_t number = json_integer_value(value);
    bool tensor = !strcmp(key->path, ZR_TENSOR_AUTOTP);
    *status = ZERO_OK;
    if (!f->config->for_inference || (!tensor && strcmp(key->path, ZR_PIPELINE_STAGES)))
        return false;
    if (tensor)
        f->config->tensor = (int)number;
    else if (number > 1)
        *status = zr_fail(f->error, ZERO_ERR_USAGE,
                          "%s %" PRId64 ": evaluation and generation need a run without a pipeline",
                          f->flag, number);
    return true;
}

// Puts in a flag that must agree with the file, and takes over `value`. Where the file has the same
// value already it stays as the file has it, so that messages name the file.
static zero_status put_if_undisputed(const flagging *f, const zr_key *key, const char *text,
                                     json_t *value)
{
    zero_status status;
    const char *const paths[] = {key->path, key->same_as};
    if (take_inference_division(f, key, value, &status)) {
        json_decref(value);
        return status;
    }
    for (int i = 0; i < ZR_COUNT(paths) && paths[i]; i++) {
        const zr_setting *setting = zr_config_at(f->config, paths[i]);
        if (is_left_open(zr_key_at(zr_key_find(paths[i])), setting))
            continue;
        bool same =
            key->same ? key->same(setting->value, value) : json_equal(setting->value, value);
        json_decref(value);
        return same ? ZERO_OK : refuse_contradicting_flags(f, key, text, paths[i]);
    }
    return put_flag(f, zr_config_at(f->config, key->path), value);
}

// Returns whether the flag puts a schedule of the program's own in the place of the file's
// scheduler.
static bool replaces_scheduler(const flagging *f, const char *path, const json_t *value)
{
    const zr_setting *scheduler = zr_config_at(f->config, "scheduler.type");
    return !strcmp(path, ZR_OWN_SCHEDULE "type") && json_is_string(value) &&
           json_is_string(scheduler->value) && !zr_setting_is_auto(scheduler);
}

zero_status zr_config_override(zr_config *config, const char *path, const char *text,
                               const char *flag, bool strict, const zero_logger *logger,
                               zero_error *error)
{
    const flagging f = {
        .config = config, .flag = flag, .strict = strict, .logger = logger, .error = error};
    int index;
    json_t *value;
    ZERO_TRY(find_key(path, flag, &index, error));
    const zr_key *key = zr_key_at(index);
    zr_setting *setting = &config->settings[index];
    ZERO_TRY(parse_flag_value(key, text, flag, &value, error));
    if (key->agrees)
        return put_if_undisputed(&f, key, text, value);
    bool precision = !strcmp(path, "libzero.dtype") && json_is_string(value);
    zero_status status = ZERO_OK;
    bool replaces = replaces_scheduler(&f, path, value);
    if (replaces)
        status = report_contradicted_file(&f, path, value, "scheduler.type",
                                          zr_config_at(config, "scheduler.type"));
    else if (differs_from_file(setting, value))
        status = report_contradicted_file(&f, last_part_of_path(path), value,
                                          last_part_of_path(path), setting);
    else if (precision)
        status = report_precision(&f, value);
    if (status == ZERO_OK && precision)
        status = put_precision(&f, value);
    if (status != ZERO_OK) {
        json_decref(value);
        return status;
    }
    ZERO_TRY(put_flag(&f, setting, value));
    if (replaces)
        zr_config_forget_scheduler(config);
    // The rate that the flag means may be in the file's schedule.
    static const char warmup_max[] = "scheduler.params.warmup_max_lr";
    if (!strcmp(path, "optimizer.params.lr") && json_is_number(zr_config_value(config, warmup_max)))
        return zr_config_override(config, warmup_max, text, flag, strict, logger, error);
    return ZERO_OK;
}

static void add_flag(zr_parallel_flags *out, const char *key, const char *value, const char *flag)
{
    out->at[out->count++] = (zero_override){.key = key, .value = value, .flag = flag};
}

void zr_parallel_flags_fill(const zero_parallel *parallel, zr_parallel_flags *out)
{
    out->count = 0;
    snprintf(out->tensor, sizeof out->tensor, "%d", parallel->tensor);
    snprintf(out->pipeline, sizeof out->pipeline, "%d", parallel->pipeline);
    if (parallel->tensor)
        add_flag(out, ZR_TENSOR_AUTOTP, out->tensor, "--tensor");
    if (parallel->sequence_parallel)
        add_flag(out, ZR_TENSOR_SEQUENCE, "true", "--sequence-parallel");
    if (parallel->pipeline)
        add_flag(out, ZR_PIPELINE_STAGES, out->pipeline, "--pipeline");
    if (parallel->schedule)
        add_flag(out, ZR_PIPELINE_SCHEDULE, parallel->schedule, "--schedule");
    if (parallel->split)
        add_flag(out, ZR_PIPELINE_SPLIT, parallel->split, "--split");
}

zero_status zr_config_override_parallel(zr_config *config, const zero_parallel *parallel,
                                        zero_error *error)
{
    zr_parallel_flags flags;
    zr_parallel_flags_fill(parallel, &flags);
    for (int i = 0; i < flags.count; i++) {
        const zero_override *flag = &flags.at[i];
        ZERO_TRY(
            zr_config_override(config, flag->key, flag->value, flag->flag, false, NULL, error));
    }
    return ZERO_OK;
}
