// zero_diff: compares two runs, or two sets of tensors. Runs are compared in the order of events:
// steps, checkpoints, the final model.
#include "base/errors.h"
#include "base/file.h"
#include "base/report.h"
#include "checkpoint/run_directory.h"
#include "commands/diff_tensors.h"
#include "model/architecture.h"
#include "monitor/metrics.h"
#include <zero/commands.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What is being compared: "step 100", "the model".
typedef struct part {
    const char *key, *words; // for JSON and for people
    int64_t step;            // that follows the words; -1: none
} part;

typedef struct diff {
    const char *a, *b;
    zr_report *report;
    zero_diff_result *result;
    part what;
    int64_t differing; // its tensors
    // The only one of two runs that has checkpoints; NULL: both or neither.
    const char *keeper;
} diff;

// Begins the sentence about a difference.
static void begin_difference(const diff *d)
{
    d->result->identical = 0;
    zr_report_begin(d->report, NULL);
    zr_report_json_only(d->report, "part", zr_text(d->what.key));
    zr_report_words(d->report, "%s", d->what.words);
    if (d->what.step >= 0)
        zr_report_phrase(d->report, &(zr_heading){"step", ""}, zr_integer(d->what.step));
}

static void end_difference(const diff *d, const char *words)
{
    zr_report_words(d->report, "%s\n", words);
    zr_report_end(d->report);
}

static void tell_only_in(const diff *d, const char *path)
{
    zr_report_phrase(d->report, &(zr_heading){"only_in", " is only in "}, zr_text(path));
    end_difference(d, "");
}

// Reports the first tensor, and counts the others.
static void tell_tensor(void *user, const zr_tensor_difference *t)
{
    diff *d = user;
    zr_report *r = d->report;
    if (d->differing++)
        return;
    begin_difference(d);
    zr_report_phrase(r, &(zr_heading){"vector", ": "}, zr_text(t->vector));
    zr_report_phrase(r, &(zr_heading){"tensor", " \""}, zr_text(t->name));
    zr_report_words(r, "\"");
    if (t->only_in) {
        tell_only_in(d, t->only_in->path);
        return;
    }
    zr_report_json_only(r, "same_shape_and_type", zr_flag(!t->shapes_differ));
    if (t->shapes_differ) {
        end_difference(d, " has another shape or type");
        return;
    }
    zr_report_phrase(r, &(zr_heading){"differing", " differs in ", ZR_UNIT_GROUPED},
                     zr_integer(t->differing));
    zr_report_phrase(r, &(zr_heading){"elements", " of ", ZR_UNIT_GROUPED},
                     zr_integer(t->elements));
    zr_report_phrase(r, &(zr_heading){"first", " elements, first at "}, zr_integer(t->first));
    zr_report_phrase(r, &(zr_heading){"largest", ", by ", ZR_UNIT_DIGITS, 3}, zr_real(t->largest));
    end_difference(d, " at most");
}

static void tell_value(const diff *d, const char *key, const char *before, const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
    zr_report_phrase(d->report, &(zr_heading){key, before}, zr_both(text ? text : "none", text));
    free(text);
}

// Reports the first member that is not the same in both.
static bool same_members(const diff *d, const char *const *keys, int count, const json_t *a,
                         const json_t *b)
{
    for (int k = 0; k < count; k++) {
        const json_t *x = json_object_get(a, keys[k]), *y = json_object_get(b, keys[k]);
        if ((!x && !y) || json_equal(x, y))
            continue;
        begin_difference(d);
        zr_report_phrase(d->report, &(zr_heading){"field", ": "}, zr_text(keys[k]));
        tell_value(d, "a", " ", x);
        tell_value(d, "b", " and ", y);
        if (json_is_number(x) && json_is_number(y))
            zr_report_phrase(d->report, &(zr_heading){"apart", ", apart by ", ZR_UNIT_DIGITS, 3},
                             zr_real(fabs(json_number_value(x) - json_number_value(y))));
        end_difference(d, "");
        return false;
    }
    return true;
}

