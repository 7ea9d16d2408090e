#include "report/plan_time.h"

#include "base/cpu.h"
#include "base/text.h"
#include "predict/measure_kernels.h"
#include "predict/rates.h"

#include <stdio.h>

static int threads_of_rank(const zr_planner *p, const zr_plan_time *time, int ranks)
{
    return ZR_MAX(time->cores / zr_planner_together(p, ranks), 1);
}

// Says whether this machine has the cores for its ranks; others are taken to be like it.
static bool ranks_fit_cores(const zr_planner *p, const zr_plan_time *time, int ranks)
{
    return zr_planner_together(p, ranks) <= time->cores;
}

// Says whether it is known how fast its ranks exchange.
static bool has_network(const zr_planner *p, const zr_plan_time *time, int ranks)
{
    return zr_planner_together(p, ranks) == ranks || zr_rate_book_knows_network(&time->book);
}

// Measures what the configuration's own row needs, on the first of its numbers of ranks.
static zero_status measure_own_row(const zr_planner *p, zr_plan_time *time, zero_error *error)
{
    int ranks[ZR_PLANNER_USUAL];
    zr_estimate estimate;
    zr_plan_asked asked;
    zr_planner_ranks(p, ranks);
    zr_plan_point at = {.stage = p->settings.stage, .ranks = ranks[0]};
    while (at.stage < 3 && !zr_planner_has_stage(p, at.stage))
        at.stage++;
    at.batch = zr_planner_batch(p, at.ranks);
    if (!ranks_fit_cores(p, time, at.ranks))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--predict times kernels on this machine, which has %d core%s for %d ranks; "
                       "zero simulate predicts other machines",
                       time->cores, time->cores == 1 ? "" : "s", zr_planner_together(p, at.ranks));
    zr_planner_ask(p, &at, threads_of_rank(p, time, at.ranks), &asked);
    zero_status status = zr_estimate_make(&asked.question, &estimate, error);
    if (status == ZERO_OK)
        status = zr_estimate_measure(&estimate, &p->options->logger, &time->book, error);
    zr_estimate_free(&estimate);
    return status;
}

zero_status zr_plan_time_open(const zr_planner *p, zr_plan_time *out, zero_error *error)
{
    *out = (zr_plan_time){.cores = zr_cpu_budget_get().allowed};
    zr_rate_book_read(&p->options->logger, &out->book);
    if (p->options->predict)
        ZERO_TRY(measure_own_row(p, out, error));
    out->known = zr_rate_book_knows_kernels(&out->book);
    zr_busy_find(out->cores, 1, NULL, &out->busy);
    return ZERO_OK;
}

void zr_plan_time_close(zr_plan_time *time) { zr_rate_book_free(&time->book); }

static void find_overheads(const zr_planner *p, zr_estimate *estimate, zr_overheads *out)
{
    const zr_estimate_question *q = estimate->question;
    const zr_overheads_question question = {
        .subject = {.plan = estimate->at[0].plan, .together = zr_planner_together(p, q->ranks)},
        .loads = p->options->model,
        .vocabulary = q->shape ? zr_lm_shape_of(q->shape).vocab : 0,
    };
    zr_overheads_find(&question, estimate, &p->time->book, out);
}

static zero_status predict_row_time(const zr_planner *p, zr_estimate *estimate, zr_plan_row *row,
                                    zero_error *error)
{
    if (p->machine.far) // the rates that are known are the processor's
        return ZERO_OK;
    find_overheads(p, estimate, &row->overheads);
    if (p->time->known)
        ZERO_TRY(zr_estimate_forecast(estimate, &p->time->book, &row->time, error));
    return ZERO_OK;
}

// Predicts a row for ranks of other threads than its plans are for.
static zero_status predict_with_threads(const zr_planner *p, const zr_plan_point *at, int threads,
                                        zr_plan_row *row, zero_error *error)
{
    zr_estimate estimate;
    zr_plan_asked asked;
    zr_planner_ask(p, at, threads, &asked);
    zero_status status = zr_estimate_make(&asked.question, &estimate, error);
    if (status == ZERO_OK)
        status = predict_row_time(p, &estimate, row, error);
    zr_estimate_free(&estimate);
    return status;
}

