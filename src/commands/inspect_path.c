// zero_inspect: finds out what a path is; of a run, says what it holds and then inspects its newest
// checkpoint.
#define _GNU_SOURCE
#include "commands/inspect_report.h"

#include "base/errors.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/receipt.h"
#include "checkpoint/run_directory.h"
#include "model/architecture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_METRICS ((size_t)1 << 30)

typedef struct inspecting {
    const zero_inspect_options *options;
    void (*write)(void *user, const char *text);
    void *user;
    zero_error *error;
} inspecting;

// Returns a copy in which every text (names of tensors, paths, values of a configuration) may be
// shown to a person. NULL: no memory.
static json_t *plain_copy(const json_t *value)
{
    char text[4 * ZERO_MESSAGE_BYTES];
    const char *key;
    size_t i;
    json_t *item, *out;
    if (json_is_string(value)) {
        zr_plain_text(json_string_value(value), text, sizeof text);
        return json_string(text);
    }
    if (!json_is_object(value) && !json_is_array(value))
        return json_deep_copy(value);
    out = json_is_object(value) ? json_object() : json_array();
    json_object_foreach((json_t *)value, key, item) json_object_set_new(out, key, plain_copy(item));
    json_array_foreach(value, i, item) json_array_append_new(out, plain_copy(item));
    return out;
}

static zero_status print_report(const inspecting *in, const json_t *report,
                                void (*as_text)(const json_t *report, zr_buffer *out))
{
    zr_buffer text = {0};
    if (in->options->json) {
        char *line = json_dumps(report, JSON_COMPACT | JSON_REAL_PRECISION(17));
        zr_buffer_printf(&text, "%s\n", line ? line : "");
        text.failed = text.failed || !line;
        free(line);
    } else {
        json_t *plain = plain_copy(report);
        text.failed = !plain;
        if (plain)
            as_text(plain, &text);
        json_decref(plain);
    }
    zero_status status = text.failed ? zr_fail(in->error, ZERO_ERR_MEMORY,
                                               "no memory for what is in \"%s\"", in->options->path)
                                     : ZERO_OK;
    if (status == ZERO_OK)
        in->write(in->user, text.data);
    zr_buffer_free(&text);
    return status;
}

// Returns ", labels \"good\", \"poor\"" of a model whose config.json has them, else "".
static void describe_labels(const json_t *config, const char *path, char *out, size_t size)
{
    zr_lm_config model;
    char names[1024];
    *out = 0;
    if (zr_lm_config_unpack(config, path, &model, NULL) != ZERO_OK || !model.labels.count)
        return;
    zr_labels_list(&model.labels, names, sizeof names);
    snprintf(out, size, ", %d labels: %s", model.labels.count, names);
}

// Adds "gpt2: 4 layers, width 128" from config.json; nothing if that is of another form.
static void describe_model(const zr_source *source, json_t *report)
{
    char *directory = NULL;
    json_t *config = json_incref(json_object_get(source->state, "model_config"));
    if (!json_is_object(config) && zr_find_model_files(source->path, &directory, NULL) == ZERO_OK &&
        directory) {
        char *path = zr_sprintf(NULL, "%s/" ZR_MODEL_CONFIG, directory);
        json_decref(config);
        config = NULL;
        if (path)
            zr_json_load(path, MOST_METRICS, &config, NULL);
        zr_free(path);
    }
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *layers = json_object_get(config, "n_layer"),
                 *width = json_object_get(config, "n_embd");
    layers = layers ? layers : json_object_get(config, "num_hidden_layers");
    width = width ? width : json_object_get(config, "hidden_size");
    char labels[1200];
    describe_labels(config, source->path, labels, sizeof labels);
    if (type)
        json_object_set_new(report, "model",
                            json_sprintf("%s of %lld layers, width %lld%s", type,
                                         (long long)json_integer_value(layers),
                                         (long long)json_integer_value(width), labels));
    zr_free(directory);
    json_decref(config);
}

static const json_t *damage_in_report(const json_t *report)
{
    return json_object_get(json_object_get(report, "verify"), "damaged");
}

