// zero_tune: what is open is listed and judged, the best of it is measured in turn.
#include "base/clock.h"
#include "base/cpu.h"
#include "base/errors.h"
#include "setup/backend_choice.h"
#include "tune/tuning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zero/comm.h>

#define USUAL_SECONDS 150.0
// Parts of the whole time: after which nothing more is judged; which kernels may be timed for.
#define JUDGING 0.35
#define MEASURING 0.2
#define LEAST_MEASURED 0.25 // of it, for trials

enum { SURE = 16 }; // candidates that are predicted again once all rates are known

static zero_status check_option_numbers(const zero_tune_options *o, zero_error *error)
{
    if (o->ranks < 0 || o->ranks > ZERO_MAX_RANKS || o->threads < 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_tune: %d ranks of %d threads: 0 (open), or at most %d ranks", o->ranks,
                       o->threads, ZERO_MAX_RANKS);
    if (o->parallel.tensor < 0 || o->parallel.pipeline < 0 || o->seq < 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_tune: options.tensor, pipeline and seq cannot be negative");
    if (o->trials < 0 || !(o->seconds >= 0))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_tune: options.trials and options.seconds cannot be negative");
    if (o->override_count < 0 || (o->override_count > 0 && !o->overrides))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_tune: options.overrides is NULL, and options.override_count is %d",
                       o->override_count);
    return ZERO_OK;
}

static zero_status check_tune_options(const zero_tune_options *o, zero_error *error)
{
    if (!o->new_spec == !o->model_dir)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_tune: one of options.new_spec and model_dir names the model");
    if (o->data_count < 1 || !o->data)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_tune: options.data names no data");
    ZERO_TRY(check_option_numbers(o, error));
    return zr_trial_check_alone("zero tune", error);
}

// ---- arguments of every trial

static void add_argument(zr_tuning *t, int *count, const char *name, const char *value)
{
    if (!value)
        return;
    t->arguments[(*count)++] = name;
    t->arguments[(*count)++] = value;
}

static zero_status make_arguments(zr_tuning *t, char seq[32], zero_error *error)
{
    const zero_tune_options *o = t->options;
    int count = 0;
    t->arguments = zr_alloc((size_t)(o->data_count + 26) * sizeof *t->arguments, error);
    if (!t->arguments)
        return ZERO_ERR_MEMORY;
    snprintf(seq, 32, "%lld", (long long)o->seq);
    add_argument(t, &count, "--new", o->new_spec);
    add_argument(t, &count, "--model", o->model_dir);
    t->arguments[count++] = "--data";
    for (int i = 0; i < o->data_count; i++)
        t->arguments[count++] = o->data[i];
    add_argument(t, &count, o->field && strchr(o->field, '=') ? "--map" : "--field", o->field);
    add_argument(t, &count, "--chat", o->chat);
    add_argument(t, &count, "--chat-date", o->chat_date);
    add_argument(t, &count, "--tokenizer", o->tokenizer);
    add_argument(t, &count, "--seq", o->seq ? seq : NULL);
    add_argument(t, &count, "--backend", o->backend);
    if (o->ignore_unused)
        t->arguments[count++] = "--ignore-unused";
    return ZERO_OK;
}

// ---- the search

static zero_status read_question(zr_tuning *t, zero_error *error)
{
    const zero_tune_options *o = t->options;
    const zr_tuning_flags flags = {
        .overrides = o->overrides, .count = o->override_count, .parallel = o->parallel};
    ZERO_TRY(zr_tuning_file_read(o->config_path, &flags, &t->file, error));
    ZERO_TRY(zr_tuning_settings_read(&t->file, o->metric, &t->settings, error));
    ZERO_TRY(zr_tuning_subject_read(o, &t->subject, error));
    t->asked = (zr_tuning_asked){.options = o,
                                 .file = &t->file,
                                 .settings = &t->settings,
                                 .subject = &t->subject,
                                 .cores = zr_cpu_budget_get().allowed};
    return zr_tuning_space_find(&t->asked, &t->space, error);
}

// Says why there is nothing to measure.
static zero_status refuse_no_candidate(const zr_tuning *t, zero_error *error)
{
    const zr_run_candidate *reason = NULL;
    for (int i = 0; i < t->candidates.count; i++) {
        const zr_run_candidate *c = &t->candidates.at[i];
        if (!reason || (c->state == ZR_CANDIDATE_TOO_LARGE &&
                        (reason->state != c->state || c->memory < reason->memory)))
            reason = c;
    }
    if (!reason)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "tuning %s: no candidate agrees with what is said: %s", t->subject.name,
                       "no micro-batch divides the batch of a data rank");
    return zr_fail(
        error, reason->state == ZR_CANDIDATE_TOO_LARGE ? ZERO_ERR_LIMIT : ZERO_ERR_CONFIG,
        "tuning %s: none of %d candidates %s; %s: %s", t->subject.name, t->candidates.count,
        reason->state == ZR_CANDIDATE_TOO_LARGE ? "fits" : "can be planned",
        reason->state == ZR_CANDIDATE_TOO_LARGE ? "the smallest" : "the first", reason->why);
}