void zr_plan_time_of(const zr_planner *p, const zr_plan_point *at, zr_estimate *estimate,
                     zr_plan_row *row)
{
    const zr_plan_time *time = p->time;
    zero_error error = {0};
    if (!time || !ranks_fit_cores(p, time, at->ranks) || !has_network(p, time, at->ranks))
        return;
    int threads = threads_of_rank(p, time, at->ranks);
    zero_status status = threads == estimate->question->threads
                             ? predict_row_time(p, estimate, row, &error)
                             : predict_with_threads(p, at, threads, row, &error);
    if (status == ZERO_OK)
        return;
    row->time = (zr_forecast){0};
    zr_log(&p->options->logger, ZERO_LOG_WARNING, "no prediction of stage %d on %d ranks: %s",
           at->stage, at->ranks, error.message);
}

static void write_overheads(const zr_plan_row *row, zr_buffer *out)
{
    zr_buffer text = {0};
    zr_overheads_text(&row->overheads, &text);
    if (text.length)
        zr_buffer_printf(out, "Predicted %s.\n", text.data);
    out->failed |= text.failed;
    zr_buffer_free(&text);
}

// Writes how long a run takes: a plan knows no number of steps, so of a thousand.
static void write_length(const zr_plan_row *row, zr_buffer *out)
{
    char text[2 * ZR_LENGTH_TEXT];
    if (zr_forecast_is_unknown(&row->time))
        return;
    zr_thousand_steps_text(row->time.seconds, row->overheads.start, time(NULL),
                           zr_forecast_is_rough(&row->time), text);
    zr_buffer_printf(out, "%s.\n", text);
}

static void write_busy(const zr_plan_time *time, zr_buffer *out)
{
    char text[ZR_BUSY_TEXT];
    zr_busy_text(&time->busy, text);
    if (text[0])
        zr_buffer_printf(out, "%s.\n", text);
}

void zr_plan_time_text(const zr_planner *p, const zr_plan_row *row, zr_buffer *out)
{
    const zr_plan_time *time = p->time;
    int threads = threads_of_rank(p, time, row->ranks);
    if (p->machine.far) {
        zr_buffer_printf(out, "\nHow long a step takes on a card is not known: zero simulate "
                              "predicts machines with cards.\n");
        return;
    }
    if (row->time.seconds > 0) {
        bool here = zr_planner_together(p, row->ranks) == row->ranks;
        zr_buffer_printf(out, "\nStage %d on %d rank%s of %d thread%s %s: ", row->stage, row->ranks,
                         row->ranks == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
                         here ? "here" : "of machines like this one");
        zr_forecast_text(&row->time, out);
        zr_buffer_printf(out, "\n");
        write_length(row, out);
    } else if (!time->known)
        zr_buffer_printf(out,
                         "\nHow long a step takes is not known: --predict times this machine's "
                         "kernels for a second, and every run adds to what is known.\n");
    else if (!ranks_fit_cores(p, time, row->ranks))
        zr_buffer_printf(out,
                         "\nThis machine has %d core%s, too few for %d ranks: zero simulate "
                         "predicts other machines.\n",
                         time->cores, time->cores == 1 ? "" : "s",
                         zr_planner_together(p, row->ranks));
    else if (!has_network(p, time, row->ranks))
        zr_buffer_printf(out, "\nHow long a step takes is not known, because ranks exchange over a "
                              "network that nobody has measured: " ZR_LINK_TEACHER
                              " does, and zero simulate knows other machines.\n");
    write_busy(time, out);
    write_overheads(row, out);
}

void zr_plan_time_json(const zr_plan_row *row, zr_json_writer *w)
{
    if (zr_overheads_are_known(&row->overheads))
        zr_overheads_json(&row->overheads, w, "besides");
    if (row->time.seconds > 0)
        zr_forecast_json(&row->time, w, "step");
}