static zero_status fail_if_damaged(const inspecting *in, const char *path, const json_t *damaged)
{
    size_t count = json_array_size(damaged);
    if (!count)
        return ZERO_OK;
    return zr_fail(in->error, ZERO_ERR_DATA, "\"%s\" is damaged in %zu place%s: %s", path, count,
                   count == 1 ? "" : "s", json_string_value(json_array_get(damaged, 0)));
}

static zero_status report_source(const inspecting *in, const char *path, json_t **out)
{
    zr_source source;
    ZERO_TRY(zr_source_open(path, &source, in->error));
    zero_status status = zr_inspect_report(&source, in->options, out, in->error);
    if (status == ZERO_OK)
        describe_model(&source, *out);
    zr_source_close(&source);
    return status;
}

// Adds the last line of metrics.jsonl that has a loss.
static void add_last_step(const char *path, json_t *run)
{
    char *file = zr_sprintf(NULL, "%s/" ZR_METRICS_FILE, path), *text = NULL;
    size_t length = 0;
    bool found = file && zr_path_exists(file) &&
                 zr_file_read(file, MOST_METRICS, &text, &length, NULL) == ZERO_OK;
    while (found && length) {
        while (length && text[length - 1] == '\n')
            text[--length] = 0;
        const char *before = memrchr(text, '\n', length), *line = before ? before + 1 : text;
        json_t *object = json_loads(line, 0, NULL);
        if (json_is_number(json_object_get(object, "loss"))) {
            json_object_set_new(run, "last_step", object);
            break;
        }
        json_decref(object);
        length = (size_t)(line - text);
    }
    zr_free(text);
    zr_free(file);
}

// Returns a verdict like zr_inspect_verify's, for what cannot be opened.
static json_t *report_unopened(const zero_error *error)
{
    return json_pack("{s:b, s:I, s:[s]}", "checksums", 1, "bytes", (json_int_t)0, "damaged",
                     error->message);
}

// Verifies a checkpoint. One that cannot even be opened counts as damaged like any other.
static zero_status verify_checkpoint(const inspecting *in, const char *path, json_t *entry)
{
    zr_source source;
    zero_status status = zr_source_open(path, &source, in->error);
    if (status == ZERO_OK) {
        status = zr_inspect_verify(&source, entry, in->error);
        zr_source_close(&source);
    } else if (status != ZERO_ERR_MEMORY) {
        json_object_set_new(entry, "verify", report_unopened(in->error));
        status = ZERO_OK;
    }
    return status;
}

// Adds what the receipt next to a model says of its weights; nothing if there is none.
static zero_status verify_model(const char *run, const char *name, json_t *list, zero_error *error)
{
    json_t *receipt = NULL;
    char *directory = zr_sprintf(error, "%s/%s", run, name);
    zero_status status = directory ? zr_receipt_check(directory, &receipt, error) : ZERO_ERR_MEMORY;
    const json_t *weights = json_object_get(receipt, "weights");
    if (status == ZERO_OK && receipt)
        json_array_append_new(list, json_pack("{s:s, s:{s:b, s:I, s:[]}}", "name", name, "verify",
                                              "checksums", 1, "bytes",
                                              json_integer_value(json_object_get(weights, "bytes")),
                                              "damaged"));
    else if (status != ZERO_OK && status != ZERO_ERR_MEMORY)
        json_array_append_new(
            list, json_pack("{s:s, s:o}", "name", name, "verify", report_unopened(error)));
    json_decref(receipt);
    zr_free(directory);
    return status == ZERO_ERR_MEMORY ? status : ZERO_OK;
}

// Lists everything with a checkpoint's name, and with verify checks the content of each but the
// newest, which has a report of its own.
static zero_status list_checkpoints(const inspecting *in, const char *run, const char *newest,
                                    const zr_checkpoints *found, json_t *list)
{
    zero_status status = ZERO_OK;
    for (int i = 0; i < found->count && status == ZERO_OK; i++) {
        json_t *entry = json_pack("{s:I, s:b}", "step", (json_int_t)found->steps[i], "whole",
                                  zr_checkpoint_is_whole(run, found->steps[i]));
        char *path = zr_checkpoint_path(run, found->steps[i], in->error);
        json_array_append_new(list, entry);
        status = path ? ZERO_OK : ZERO_ERR_MEMORY;
        if (path && in->options->verify && (!newest || strcmp(path, newest)))
            status = verify_checkpoint(in, path, entry);
        zr_free(path);
    }
    return status;
}

