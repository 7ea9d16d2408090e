// zero_diff: compares two runs, or two sets of tensors. Runs are compared in the order of events:
// steps, checkpoints, the final model.
#include "base/errors.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/run_directory.h"
#include "commands/diff_tensors.h"
#include "model/architecture.h"
#include "monitor/metrics.h"
#include <zero/commands.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct diff {
    const char *a, *b;
    void (*write)(void *user, const char *text);
    void *user;
    zero_diff_result *result;
    const char *what;  // what is being compared: "step 100", "the model"
    int64_t differing; // its tensors
    // The only one of two runs that has checkpoints; NULL: both or neither.
    const char *keeper;
} diff;

static void say_diff_paths(const diff *d, const char *format, ...) ZERO_PRINTF(2, 3);
static void say_diff_paths(const diff *d, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    zr_plain_line(line, d->write, d->user);
    d->result->identical = 0;
}

// Writes "2,000".
static const char *grouped(int64_t number, char out[static 32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)number), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

// Reports the first tensor, and counts the others.
static void tell_tensor(void *user, const zr_tensor_difference *t)
{
    diff *d = user;
    char elements[32], differing[32];
    if (d->differing++)
        return;
    if (t->only_in)
        say_diff_paths(d, "%s: %s \"%s\" is only in %s\n", d->what, t->vector, t->name,
                       t->only_in->path);
    else if (t->shapes_differ)
        say_diff_paths(d, "%s: %s \"%s\" has another shape or type\n", d->what, t->vector, t->name);
    else
        say_diff_paths(
            d, "%s: %s \"%s\" differs in %s of %s elements, first at %lld, by %.3g at most\n",
            d->what, t->vector, t->name, grouped(t->differing, differing),
            grouped(t->elements, elements), (long long)t->first, t->largest);
}