// Reads what a checkpoint, or the config.json next to the weights, says of the model; false if
// neither says it in our words.
static bool read_diff_paths_model(const char *path, const zr_source *source, zr_lm_config *out)
{
    const json_t *saved = json_object_get(source->state, "model_config");
    return saved ? zr_lm_config_unpack(saved, path, out, NULL) == ZERO_OK
                 : zr_lm_config_read_in(path, out, NULL) == ZERO_OK;
}

// Models with equal tensors may differ: heads, rotary settings, epsilons and dropout are not in
// tensors.
static zero_status compare_models(diff *d, const char *const paths[2], const zr_source sources[2],
                                  zero_error *error)
{
    zr_lm_config models[2];
    zr_lm_difference found;
    for (int i = 0; i < 2; i++)
        if (!read_diff_paths_model(paths[i], &sources[i], &models[i]))
            return ZERO_OK;
    ZERO_TRY(zr_lm_compare(&models[0], &models[1], 0, &found, error));
    if (!found.found)
        return ZERO_OK;
    begin_difference(d);
    zr_report_phrase(d->report, &(zr_heading){"field", ": the model's \""}, zr_text(found.key));
    for (int i = 0; i < 2; i++) {
        const char *value = found.values[i];
        const zr_value both = zr_both(value, strcmp(value, "none") ? value : NULL);
        zr_report_phrase(d->report, &(zr_heading){i ? "b" : "a", i ? " and " : "\" is "}, both);
        zr_report_phrase(d->report, &(zr_heading){i ? "b_path" : "a_path", " in "},
                         zr_text(paths[i]));
    }
    end_difference(d, "");
    return ZERO_OK;
}

static zero_status compare_opened_sources(diff *d, zr_source *a, zr_source *b, zero_error *error)
{
    static const char *const keys[] = {"step", "updates", "seed", "train_batch_size", "loss_scale"};
    int64_t compared;
    d->differing = 0;
    if (a->state && b->state)
        same_members(d, keys, ZR_COUNT(keys), a->state, b->state);
    ZERO_TRY(zr_sources_compare(a, b, tell_tensor, d, &compared, error));
    d->result->tensors += compared;
    if (d->differing > 1) {
        begin_difference(d);
        zr_report_phrase(d->report, &(zr_heading){"other_tensors", ": "},
                         zr_integer(d->differing - 1));
        end_difference(d, " other tensors differ");
    }
    return ZERO_OK;
}

static zero_status compare_paths(diff *d, const char *a, const char *b, zero_error *error)
{
    zr_source sources[2] = {0};
    zero_status status = zr_source_open(a, &sources[0], error);
    if (status == ZERO_OK)
        status = zr_source_open(b, &sources[1], error);
    if (status == ZERO_OK)
        status = compare_models(d, (const char *const[2]){a, b}, sources, error);
    if (status == ZERO_OK)
        status = compare_opened_sources(d, &sources[0], &sources[1], error);
    zr_source_close(&sources[1]);
    zr_source_close(&sources[0]);
    return status;
}

// Compares what a step computed; the time that it took depends on the machine and its ranks.
static bool same_line(diff *d, const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"step",       "loss",    "grad_norm", "lr",
                                       "loss_scale", "skipped", "tokens",    "val_loss"};
    d->what = (part){"step", "step ", json_integer_value(json_object_get(a, "step"))};
    return same_members(d, keys, ZR_COUNT(keys), a, b);
}

static void tell_shorter(diff *d, const char *ended, int64_t step)
{
    d->what = (part){"steps", "the same up to step ", step};
    begin_difference(d);
    zr_report_phrase(d->report, &(zr_heading){"ended", ", where "}, zr_text(ended));
    end_difference(d, " ends");
}

