#include "tune/base_config.h"

#include "base/json.h"
#include "setup/resolve.h"
#include "setup/model_part.h"
#include "tune/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zero_status no_memory(zero_error *error)
{
    return zr_fail(error, ZERO_ERR_MEMORY, "no memory for the configurations to tune");
}

// ---- reading

// Takes a list of the file out of it, and checks that it has numbers.
static zero_status take_list(zr_tuning_file *file, const char *path, int64_t least, int64_t most,
                             zr_space_list *out, zero_error *error)
{
    json_t *value = zr_json_get(file->root, path), *item;
    size_t i;
    if (!json_is_array(value))
        return ZERO_OK;
    if (json_array_size(value) < 1 || json_array_size(value) > ZR_SPACE_MOST)
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: %s: a list to tune has 1 to %d numbers",
                       file->name, path, ZR_SPACE_MOST);
    json_array_foreach(value, i, item)
    {
        int64_t number = json_integer_value(item);
        if (!json_is_integer(item) || number < least || number > most)
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "%s: %s: a list to tune has integers from %lld to %lld", file->name,
                           path, (long long)least, (long long)most);
        out->at[out->count++] = number;
    }
    zr_json_drop(file->root, path);
    return ZERO_OK;
}

// DeepSpeed also writes "all" for the stages.
static zero_status take_lists(zr_tuning_file *file, zero_error *error)
{
    const char *word = json_string_value(zr_json_get(file->root, ZR_TUNING_STAGE));
    if (word && strcmp(word, "all") == 0) {
        file->stages = (zr_space_list){.at = {0, 1, 2, 3}, .count = 4};
        zr_json_drop(file->root, ZR_TUNING_STAGE);
    }
    ZERO_TRY(take_list(file, ZR_TUNING_STAGE, 0, 3, &file->stages, error));
    return take_list(file, ZR_TUNING_MICRO_BATCH, 1, ZR_TUNING_MOST_MICROS, &file->micro_batches,
                     error);
}

static zero_status take_section(zr_tuning_file *file, zero_error *error)
{
    json_t *section = json_object_get(file->root, "autotuning");
    if (!section)
        return ZERO_OK;
    file->section = json_pack("{sO}", "autotuning", section);
    json_object_del(file->root, "autotuning");
    return file->section ? ZERO_OK : no_memory(error);
}

static json_t *flag_value(const zero_override *flag)
{
    json_t *value = json_loads(flag->value, JSON_DECODE_ANY, NULL);
    if (value || strcmp(flag->key, ZR_TUNING_SPLIT))
        return value ? value : json_string(flag->value);
    char *text = zr_sprintf(NULL, "[%s]", flag->value); // 0,6
    value = text ? json_loads(text, 0, NULL) : NULL;
    zr_free(text);
    return value ? value : json_string(flag->value);
}

// A type that a flag gives replaces every other way to say one.
static void forget_types(json_t *root)
{
    static const char *const others[] = {"fp16.enabled", "bf16.enabled", "bfloat16.enabled",
                                         "data_types.param_dtype"};
    for (int i = 0; i < ZR_COUNT(others); i++)
        zr_json_drop(root, others[i]);
}

// Here every flag wins over the file.
static bool put_flag(zr_tuning_file *file, const zero_override *flag)
{
    if (strcmp(flag->key, "libzero.dtype") == 0)
        forget_types(file->root);
    return zr_json_put(file->root, flag->key, flag_value(flag));
}

static zero_status put_flags(zr_tuning_file *file, const zr_tuning_flags *flags, zero_error *error)
{
    bool good = true;
    zr_parallel_flags parallel;
    zr_parallel_flags_fill(&flags->parallel, &parallel);
    for (int i = 0; i < flags->count && good; i++)
        good = put_flag(file, &flags->overrides[i]);
    for (int i = 0; i < parallel.count && good; i++)
        good = put_flag(file, &parallel.at[i]);
    return good ? ZERO_OK : no_memory(error);
}

