#include "checkpoint/run_record.h"

#include "base/file.h"
#include "base/json_writer.h"
#include "formats/manifest.h"
#include "checkpoint/run_directory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CONFIG = 1 << 24 }; // in bytes

#define LAST_TENTH "the last tenth" // the value of "val" for the default of --val

static const json_t *get_nested_member(const json_t *object, const char *a, const char *b)
{
    return json_object_get(json_object_get(object, a), b);
}

static const char *text_of_key(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int64_t integer_of_key(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

// Numbers of tensor ranks and pipeline stages are written only if above 1.
static int64_t rank_count_of(const json_t *object, const char *key)
{
    return ZR_MIN(ZR_MAX(integer_of_key(object, key), 1), INT32_MAX);
}

static void put_text(zr_json_writer *w, const char *key, const char *text)
{
    if (text)
        zr_json_text(w, key, text);
}

void zr_run_record_write(const zr_run_record *record, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_SPACED);
    zr_json_begin_object(&w, NULL);
    put_text(&w, record->new_spec ? "new" : "model",
             record->new_spec ? record->new_spec : record->model);
    put_text(&w, "tokenizer", record->tokenizer);
    zr_json_flag(&w, "tokenizer_of_model", record->tokenizer_of_model);
    zr_json_begin_array(&w, "data");
    for (int i = 0; i < record->data_count; i++)
        zr_json_text(&w, NULL, record->data[i]);
    zr_json_end(&w);
    zr_json_text(&w, "val", record->val ? record->val : LAST_TENTH);
    put_text(&w, "field", record->field);
    put_text(&w, "chat", record->chat);
    put_text(&w, "chat_date", record->chat_date);
    put_text(&w, "allow_change", record->allow_change);
    put_text(&w, "backend", record->backend);
    put_text(&w, "comm", record->comm);
    put_text(&w, "instructions", record->instructions);
    put_text(&w, "data_hash", record->data_hash);
    zr_json_integer(&w, "vocabulary", record->vocabulary);
    zr_json_integer(&w, "parameters", record->parameters);
    zr_json_integer(&w, "seq", record->seq);
    zr_json_integer(&w, "steps", record->steps);
    zr_json_integer(&w, "ranks", record->ranks);
    if (record->tensor > 1)
        zr_json_integer(&w, "tensor", record->tensor);
    if (record->stages > 1)
        zr_json_integer(&w, "pipeline", record->stages);
    zr_json_integer(&w, "threads", record->threads);
    zr_json_end(&w);
}

int64_t zr_run_data_ranks(const zr_run_record *record)
{
    return record->ranks / ((int64_t)record->tensor * record->stages);
}

static zero_status read_data(const json_t *run, zr_run_config_file *out, zero_error *error)
{
    const json_t *files = json_object_get(run, "data");
    size_t count = json_array_size(files);
    if (!count)
        return ZERO_OK;
    out->data = zr_alloc(count * sizeof *out->data, error);
    if (!out->data)
        return ZERO_ERR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        out->data[i] = json_string_value(json_array_get(files, i));
        if (!out->data[i])
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s\": item %zu of libzero.run.data is no text, where the name of a "
                           "file is needed",
                           out->path, i);
    }
    out->run.data = out->data;
    out->run.data_count = (int)count;
    return ZERO_OK;
}

static zr_run_record read_run_record(const json_t *run)
{
    const char *val = text_of_key(run, "val");
    return (zr_run_record){
        .new_spec = text_of_key(run, "new"),
        .model = text_of_key(run, "model"),
        .tokenizer = text_of_key(run, "tokenizer"),
        .tokenizer_of_model = json_is_true(json_object_get(run, "tokenizer_of_model")),
        .val = val && strcmp(val, LAST_TENTH) ? val : NULL,
        .field = text_of_key(run, "field"),
        .chat = text_of_key(run, "chat"),
        .chat_date = text_of_key(run, "chat_date"),
        .allow_change = text_of_key(run, "allow_change"),
        .backend = text_of_key(run, "backend"),
        .comm = text_of_key(run, "comm"),
        .instructions = text_of_key(run, "instructions"),
        .data_hash = text_of_key(run, "data_hash"),
        .vocabulary = integer_of_key(run, "vocabulary"),
        .parameters = integer_of_key(run, "parameters"),
        .seq = integer_of_key(run, "seq"),
        .steps = integer_of_key(run, "steps"),
        .ranks = (int)integer_of_key(run, "ranks"),
        .tensor = (int)rank_count_of(run, "tensor"),
        .stages = (int)rank_count_of(run, "pipeline"),
        .threads = (int)integer_of_key(run, "threads"),
    };
}

