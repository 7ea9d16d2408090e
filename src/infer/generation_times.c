#include "infer/generation_times.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/text.h"
#include "engine/engine_api.h"
#include "engine/rank_grid.h"
#include "predict/rates.h"
#include "predict/virtual_rank.h"
#include "setup/machine_facts.h"

#include <math.h>
#include <string.h>
#include <time.h>

// Records of a step; a step with more is not measured. Kinds of steps; further ones count as the
// last.
enum { RECORDS = 1 << 14, MOST_KINDS = 64 };
// A generation with fewer steps teaches nothing.
enum { ENOUGH_STEPS = 8 };
// No step is left out as one that warms up: prompts are read in the first ones of each generation.
enum { WARM_CALLS = 2 };
// A prediction is called a guess if more than this part of it is guessed.
static const double MOST_GUESSED = 0.3;

zero_status zr_generation_times_count(zero_engine *engine, zr_generation_times *out,
                                      zero_error *error)
{
    *out = (zr_generation_times){.engine = engine};
    out->measured = zr_alloc(sizeof *out->measured, error);
    if (!out->measured)
        return ZERO_ERR_MEMORY;
    out->measured->calls = WARM_CALLS;
    out->measured->rates.setting = zr_rate_setting_of(engine);
    out->measured->overlaps = zr_engine_grid(engine)->data->comm_thread != NULL;
    return ZERO_OK;
}

zero_status zr_generation_times_open(zero_engine *engine, zr_generation_times *out,
                                     zero_error *error)
{
    ZERO_TRY(zr_generation_times_count(engine, out, error));
    return zr_recorder_create(RECORDS, &out->recorder, error);
}

void zr_generation_times_close(zr_generation_times *times)
{
    if (times->recorder) // a step that failed may have been recorded
        (void)zr_engine_record(times->engine, NULL, NULL);
    for (int i = 0; i < times->step_count; i++) {
        zr_free(times->steps[i].first);
        zr_free(times->steps[i].last);
    }
    zr_free(times->steps);
    zr_recorder_destroy(times->recorder);
    zr_free(times->measured);
    *times = (zr_generation_times){0};
}

zero_status zr_generation_begin_step(zr_generation_times *times, zero_error *error)
{
    if (!times)
        return ZERO_OK;
    times->recorded = times->recorder && zr_measured_begin(times->measured, 1);
    if (times->recorded) {
        zr_recorder_clear(times->recorder);
        ZERO_TRY(zr_engine_record(times->engine, times->recorder, error));
        times->recorded_at = zr_recorder_begin(times->recorder);
    }
    times->began = zr_clock_seconds();
    return ZERO_OK;
}

// Returns the tokens of prompts that a step reads.
static int64_t tokens_read(const zr_decode_step *step)
{
    int64_t tokens = 0;
    for (int r = 0; r < step->run_count; r++)
        if (step->runs[r].rows > 1 || step->runs[r].first == 0)
            tokens += step->runs[r].rows;
    return tokens;
}

static bool is_like(const zr_generation_steps *kind, const zr_decode_step *step, bool reads)
{
    return kind->reads == reads && kind->rows == step->rows && kind->wanted == step->wanted_count &&
           kind->run_count == step->run_count;
}

static zero_status begin_kind(zr_generation_times *times, const zr_decode_step *step,
                              zr_generation_steps **out, zero_error *error)
{
    size_t bytes = (size_t)step->run_count * sizeof(zr_attention_run);
    zr_generation_steps *all =
        zr_list_grow(times->steps, times->step_count, &times->step_capacity, sizeof *all, error);
    if (!all)
        return ZERO_ERR_MEMORY;
    times->steps = all;
    zr_generation_steps *kind = &all[times->step_count++];
    *kind = (zr_generation_steps){.rows = step->rows,
                                  .wanted = step->wanted_count,
                                  .run_count = step->run_count,
                                  .reads = times->reads,
                                  .first = zr_alloc(bytes, error),
                                  .last = zr_alloc(bytes, error)};
    if (!kind->first || !kind->last)
        return ZERO_ERR_MEMORY;
    memcpy(kind->first, step->runs, bytes);
    memcpy(kind->last, step->runs, bytes);
    *out = kind;
    return ZERO_OK;
}