static zero_status parse_root(const json_t *root, const char *name, zr_config **out,
                              zero_error *error)
{
    char *text = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (!text)
        return no_memory(error);
    zero_status status = zr_config_parse(text, strlen(text), name, out, error);
    free(text);
    return status;
}

static zero_status read_root(const char *path, zr_tuning_file *out, zero_error *error)
{
    char *text;
    size_t length;
    ZERO_TRY(zr_resolve_text(path, &text, &length, error));
    zero_status status = text ? zr_json_blank(text, length, out->name, error) : ZERO_OK;
    if (status == ZERO_OK && text)
        status = zr_json_parse(text, length, out->name, &out->root, error);
    zr_free(text);
    ZERO_TRY(status);
    if (!out->root)
        out->root = json_object();
    if (!json_is_object(out->root))
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: a configuration is an object", out->name);
    return ZERO_OK;
}

zero_status zr_tuning_file_read(const char *path, const zr_tuning_flags *flags, zr_tuning_file *out,
                                zero_error *error)
{
    *out = (zr_tuning_file){.name = zr_strdup(path ? path : "defaults", error)};
    if (!out->name)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(read_root(path, out, error));
    ZERO_TRY(take_section(out, error));
    ZERO_TRY(take_lists(out, error));
    ZERO_TRY(put_flags(out, flags, error));
    ZERO_TRY(parse_root(out->root, out->name, &out->config, error));
    ZERO_TRY(zr_config_refuse_unknown(out->config, NULL, error));
    if (!out->section)
        out->section = json_object();
    return parse_root(out->section, out->name, &out->tuning, error);
}

void zr_tuning_file_free(zr_tuning_file *file)
{
    zr_config_destroy(file->config);
    zr_config_destroy(file->tuning);
    json_decref(file->root);
    json_decref(file->section);
    zr_free(file->name);
    *file = (zr_tuning_file){0};
}

// ---- what it says

static const json_t *value_in_file(const zr_tuning_file *file, const char *path)
{
    const zr_setting *setting = zr_config_setting(file->config, path);
    const char *word = setting ? json_string_value(setting->value) : NULL;
    return !setting || (word && strcmp(word, "auto") == 0) ? NULL : setting->value;
}

static bool is_of_batch(const char *path)
{
    return strcmp(path, ZR_TUNING_BATCH) == 0 || strcmp(path, ZR_TUNING_MICRO_BATCH) == 0 ||
           strcmp(path, ZR_TUNING_ACCUMULATION) == 0;
}

bool zr_tuning_file_says(const zr_tuning_file *file, const char *path)
{
    const json_t *value = value_in_file(file, path);
    return value && !(is_of_batch(path) && json_is_null(value));
}

int64_t zr_tuning_file_number(const zr_tuning_file *file, const char *path)
{
    return json_integer_value(value_in_file(file, path));
}

const char *zr_tuning_file_text(const zr_tuning_file *file, const char *path)
{
    return json_string_value(value_in_file(file, path));
}

// ---- files of candidates

typedef struct writing {
    const zr_tuning_file *file;
    json_t *root;
    bool good;
} writing;

// Chooses a key that is open, and takes over the value.
static void put_if_open(writing *w, const char *path, json_t *value)
{
    if (zr_tuning_file_says(w->file, path))
        json_decref(value);
    else
        w->good = zr_json_put(w->root, path, value) && w->good;
}

static json_t *device_word(zero_tier tier)
{
    static const char *const names[] = {
        [ZERO_TIER_device] = "none", [ZERO_TIER_host] = "cpu", [ZERO_TIER_nvme] = "nvme"};
    return json_string(names[tier]);
}