zero_status zr_run_config_read(const char *run, zr_run_config_file *out, zero_error *error)
{
    *out = (zr_run_config_file){.path = zr_sprintf(error, "%s/" ZR_RUN_CONFIG_FILE, run)};
    if (!out->path)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_json_load(out->path, MOST_CONFIG, &out->root, error));
    const json_t *object = get_nested_member(out->root, "libzero", "run");
    out->run = read_run_record(object);
    out->train_batch = integer_of_key(out->root, "train_batch_size");
    out->micro_batch = integer_of_key(out->root, "train_micro_batch_size_per_gpu");
    out->of_earlier_program = !get_nested_member(out->root, "libzero", "loss_mean");
    return read_data(object, out, error);
}

zero_status zr_run_config_check(const zr_run_config_file *config, zero_error *error)
{
    const zr_run_record *run = &config->run;
    bool has_model = run->new_spec || run->model;
    if (run->ranks >= 1 && run->threads >= 1 && run->steps >= 1 && run->data_count && has_model)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "\"%s\" does not say how the run was made (libzero.run): only what zero train "
                   "has written can be verified",
                   config->path);
}

bool zr_run_config_is_at(const char *path)
{
    json_t *root = NULL;
    if (!zr_path_is_file(path) || zr_json_load(path, MOST_CONFIG, &root, NULL) != ZERO_OK)
        return false;
    bool is = json_is_object(get_nested_member(root, "libzero", "run"));
    json_decref(root);
    return is;
}

void zr_run_config_free(zr_run_config_file *config)
{
    json_decref(config->root);
    zr_free(config->data);
    zr_free(config->path);
    *config = (zr_run_config_file){0};
}

static void put_several(json_t *facts, const char *key, int64_t ranks)
{
    if (facts && ranks > 1)
        json_object_set_new(facts, key, json_integer(ranks));
}

json_t *zr_run_state_pack(const zr_run_state *state)
{
    bool has_best = isfinite(state->best);
    json_t *facts =
        json_pack("{s:s, s:I, s:I, s:I, s:I}", "data", state->data_hash, "seq",
                  (json_int_t)state->seq, "lines", (json_int_t)state->lines, "micro_batch",
                  (json_int_t)state->micro_batch, "ranks", (json_int_t)state->ranks);
    if (facts && state->base_hash && state->base_hash[0])
        json_object_set_new(facts, "base", json_string(state->base_hash));
    put_several(facts, "tensor", state->tensor);
    put_several(facts, "pipeline", state->stages);
    if (facts && state->resumed_from)
        json_object_set_new(facts, "resumed_from", json_integer(state->resumed_from));
    if (facts && state->owed)
        json_object_set_new(facts, "owed", json_true());
    if (facts && state->keeps_weight_decay)
        json_object_set_new(facts, "keeps_weight_decay", json_true());
    if (facts && has_best)
        json_object_set_new(facts, "best", json_real(state->best));
    if (facts && has_best && state->best_windows)
        json_object_set_new(facts, "best_windows", json_integer(state->best_windows));
    return json_pack("{s:o}", "train", facts);
}