static void tell_field(const diff *d, const char *of, const char *key, const json_t *a,
                       const json_t *b)
{
    char *text_a = a ? json_dumps(a, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL,
         *text_b = b ? json_dumps(b, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
    double apart = fabs(json_number_value(a) - json_number_value(b));
    if (json_is_number(a) && json_is_number(b))
        say_diff_paths(d, "%s: %s %s and %s, apart by %.3g\n", of, key, text_a, text_b, apart);
    else
        say_diff_paths(d, "%s: %s %s and %s\n", of, key, text_a ? text_a : "none",
                       text_b ? text_b : "none");
    free(text_a);
    free(text_b);
}

// Reports the first member that is not the same in both.
static bool same_members(const diff *d, const char *of, const char *const *keys, int count,
                         const json_t *a, const json_t *b)
{
    for (int k = 0; k < count; k++) {
        const json_t *x = json_object_get(a, keys[k]), *y = json_object_get(b, keys[k]);
        if ((x || y) && !json_equal(x, y)) {
            tell_field(d, of, keys[k], x, y);
            return false;
        }
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
    if (found.found)
        say_diff_paths(d, "%s: the model's \"%s\" is %s in %s and %s in %s\n", d->what, found.key,
                       found.values[0], paths[0], found.values[1], paths[1]);
    return ZERO_OK;
}

static zero_status compare_open(diff *d, zr_source *a, zr_source *b, zero_error *error)
{
    static const char *const keys[] = {"step", "updates", "seed", "train_batch_size", "loss_scale"};
    int64_t compared;
    d->differing = 0;
    if (a->state && b->state)
        same_members(d, d->what, keys, ZR_COUNT(keys), a->state, b->state);
    ZERO_TRY(zr_sources_compare(a, b, tell_tensor, d, &compared, error));
    d->result->tensors += compared;
    if (d->differing > 1)
        say_diff_paths(d, "%s: %lld other tensors differ\n", d->what,
                       (long long)(d->differing - 1));
    return ZERO_OK;
}

static zero_status compare_paths(diff *d, const char *a, const char *b, const char *what,
                                 zero_error *error)
{
    zr_source sources[2] = {0};
    d->what = what;
    zero_status status = zr_source_open(a, &sources[0], error);
    if (status == ZERO_OK)
        status = zr_source_open(b, &sources[1], error);
    if (status == ZERO_OK)
        status = compare_models(d, (const char *const[2]){a, b}, sources, error);
    if (status == ZERO_OK)
        status = compare_open(d, &sources[0], &sources[1], error);
    zr_source_close(&sources[1]);
    zr_source_close(&sources[0]);
    return status;
}

// Compares what a step computed; the time that it took depends on the machine and its ranks.
static bool same_line(const diff *d, const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"step",       "loss",    "grad_norm", "lr",
                                       "loss_scale", "skipped", "tokens",    "val_loss"};
    char step[40];
    snprintf(step, sizeof step, "step %lld",
             (long long)json_integer_value(json_object_get(a, "step")));
    return same_members(d, step, keys, ZR_COUNT(keys), a, b);
}

static void tell_shorter(const diff *d, const char *ended, int64_t step)
{
    say_diff_paths(d, "the same up to step %lld, where %s ends\n", (long long)step, ended);
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

static zero_status compare_below(diff *d, const char *name, const char *what, zero_error *error)
{
    char *a = zr_sprintf(error, "%s/%s", d->a, name), *b = zr_sprintf(error, "%s/%s", d->b, name);
    zero_status status = a && b ? ZERO_OK : ZERO_ERR_MEMORY;
    bool in_a = a && zr_path_exists(a), in_b = b && zr_path_exists(b);
    if (status == ZERO_OK && in_a && in_b)
        status = compare_paths(d, a, b, what, error);
    else if (status == ZERO_OK && in_a != in_b)
        say_diff_paths(d, "%s is only in %s\n", what, in_a ? d->a : d->b);
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
            char name[64], what[64];
            if (a->steps[i] != b->steps[j])
                continue;
            snprintf(name, sizeof name, ZR_CHECKPOINTS "/" ZR_CHECKPOINT_NAME,
                     (long long)a->steps[i]);
            snprintf(what, sizeof what, "the checkpoint of step %lld", (long long)a->steps[i]);
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
    ZERO_TRY(compare_below(d, ZR_LAST_MODEL, "the model", error));
    if (d->result->identical && !d->result->tensors && d->keeper)
        say_diff_paths(d, "checkpoints are only in %s\n", d->keeper);
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
    return *runs ? compare_runs(d, error) : compare_paths(d, d->a, d->b, "the tensors", error);
}

// The text says exactly what was compared, so that nobody takes it for more.
static void tell_identical(const diff *d, bool runs)
{
    const zero_diff_result *r = d->result;
    char number[32], line[1024];
    grouped(runs ? r->steps : r->tensors, number);
    if (!runs)
        snprintf(line, sizeof line, "identical, %s tensors\n", number);
    else if (!r->tensors)
        snprintf(line, sizeof line, "identical metrics, %s steps; no tensors to compare\n", number);
    else if (d->keeper)
        snprintf(line, sizeof line, "identical, %s steps; checkpoints are only in %.800s\n", number,
                 d->keeper);
    else
        snprintf(line, sizeof line, "identical, %s steps\n", number);
    zr_plain_line(line, d->write, d->user);
}

zero_status zero_diff(const zero_diff_options *options, void (*write)(void *user, const char *text),
                      void *user, zero_diff_result *out, zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    ZR_NEED(error, out);
    bool runs;
    if (!options->a || !options->b)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_diff: options.%s is missing",
                       options->a ? "b" : "a");
    *out = (zero_diff_result){.identical = 1};
    diff d = {.a = options->a, .b = options->b, .write = write, .user = user, .result = out};
    ZERO_TRY(compare_diff_paths(&d, &runs, error));
    if (out->identical)
        tell_identical(&d, runs);
    return ZERO_OK;
}