static void choose_batch(writing *w, const zr_run_candidate *c)
{
    int64_t data = c->ranks / (c->tensor * c->stages);
    if (json_is_true(json_object_get(json_object_get(w->root, "elasticity"), "enabled")))
        return; // it chooses the batch itself
    put_if_open(w, ZR_TUNING_BATCH, json_integer(c->micro_batch * c->accumulation * data));
    put_if_open(w, ZR_TUNING_MICRO_BATCH, json_integer(c->micro_batch));
    put_if_open(w, ZR_TUNING_ACCUMULATION, json_integer(c->accumulation));
}

static void choose_grid(writing *w, const zr_run_candidate *c)
{
    char schedule[40];
    snprintf(schedule, sizeof schedule, c->chunks > 1 ? "%s:%d" : "%s",
             zr_pipeline_kind_name(c->schedule), c->chunks);
    if (!zr_tuning_file_says(w->file, "tensor_parallel.tp.tp_size"))
        put_if_open(w, ZR_TUNING_TENSOR, json_integer(c->tensor));
    put_if_open(w, ZR_TUNING_PIPELINE, json_integer(c->stages));
    if (c->stages > 1)
        put_if_open(w, ZR_TUNING_SCHEDULE, json_string(schedule));
}

// libzero.offload auto leaves tiers and tiles to the program: the candidate has chosen them.
static void choose_memory(writing *w, const zr_run_candidate *c)
{
    if (zr_json_get(w->root, "libzero.offload"))
        w->good = zr_json_put(w->root, "libzero.offload", json_string("given")) && w->good;
    put_if_open(w, ZR_TUNING_CHECKPOINTS,
                c->checkpoints ? json_integer(c->checkpoints) : json_null());
    put_if_open(w, ZR_TUNING_OPTIMIZER, device_word(c->optimizer));
    put_if_open(w, ZR_TUNING_PARAMETERS, device_word(c->parameters));
    put_if_open(w, ZR_TUNING_DELAYED, c->delayed ? json_integer(1) : json_null());
    if (c->sub_group)
        put_if_open(w, ZR_TUNING_SUB_GROUP, json_integer(c->sub_group));
    else if (zr_candidate_travels(c, zr_tuning_file_says(w->file, "libzero.device_memory")))
        put_if_open(w, ZR_TUNING_SUB_GROUP,
                    zr_key_standard(zr_key_at(zr_key_find(ZR_TUNING_SUB_GROUP))));
}

static void choose_tiles(writing *w, const zr_tiles *tiles)
{
    put_if_open(w, "libzero.tiling.embedding", json_integer(tiles->embedding));
    put_if_open(w, "libzero.tiling.attention", json_integer(tiles->attention));
    put_if_open(w, "libzero.tiling.mlp", json_integer(tiles->mlp));
}

// A trial is over before an update that is delayed later would be.
static void make_trial_quiet(writing *w)
{
    zr_trial_quiet(w->root);
    if (json_integer_value(zr_json_get(w->root, ZR_TUNING_DELAYED)) > 1)
        w->good = zr_json_put(w->root, ZR_TUNING_DELAYED, json_integer(1)) && w->good;
}

char *zr_tuning_file_of(const zr_tuning_file *file, const zr_run_candidate *c, bool quiet,
                        zero_error *error)
{
    writing w = {.file = file, .root = json_deep_copy(file->root), .good = true};
    char *text = NULL, *copy = NULL;
    w.good = w.root != NULL;
    if (w.good) {
        put_if_open(&w, ZR_TUNING_STAGE, json_integer(c->stage));
        choose_batch(&w, c);
        choose_grid(&w, c);
        choose_memory(&w, c);
        if (c->tiling)
            choose_tiles(&w, &zr_tilings[c->tiling]);
        if (quiet)
            make_trial_quiet(&w);
    }
    if (w.good)
        text = json_dumps(w.root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    if (text)
        copy = zr_sprintf(error, "%s\n", text);
    else
        no_memory(error);
    free(text);
    json_decref(w.root);
    return copy;
}