bool zr_run_state_read(const json_t *state, zr_run_state *out)
{
    const json_t *facts = json_object_get(state, "train"), *best = json_object_get(facts, "best");
    *out = (zr_run_state){
        .data_hash = text_of_key(facts, "data"),
        .base_hash = text_of_key(facts, "base"),
        .seq = integer_of_key(facts, "seq"),
        .lines = integer_of_key(facts, "lines"),
        .micro_batch = integer_of_key(facts, "micro_batch"),
        .ranks = integer_of_key(facts, "ranks"),
        .tensor = rank_count_of(facts, "tensor"),
        .stages = rank_count_of(facts, "pipeline"),
        .resumed_from = integer_of_key(facts, "resumed_from"),
        .owed = json_is_true(json_object_get(facts, "owed")),
        .keeps_weight_decay = json_is_true(json_object_get(facts, "keeps_weight_decay")),
        .best = json_is_number(best) ? json_number_value(best) : INFINITY,
        .best_windows = integer_of_key(facts, "best_windows"),
    };
    return facts;
}

static zr_decay_before decay_from_decay_all(const json_t *all)
{
    if (!all)
        return ZR_DECAY_UNKNOWN;
    if (json_is_boolean(all))
        return json_is_true(all) ? ZR_DECAY_ALL : ZR_DECAY_MATRICES;
    return ZR_DECAY_OTHER;
}

// Reads which tensors the configuration of a checkpoint decays, and with which value, if the run is
// DeepSpeed's or has kept the value.
static void read_decay(const json_t *state, const zr_run_state *facts, zr_run_before *out)
{
    const json_t *config = json_object_get(state, "config");
    const json_t *value =
        json_object_get(get_nested_member(config, "optimizer", "params"), "weight_decay");
    bool kept = get_nested_member(state, "lineage", "imported_from") || facts->keeps_weight_decay;
    out->decay = decay_from_decay_all(get_nested_member(config, "libzero", "decay_all"));
    out->weight_decay = json_number_value(value);
    out->has_weight_decay = kept && json_is_number(value) && out->weight_decay >= 0;
}

// Earlier programs knew only these formulas, and wrote no key for them.
static void read_formulas(const json_t *state, zr_run_before *out)
{
    const json_t *own = get_nested_member(state, "config", "libzero");
    const char *mean = text_of_key(own, "loss_mean");
    out->has_loss_mean = !mean || !strcmp(mean, "micro_batch");
    out->has_rate_0 = !json_is_true(json_object_get(own, "schedule_from_one")) &&
                      !text_of_key(json_object_get(own, "schedule"), "type");
}

void zr_run_before_of_checkpoint(const char *checkpoint, zr_run_before *out)
{
    zr_manifest manifest;
    zr_run_state facts;
    *out = (zr_run_before){0};
    if (zr_manifest_read(checkpoint, &manifest, NULL) != ZERO_OK)
        return;
    bool ours = zr_run_state_read(manifest.state, &facts);
    // otherwise loading refuses it
    if (zr_state_check(manifest.state, checkpoint, NULL) == ZERO_OK) {
        out->batch = integer_of_key(manifest.state, "train_batch_size");
        out->micro_batch = facts.micro_batch;
        out->ranks = facts.ranks / (facts.tensor * facts.stages);
        out->tensor = facts.tensor;
        out->stages = facts.stages;
    }
    read_decay(manifest.state, &facts, out);
    if (ours)
        read_formulas(manifest.state, out);
    out->seq = facts.seq;
    zr_manifest_free(&manifest);
}

void zr_run_before_read(const char *run, zr_run_before *out)
{
    zr_run_config_file config;
    *out = (zr_run_before){0};
    if (zr_run_config_read(run, &config, NULL) == ZERO_OK)
        *out = (zr_run_before){
            .batch = config.train_batch,
            .micro_batch = config.micro_batch,
            .seq = config.run.seq,
            .ranks = zr_run_data_ranks(&config.run),
            .tensor = config.run.tensor,
            .stages = config.run.stages,
        };
    zr_run_config_free(&config);
}

static void take_word(const char *word, char *out, size_t size)
{
    snprintf(out, size, "%s", word ? word : "");
}

void zr_run_words_before(const char *run, zr_run_before *out)
{
    zr_run_config_file config;
    bool known = zr_run_config_read(run, &config, NULL) == ZERO_OK;
    take_word(known ? config.run.chat_date : NULL, out->chat_date, sizeof out->chat_date);
    take_word(known ? config.run.backend : NULL, out->backend, sizeof out->backend);
    zr_run_config_free(&config);
}