static zero_status note_step(zr_generation_times *times, const zr_decode_step *step,
                             zero_error *error)
{
    zr_generation_steps *kind = times->steps, *end = times->steps + times->step_count;
    while (kind < end && !is_like(kind, step, times->reads))
        kind++;
    if (kind < end)
        memcpy(kind->last, step->runs, (size_t)step->run_count * sizeof *step->runs);
    else if (times->step_count == MOST_KINDS)
        kind = end - 1;
    else
        ZERO_TRY(begin_kind(times, step, &kind, error));
    kind->count++;
    return ZERO_OK;
}

// The records of a step are those inside of one phase.
static zero_status end_records(zr_generation_times *times, zero_error *error)
{
    ZERO_TRY(zr_engine_record(times->engine, NULL, error));
    zr_recorder_add(times->recorder, ZR_ACTIVITY_forward, times->recorded_at, 0, 0, -1);
    if (times->recorder->dropped == 0)
        zr_measured_take(times->measured, times->recorder, 0, 1);
    return ZERO_OK;
}

zero_status zr_generation_end_step(zr_generation_times *times, const zr_decode_step *step,
                                   zero_error *error)
{
    if (!times)
        return ZERO_OK;
    double now = zr_clock_seconds();
    int64_t read = tokens_read(step);
    times->reads = read > 0;
    int part = times->reads ? ZR_GENERATION_READS : ZR_GENERATION_WRITES;
    times->seconds[part] += now - times->began;
    times->tokens[ZR_GENERATION_READS] += read;
    if (times->recorded)
        ZERO_TRY(end_records(times, error));
    times->began = zr_clock_seconds();
    return note_step(times, step, error);
}

void zr_generation_end_choice(zr_generation_times *times, int64_t chosen, bool stopped)
{
    if (!times)
        return;
    double taken = zr_clock_seconds() - times->began;
    times->seconds[times->reads ? ZR_GENERATION_READS : ZR_GENERATION_WRITES] += taken;
    times->choosing += chosen ? taken : 0;
    times->choices += chosen;
    times->stopped = stopped;
    times->tokens[ZR_GENERATION_WRITES] += chosen;
}

// ---- predicted ----------------------------------------------------------------------------------

typedef struct asking { // what all steps have in common
    const zr_generation_times *times;
    const zr_rate_book *book;
    const char *backend;
    int32_t *tokens; // zeros
    int64_t *wanted; // ascending
} asking;

static zero_status forecast_step(const asking *a, const zr_generation_steps *kind,
                                 const zr_attention_run *runs, zr_cost *out, zero_error *error)
{
    zero_engine *engine = a->times->engine;
    const zr_plan *plan = zr_engine_plan(engine);
    const zr_harness_decode_question decode = {.step = {.runs = runs,
                                                        .run_count = kind->run_count,
                                                        .rows = kind->rows,
                                                        .tokens = a->tokens,
                                                        .wanted = a->wanted,
                                                        .wanted_count = kind->wanted},
                                               .sequences = a->times->sequences,
                                               .capacity = a->times->capacity};
    zr_plan_operations operations;
    const zr_forecast_question question = {
        .plans = &plan,
        .operations = &operations,
        .stages = 1,
        .book = a->book,
        .setting = a->times->measured->rates.setting,
        .overlaps = a->times->measured->overlaps,
        .kv_replicas = zr_local_ranks(zr_engine_comm(engine)),
        .cores = zr_cpu_budget_get().allowed,
    };
    zero_status status = zr_plan_operations_decode(plan, a->backend, &decode, &operations, error);
    if (status == ZERO_OK)
        status = zr_forecast_evaluation(&question, 1, &out->seconds, &out->unknown, error);
    zr_plan_operations_free(&operations);
    return status;
}

static zero_status add_kind(const asking *a, const zr_generation_steps *kind,
                            zr_generation_forecast *out, zero_error *error)
{
    zr_cost first = {0}, last = {0};
    ZERO_TRY(forecast_step(a, kind, kind->first, &first, error));
    ZERO_TRY(forecast_step(a, kind, kind->last, &last, error));
    const zr_task_sample chosen = {.together = a->times->measured->rates.setting.together,
                                   .amount = a->times->vocabulary};
    double choice = zr_task_rates_seconds(&a->book->tasks, ZR_TASK_CHOOSE, &chosen, NULL),
           step = (first.seconds + last.seconds) / 2, count = (double)kind->count;
    int part = kind->reads ? ZR_GENERATION_READS : ZR_GENERATION_WRITES;
    out->seconds[part] += count * (step + choice * (double)kind->wanted);
    out->unknown += count * step * fmax(first.unknown, last.unknown);
    return ZERO_OK;
}