// Returns the damage of all of a run's checkpoints and models; json_decref.
static json_t *damage_of_run(const json_t *run)
{
    json_t *all = json_array(), *one;
    size_t i;
    json_array_extend(all, (json_t *)damage_in_report(json_object_get(run, "newest")));
    json_array_foreach(json_object_get(run, "checkpoints"), i, one)
        json_array_extend(all, (json_t *)damage_in_report(one));
    json_array_foreach(json_object_get(run, "models"), i, one)
        json_array_extend(all, (json_t *)damage_in_report(one));
    return all;
}

static zero_status list_run(const inspecting *in, const char *path, const char *newest,
                            json_t **out)
{
    static const char *const parts[] = {ZR_RUN_CONFIG_FILE, ZR_METRICS_FILE,
                                        ZR_TIMES_FILE,      ZR_CHECKPOINTS,
                                        ZR_LAST_MODEL,      ZR_RUN_ADAPTER_DIRECTORY,
                                        ZR_BEST_MODEL,      ZR_EMA_MODEL},
                             *const directories[] = {ZR_LAST_MODEL, ZR_RUN_ADAPTER_DIRECTORY,
                                                     ZR_BEST_MODEL, ZR_EMA_MODEL};
    zr_checkpoints found;
    ZERO_TRY(zr_checkpoints_list(path, &found, in->error));
    json_t *holds = json_array(), *list = json_array();
    for (int i = 0; i < ZR_COUNT(parts); i++)
        if (zr_path_has(path, parts[i]))
            json_array_append_new(holds, json_string(parts[i]));
    zero_status status = list_checkpoints(in, path, newest, &found, list);
    zr_checkpoints_free(&found);
    if (status != ZERO_OK) {
        json_decref(holds);
        json_decref(list);
        return status;
    }
    *out = json_pack("{s:s, s:s, s:o, s:o}", "path", path, "kind", "run", "holds", holds,
                     "checkpoints", list);
    if (!*out)
        return zr_fail(in->error, ZERO_ERR_DATA, "the path \"%s\" is no UTF-8", path);
    add_last_step(path, *out);
    json_t *models = json_array();
    for (int m = 0; m < ZR_COUNT(directories) && in->options->verify && status == ZERO_OK; m++)
        status = verify_model(path, directories[m], models, in->error);
    json_object_set_new(*out, "models", models);
    return status;
}

static void put_run(const json_t *run, zr_buffer *out)
{
    zr_inspect_run_text(run, out);
    if (json_object_get(run, "newest"))
        zr_inspect_text(json_object_get(run, "newest"), out);
}

static zero_status inspect_run(const inspecting *in)
{
    json_t *run = NULL, *newest = NULL;
    char *path = NULL;
    zero_status status = zr_run_find_result(in->options->path, &path, in->error);
    if (status == ZERO_OK)
        status = list_run(in, in->options->path, path, &run);
    if (status == ZERO_OK && path)
        status = report_source(in, path, &newest);
    if (status == ZERO_OK && newest)
        json_object_set(run, "newest", newest);
    if (status == ZERO_OK)
        status = print_report(in, run, put_run);
    json_t *damaged = damage_of_run(run);
    if (status == ZERO_OK)
        status = fail_if_damaged(in, in->options->path, damaged);
    json_decref(damaged);
    zr_free(path);
    json_decref(newest);
    json_decref(run);
    return status;
}

static zero_status inspect_source(const inspecting *in)
{
    json_t *report = NULL;
    zero_status status = report_source(in, in->options->path, &report);
    if (status == ZERO_OK)
        status = print_report(in, report, zr_inspect_text);
    if (status == ZERO_OK)
        status = fail_if_damaged(in, in->options->path, damage_in_report(report));
    json_decref(report);
    return status;
}

zero_status zero_inspect(const zero_inspect_options *options,
                         void (*write)(void *user, const char *text), void *user, zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    zero_error local = {0};
    error = error ? error : &local;
    if (!options->path || !write)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_inspect: options.path and write are needed");
    inspecting in = {.options = options, .write = write, .user = user, .error = error};
    return zr_is_run(options->path) ? inspect_run(&in) : inspect_source(&in);
}