static zero_status compare_lines(diff *d, zr_metrics_reader *of_a, zr_metrics_reader *of_b,
                                 zero_error *error)
{
    int64_t last = 0;
    for (bool same = true; same;) {
        json_t *a = NULL, *b = NULL;
        zero_status status = zr_metrics_reader_next(of_a, &a, error);
        if (status == ZERO_OK)
            status = zr_metrics_reader_next(of_b, &b, error);
        same = status == ZERO_OK && a && b && same_line(d, a, b);
        if (same) {
            last = json_integer_value(json_object_get(a, "step"));
            d->result->steps += json_object_get(a, "loss") != NULL;
        } else if (status == ZERO_OK && !a != !b) {
            tell_shorter(d, a ? d->b : d->a, last);
        }
        json_decref(a);
        json_decref(b);
        ZERO_TRY(status);
    }
    return ZERO_OK;
}

static zero_status compare_metrics(diff *d, zero_error *error)
{
    zr_metrics_reader a = {0}, b = {0};
    zero_status status = zr_metrics_reader_open(d->a, &a, error);
    if (status == ZERO_OK)
        status = zr_metrics_reader_open(d->b, &b, error);
    if (status == ZERO_OK)
        status = compare_lines(d, &a, &b, error);
    zr_metrics_reader_close(&a);
    zr_metrics_reader_close(&b);
    return status;
}

static zero_status compare_below(diff *d, const char *name, part what, zero_error *error)
{
    d->what = what;
    char *a = zr_sprintf(error, "%s/%s", d->a, name), *b = zr_sprintf(error, "%s/%s", d->b, name);
    zero_status status = a && b ? ZERO_OK : ZERO_ERR_MEMORY;
    bool in_a = a && zr_path_exists(a), in_b = b && zr_path_exists(b);
    if (status == ZERO_OK && in_a && in_b)
        status = compare_paths(d, a, b, error);
    else if (status == ZERO_OK && in_a != in_b) {
        begin_difference(d);
        tell_only_in(d, in_a ? d->a : d->b);
    }
    zr_free(a);
    zr_free(b);
    return status;
}

// Goes from the oldest on, until one differs, because later ones follow from it.
static zero_status compare_common(diff *d, const zr_checkpoints *a, const zr_checkpoints *b,
                                  zero_error *error)
{
    bool differing = false;
    for (int i = a->count - 1; i >= 0 && !differing; i--)
        for (int j = 0; j < b->count; j++) {
            char name[64];
            if (a->steps[i] != b->steps[j])
                continue;
            snprintf(name, sizeof name, ZR_CHECKPOINTS "/" ZR_CHECKPOINT_NAME,
                     (long long)a->steps[i]);
            const part what = {"checkpoint", "the checkpoint of step ", a->steps[i]};
            ZERO_TRY(compare_below(d, name, what, error));
            differing = d->differing > 0;
        }
    return ZERO_OK;
}

// Compares checkpoints of common steps only, because how many a run keeps, and at which steps, is a
// matter of taste.
static zero_status compare_checkpoints(diff *d, zero_error *error)
{
    zr_checkpoints a, b = {0};
    zero_status status = zr_checkpoints_list(d->a, &a, error);
    if (status == ZERO_OK)
        status = zr_checkpoints_list(d->b, &b, error);
    if (status == ZERO_OK && !a.count != !b.count)
        d->keeper = a.count ? d->a : d->b;
    if (status == ZERO_OK)
        status = compare_common(d, &a, &b, error);
    zr_checkpoints_free(&a);
    zr_checkpoints_free(&b);
    return status;
}