static double candidate_cost(const zr_tuning *t, int candidate)
{
    return zr_candidate_cost(&t->candidates.at[candidate], t->settings.metric);
}

// Predicts the best ones once more, because rates were measured meanwhile.
static zero_status predict_again(zr_tuning *t, zero_error *error)
{
    int list[SURE], count = 0;
    for (; count < SURE; count++) {
        int best = -1;
        for (int i = 0; i < t->candidates.count; i++) {
            const zr_run_candidate *c = &t->candidates.at[i];
            bool listed = c->state != ZR_CANDIDATE_FITS;
            for (int k = 0; k < count && !listed; k++)
                listed = list[k] == i;
            if (!listed && (best < 0 || candidate_cost(t, i) < candidate_cost(t, best)))
                best = i;
        }
        if (best < 0)
            break;
        list[count] = best;
    }
    t->judge.until = INFINITY; // of what is judged already nothing may be lost
    for (int k = 0; k < count && t->judge.measured && zr_clock_seconds() < t->until; k++)
        ZERO_TRY(zr_tuning_judge_one(&t->judge, &t->candidates.at[list[k]], error));
    return ZERO_OK;
}

static zero_status search_candidates(zr_tuning *t, double seconds, zero_error *error)
{
    const zr_candidate_judge judge = {.judge = zr_tuning_judge_one, .user = &t->judge};
    zr_tuning_judge_open(&t->asked, &t->judge);
    t->judge.until = t->begun + JUDGING * seconds;
    t->judge.measuring = MEASURING * seconds;
    ZERO_TRY(zr_candidates_search(&t->space, &judge, &t->candidates, error));
    if (!zr_tuning_count(t, ZR_CANDIDATE_FITS))
        return refuse_no_candidate(t, error);
    ZERO_TRY(predict_again(t, error));
    zr_log(&t->options->logger, ZERO_LOG_INFO,
           "search   %d candidates, %d fit; %d times kernels were timed; %.1f s",
           t->candidates.count, zr_tuning_count(t, ZR_CANDIDATE_FITS), t->judge.measured,
           zr_clock_seconds() - t->begun);
    return ZERO_OK;
}

// A search that took longer than it may on a busy machine leaves some time for trials all the same.
static void allow_time(zr_tuning *t, double seconds)
{
    zr_tuning_allow_rounds(t);
    t->until = ZR_MAX(t->until, zr_clock_seconds() + LEAST_MEASURED * seconds);
}

static zero_status measure_finalists(zr_tuning *t, double seconds, zero_error *error)
{
    int64_t trials = t->options->trials ? t->options->trials : t->settings.trials;
    t->race.most_trials = (int)ZR_MIN(trials, INT32_MAX);
    ZERO_TRY(zr_tuning_choose_finalists(t, error));
    allow_time(t, seconds);
    ZERO_TRY(zr_tuning_race(t, error));
    if (t->best >= 0)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_LIMIT, "tuning %s: no trial came to an end; the first: %s",
                   t->subject.name,
                   t->finalists[0].why[0] ? t->finalists[0].why : "there was no time for one");
}

static zero_status publish_answer(zr_tuning *t, void (*write)(void *user, const char *text),
                                  void *user, zero_error *error)
{
    zr_buffer text = {0};
    ZERO_TRY(zr_tuning_write_answer(t, error));
    if (t->options->json)
        zr_tuning_json(t, &text);
    else
        zr_tuning_table(t, &text);
    if (!text.failed)
        write(user, text.data);
    zero_status status =
        text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the answer") : ZERO_OK;
    zr_buffer_free(&text);
    return status;
}

static void free_tuning(zr_tuning *t)
{
    for (int i = 0; i < t->race.count; i++)
        zr_free(t->finalists[i].at);
    zr_candidates_free(&t->candidates);
    zr_tuning_judge_close(&t->judge);
    zr_model_choice_free(&t->subject);
    zr_tuning_file_free(&t->file);
    zr_free(t->exps_dir);
    zr_free(t->arguments);
    zr_free(t);
}

zero_status zero_tune(const zero_tune_options *options, void (*write)(void *user, const char *text),
                      void *user, zero_error *error)
{
    char seq[32];
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    ZERO_TRY(check_tune_options(options, error));
    if (zr_backend_is_card(options->backend))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "zero_tune: options.backend (--backend %s): what a card trains is not tuned "
                       "yet; zero plan --backend %s says what fits",
                       options->backend, options->backend);
    zr_tuning *t = zr_alloc(sizeof *t, error);
    if (!t)
        return ZERO_ERR_MEMORY;
    double seconds = options->seconds > 0 ? options->seconds : USUAL_SECONDS;
    *t = (zr_tuning){.options = options, .best = -1, .begun = zr_clock_seconds()};
    t->until = t->begun + seconds;
    zero_status status = read_question(t, error);
    if (status == ZERO_OK)
        status = make_arguments(t, seq, error);
    if (status == ZERO_OK)
        status = zr_tuning_open_files(t, error);
    if (status == ZERO_OK)
        status = search_candidates(t, seconds, error);
    if (status == ZERO_OK)
        status = measure_finalists(t, seconds, error);
    if (status == ZERO_OK)
        status = publish_answer(t, write, user, error);
    free_tuning(t);
    return status;
}