static zero_status forecast_all_steps(asking *a, zr_generation_forecast *out, zero_error *error)
{
    const zr_generation_times *times = a->times;
    int64_t rows = 1;
    for (int i = 0; i < times->step_count; i++)
        rows = ZR_MAX(rows, times->steps[i].rows);
    a->tokens = zr_alloc((size_t)rows * sizeof *a->tokens, error);
    a->wanted = zr_alloc((size_t)rows * sizeof *a->wanted, error);
    if (!a->tokens || !a->wanted)
        return ZERO_ERR_MEMORY;
    for (int64_t i = 0; i < rows; i++) {
        a->tokens[i] = 0;
        a->wanted[i] = i;
    }
    for (int i = 0; i < times->step_count; i++)
        ZERO_TRY(add_kind(a, &times->steps[i], out, error));
    return ZERO_OK;
}

zero_status zr_generation_predict(const zr_generation_times *times, const zr_rate_book *book,
                                  const char *backend, zr_generation_forecast *out,
                                  zero_error *error)
{
    asking asking = {.times = times, .book = book, .backend = backend ? backend : "cpu"};
    const zero_comm *comm = zr_engine_comm(times->engine);
    *out = (zr_generation_forecast){0};
    if (!zr_rate_book_knows_kernels(book) || zr_local_ranks(comm) < comm->size)
        return ZERO_OK;
    zero_status status = forecast_all_steps(&asking, out, error);
    zr_free(asking.tokens);
    zr_free(asking.wanted);
    return status;
}

bool zr_generation_is_guess(const zr_generation_forecast *forecast)
{
    const double *seconds = forecast->seconds;
    return forecast->unknown >
           MOST_GUESSED * (seconds[ZR_GENERATION_READS] + seconds[ZR_GENERATION_WRITES]);
}

// how: "predicted", or "guessed".
static void append_part_seconds(double seconds, double predicted, const char *how, zr_buffer *out)
{
    char text[ZR_SECONDS_TEXT];
    zr_seconds_text(seconds, text);
    zr_buffer_printf(out, " %s", text);
    if (predicted <= 0)
        return;
    zr_seconds_text(predicted, text);
    zr_buffer_printf(out, " (%s %s)", how, text);
}

void zr_generation_text(const zr_generation_times *times, const zr_generation_forecast *forecast,
                        zr_buffer *out)
{
    static const char *const names[] = {"reading", "writing"};
    const double *predicted = forecast->seconds;
    double all = predicted[ZR_GENERATION_READS] + predicted[ZR_GENERATION_WRITES];
    const char *how = zr_generation_is_guess(forecast) ? "guessed" : "predicted";
    zr_buffer_printf(out, "took    ");
    append_part_seconds(times->seconds[0] + times->seconds[1], all, how, out);
    for (int part = 0; part < ZR_GENERATION_PARTS; part++) {
        zr_buffer_printf(out, "%s %s %lld token%s", part ? "," : ":", names[part],
                         (long long)times->tokens[part], times->tokens[part] == 1 ? "" : "s");
        append_part_seconds(times->seconds[part], predicted[part], how, out);
    }
}

void zr_generation_teach(zr_generation_times *times, const zero_logger *logger)
{
    const zero_comm *comm = zr_engine_comm(times->engine);
    zr_rate_book found = {.settings = &times->measured->rates, .count = 1};
    const zr_task_sample choice = {
        .together = times->measured->rates.setting.together,
        .amount = times->vocabulary,
        .seconds = times->choices ? times->choosing / (double)times->choices : 0,
        .seen = 1};
    if (times->measured->calls - WARM_CALLS < ENOUGH_STEPS || zr_local_ranks(comm) < comm->size)
        return;
    times->measured->rates.measured = (int64_t)time(NULL);
    zr_task_rates_add(&found.tasks, ZR_TASK_CHOOSE, &choice);
    zr_rate_book_keep(&found, logger);
}