static zero_status compare_runs(diff *d, zero_error *error)
{
    ZERO_TRY(compare_metrics(d, error));
    ZERO_TRY(compare_checkpoints(d, error));
    const part adapter = {"adapter", "the adapter", -1};
    // A run that trains adapters, or has trained them, has no model.
    ZERO_TRY(compare_below(d, ZR_LAST_MODEL, (part){"model", "the model", -1}, error));
    ZERO_TRY(compare_below(d, ZR_RUN_ADAPTER_DIRECTORY, adapter, error));
    if (d->result->identical && !d->result->tensors && d->keeper) {
        d->what = (part){"checkpoints", "checkpoints", -1};
        begin_difference(d);
        zr_report_phrase(d->report, &(zr_heading){"only_in", " are only in "}, zr_text(d->keeper));
        end_difference(d, "");
    }
    if (d->result->identical && !d->result->tensors && !d->result->steps)
        return zr_fail(error, ZERO_ERR_DATA,
                       "neither \"%s\" nor \"%s\" has a step, a checkpoint or a model: there is "
                       "nothing to compare",
                       d->a, d->b);
    return ZERO_OK;
}

static zero_status compare_diff_paths(diff *d, bool *runs, zero_error *error)
{
    *runs = false;
    for (int i = 0; i < 2; i++)
        if (!zr_path_exists(i ? d->b : d->a))
            return zr_fail(error, ZERO_ERR_IO, "\"%s\" is not there", i ? d->b : d->a);
    *runs = zr_is_run(d->a);
    if (*runs != zr_is_run(d->b))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "\"%s\" is a run and \"%s\" is none: two runs can be compared, or two sets "
                       "of tensors (of a run, one of its checkpoints or its model)",
                       *runs ? d->a : d->b, *runs ? d->b : d->a);
    d->what = (part){"tensors", "the tensors", -1};
    return *runs ? compare_runs(d, error) : compare_paths(d, d->a, d->b, error);
}

// The text says exactly what was compared, so that nobody takes it for more. JSON also counts what
// was compared where something differs.
static void tell_compared(const diff *d, bool runs)
{
    const zero_diff_result *result = d->result;
    zr_report *r = d->report;
    bool metrics = runs && !result->tensors;
    const char *words = !result->identical ? NULL : metrics ? "identical metrics, " : "identical, ";
    zr_report_json_only(r, "identical", zr_flag(result->identical != 0));
    zr_report_json_only(r, "compared", zr_text(runs ? "runs" : "tensors"));
    if (runs)
        zr_report_phrase(r, &(zr_heading){"steps", words, ZR_UNIT_GROUPED},
                         zr_integer(result->steps));
    zr_report_phrase(r, &(zr_heading){"tensors", runs ? NULL : words, ZR_UNIT_GROUPED},
                     zr_integer(result->tensors));
    if (words)
        zr_report_words(r, runs ? " steps" : " tensors");
    if (words && metrics)
        zr_report_words(r, "; no tensors to compare");
    const char *and = words ? "; checkpoints are only in " : NULL;
    if (d->keeper)
        zr_report_phrase(r, &(zr_heading){"checkpoints_only_in", and}, zr_text(d->keeper));
    if (words)
        zr_report_words(r, "\n");
}

zero_status zero_diff(const zero_diff_options *options, void (*write)(void *user, const char *text),
                      void *user, zero_diff_result *out, zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    ZR_NEED(error, out);
    bool runs = false;
    if (!options->a || !options->b)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_diff: options.%s is missing",
                       options->a ? "b" : "a");
    *out = (zero_diff_result){.identical = 1};
    zr_report *r = zr_report_create(error);
    diff d = {.a = options->a, .b = options->b, .report = r, .result = out};
    zr_report_json_only(r, "a", zr_text(d.a));
    zr_report_json_only(r, "b", zr_text(d.b));
    zr_report_begin_list(r, "differences");
    zero_status status = r ? compare_diff_paths(&d, &runs, error) : ZERO_ERR_MEMORY;
    zr_report_end(r);
    if (status == ZERO_OK)
        tell_compared(&d, runs);
    if (status != ZERO_OK && options->json) {
        zr_report_destroy(r);
        return status;
    }
    // People also read what was found before a failure.
    zero_status printed =
        zr_report_print(r, options->json, write, user, status == ZERO_OK ? error : NULL);
    return status == ZERO_OK ? printed : status;
}
