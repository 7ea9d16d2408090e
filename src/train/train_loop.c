// The steps of a training, and what happens between them: metrics, progress, evaluation, and the
// best model so far.
#include "base/clock.h"
#include "comm/agreement.h"
#include "config/config_ranks.h"
#include "engine/engine_api.h"
#include "engine/rank_grid.h"
#include "checkpoint/run_directory.h"
#include "infer/window_loss.h"
#include "train/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// EVALUATIONS of a run; an evaluation between steps reads at most 1/EVAL_SHARE of the windows
// trained on since the last one.
enum { EVALUATIONS = 10, EVAL_SHARE = 20 };

#define ALL_OF_IT "all of the held-out text"

// What follows a step; the largest verdict of all ranks counts.
typedef enum verdict { GO_ON, SAVE, LEAVE, STOP } verdict;

typedef struct loop {
    zr_train *train;
    int64_t micro_batch;
    zr_train_between between;
    int64_t window;        // most steps between two drains of a pipeline
    zr_rows rows;          // (window, accumulation, micro_batch, seq)
    zero_tensors *batches; // (window, accumulation) of them
    zero_step_info *infos; // (window)
    double previous_loss;
    // Decaying sums for the mean time of recent steps, in milliseconds.
    double smooth_ms, smooth_weight;
    zero_traffic before, groups_before[ZERO_AXIS_COUNT], job_before;
    zero_io io_before;
    bool left; // an evaluation stopped early, because the run is to end
} loop;

// Reads the rows of the micro-batches of the engine's next steps. The number of a micro-batch in
// the whole training determines which rows it has.
static zero_status read_rows(loop *l, int64_t steps, zero_error *error)
{
    zr_train *train = l->train;
    const zr_dataset *data = &train->subject.data;
    int64_t ranks = zr_engine_config(train->run.engine)->ranks, elements, step, number;
    int64_t accumulation = zero_accumulation(train->run.engine);
    zero_position(train->run.engine, &step, &number);
    elements = l->micro_batch * train->resolved.seq;
    for (int64_t k = 0; k < steps * accumulation; k++) {
        int64_t first = (step * accumulation * ranks + k * ranks + number) * l->micro_batch;
        const zr_rows rows = zr_rows_from(l->rows, k * elements);
        zr_dataset_train_batch(data, first, l->micro_batch, rows);
        l->batches[k] = zr_windows_batch(rows, l->micro_batch, train->resolved.seq);
    }
    return zr_windows_check_files(train->comm, data, error);
}

int zr_train_tell(const zr_train *train, const zero_event *event)
{
    const zero_train_options *options = train->asked.options;
    bool heard = train->comm->rank == 0 && options->progress;
    return heard ? options->progress(options->progress_user, event) : 0;
}

static zero_io io_since(loop *l)
{
    zero_io now;
    zero_io_report(l->train->run.engine, &now);
    return zero_io_between(&l->io_before, &now);
}

static zero_traffic traffic_since(loop *l)
{
    zero_traffic now;
    zero_traffic_report(l->train->run.engine, &now);
    return zero_traffic_between(&l->before, &now);
}

static void groups_since(loop *l, zero_traffic out[ZERO_AXIS_COUNT])
{
    for (zero_axis axis = 0; axis < ZERO_AXIS_COUNT; axis++) {
        zero_traffic now;
        zr_engine_traffic(l->train->run.engine, axis, &now);
        out[axis] = zero_traffic_between(&l->groups_before[axis], &now);
    }
}

static zero_traffic job_since(loop *l)
{
    zero_traffic now;
    zr_engine_job_traffic(l->train->run.engine, &now);
    return zero_traffic_between(&l->job_before, &now);
}

// Reports a metrics line that could not be written; the run goes on without it. Rank 0 calls it.
static void report_lost_line(zr_train *train, int64_t step, zero_status status,
                             const zero_error *error)
{
    if (status != ZERO_OK && !train->run.metrics_failed)
        zr_log(&train->logger, ZERO_LOG_ERROR,
               "step %lld has no line in metrics.jsonl, nor may later ones; the run goes on: %s",
               (long long)step, error->message);
    train->run.metrics_failed = status != ZERO_OK;
}

// Returns the mean time of recent steps, in milliseconds.
static double mean_of_last(loop *l, double milliseconds)
{
    l->smooth_weight = 0.95 * l->smooth_weight + 0.05;
    l->smooth_ms = 0.95 * l->smooth_ms + 0.05 * milliseconds;
    return l->smooth_ms / l->smooth_weight;
}

// last: what was exchanged and moved is known, since the one before, of the steps of a window.
static void write_loop_line(loop *l, const zero_step_info *info, bool last, int64_t tokens,
                            double milliseconds)
{
    zero_error error = {0};
    zr_train *train = l->train;
    const zr_config *config = zr_engine_config(train->run.engine);
    zero_traffic groups[ZERO_AXIS_COUNT] = {0};
    if (last)
        groups_since(l, groups);
    zr_metrics_step line = {
        .step = info->step,
        .tokens = tokens,
        .loss = info->loss,
        .lr = info->lr,
        .grad_norm = info->grad_norm,
        .loss_scale = info->loss_scale,
        .skipped = info->skipped,
        .milliseconds = milliseconds,
        .tokens_per_second = (double)tokens * 1e3 / milliseconds,
        .traffic = last ? traffic_since(l) : (zero_traffic){0},
        .groups = zr_config_model_ranks(config) > 1 ? groups : NULL,
        .pipelined = config->pipeline.stages > 1,
        .job = last ? job_since(l) : (zero_traffic){0},
        .io = last ? io_since(l) : (zero_io){0},
    };
    zero_memory_report(train->run.engine, &line.memory);
    if (train->run.outputs.metrics)
        report_lost_line(train, info->step,
                         zr_metrics_step_write(train->run.outputs.metrics, &line, &error), &error);
}

// Writes the line of metrics.jsonl and sends the event. Returns the caller's answer: whether it
// wants the run to end. Rank 0 calls it.
static int report_step(loop *l, const zero_step_info *info, bool last, double milliseconds)
{
    int64_t steps = l->train->resolved.steps;
    int64_t tokens = info->samples * l->train->resolved.seq;
    double mean = mean_of_last(l, milliseconds);
    bool cold = zr_run_clock_warm_steps(&l->train->run.clock) == 0;
    zr_run_pace_add(&l->train->run.pace, milliseconds / 1e3, cold);
    const zero_event event = {
        .kind = ZERO_EVENT_STEP,
        .step = info->step,
        .total_steps = steps,
        .loss = info->loss,
        .previous_loss = l->previous_loss,
        .lr = info->lr,
        .grad_norm = info->grad_norm,
        .milliseconds = milliseconds,
        .tokens_per_second = (double)tokens * 1e3 / mean,
        .seconds_left = zr_train_seconds_left(l->train, &l->between, info->step),
        .tokens = tokens,
    };
    write_loop_line(l, info, last, tokens, milliseconds);
    zr_train_correct_length(l->train, &l->between, info->step);
    return zr_train_tell(l->train, &event);
}

// Returns whether this rank wants the run to end: a signal may reach any rank, and the clock is
// rank 0's.
static bool wants_to_leave(void *user)
{
    const zr_train *train = user;
    const volatile int *asked = train->asked.options->stop;
    return (asked && *asked) || (train->comm->rank == 0 && zr_train_is_out_of_time(train));
}

// Saves the best model so far. If it cannot be written, each cause is reported once and the run
// goes on; the previous best stays, and the next one still has to beat it.
static zero_status keep_best(zr_train *train, int64_t step, double loss, zero_error *error)
{
    double before = train->run.evals.best;
    zero_status status = zr_train_save_model(train, ZR_BEST_MODEL, error);
    if (zr_train_is_fatal(status))
        return status;
    const char *failure = status == ZERO_OK ? "" : error->message;
    if (status != ZERO_OK && strcmp(failure, train->run.evals.failure))
        zr_log(&train->logger, ZERO_LOG_ERROR,
               "step %lld: the best model so far is not written, the run goes on%s: %s",
               (long long)step, isfinite(before) ? " and the one before it stays" : "", failure);
    snprintf(train->run.evals.failure, sizeof train->run.evals.failure, "%s", failure);
    train->run.evals.best = status == ZERO_OK ? loss : before;
    return ZERO_OK;
}

// Writes what was read, in words.
static void describe_evaluated_text(int64_t batches, int64_t windows, char *out, size_t size)
{
    if (batches > 0)
        snprintf(out, size, "%lld window%s", (long long)windows, windows == 1 ? "" : "s");
    else
        snprintf(out, size, ALL_OF_IT);
}

// Reports an evaluation as a line of metrics.jsonl, a point of a curve and an event. All points of
// a curve read the same part of the text, so an evaluation of all of it is only in metrics.jsonl.
static void report_evaluation(loop *l, int64_t step, int64_t batches,
                              const zr_windows_result *result, bool best)
{
    zero_error error = {0};
    zr_train_run *run = &l->train->run;
    char text[sizeof run->evals.text];
    describe_evaluated_text(batches, result->windows, text, sizeof text);
    const zr_metrics_eval line = {step,           result->loss,
                                  result->pairs,  result->accuracy,
                                  result->margin, l->train->subject.model_config.labels.count > 0};
    if (run->outputs.metrics)
        report_lost_line(l->train, step, zr_metrics_eval_write(run->outputs.metrics, &line, &error),
                         &error);
    if (batches == l->between.eval_batches) {
        zr_observation_evaluated(run->observed, step, result->loss);
        snprintf(run->evals.text, sizeof run->evals.text, "%s", text);
    }
    const zero_event event = {
        .kind = ZERO_EVENT_EVAL,
        .step = step,
        .total_steps = l->train->resolved.steps,
        .loss = result->loss,
        .is_best = best,
        .text = text,
        .pairs = result->pairs,
        .accuracy = result->accuracy,
        .margin = result->margin,
    };
    zr_train_tell(l->train, &event);
}

// Evaluates the model. Only evaluations that read the same part of the text decide which is best.
static zero_status evaluate_model(loop *l, int64_t step, int64_t batches, zero_error *error)
{
    zr_train *train = l->train;
    zr_windows_result result;
    const zr_windows_leave leave = {wants_to_leave, train};
    zr_run_clock *clock = &train->run.clock;
    zr_time_part before = zr_run_clock_turn(clock, ZR_TIME_EVALUATION);
    double had = clock->seconds[ZR_TIME_EVALUATION];
    ZERO_TRY(zr_windows_loss(train->run.engine, &train->subject.val, l->micro_batch, batches,
                             &leave, &result, error));
    if (!result.tokens)
        result.loss = NAN; // there is none, and none that could be the best
    zr_run_clock_turn(clock, before);
    l->left = result.left;
    if (l->left) { // what is predicted is a whole one
        double taken = clock->seconds[ZR_TIME_EVALUATION] - had;
        zr_run_clock_move(clock, ZR_TIME_EVALUATION, ZR_TIME_REST, taken);
        return ZERO_OK;
    }
    zr_train_count_evaluation(train, result.windows);
    zr_train_evals *evals = &train->run.evals;
    bool decides = batches == l->between.eval_batches, best = decides && result.loss < evals->best;
    if (decides && isfinite(evals->best)) {
        evals->equalled = evals->equalled || result.loss == evals->best;
        evals->differed = evals->differed || result.loss != evals->best;
    }
    report_evaluation(l, step, batches, &result, best);
    train->run.evals.last = result.loss;
    return best ? keep_best(train, step, result.loss, error) : ZERO_OK;
}

// Does what comes between two steps: evaluation and sample. The last step is always evaluated. If
// the run is to end during the evaluation it is saved, and does all of this again when it resumes.
static zero_status between_steps(loop *l, int64_t step, zero_error *error)
{
    const zero_train_options *options = l->train->asked.options;
    // A replay must end with the state that was saved.
    bool last = step == l->train->resolved.steps && !l->train->asked.replay_to;
    if (last)
        ZERO_TRY(zero_finish_update(l->train->run.engine, error));
    if (l->between.eval_every > 0 && (last || step % l->between.eval_every == 0))
        ZERO_TRY(evaluate_model(l, step, l->between.eval_batches, error));
    if (l->left)
        return zr_train_save_and_stop(l->train, step, true, error);
    if (zr_train_makes_samples(l->train) && step % options->sample_every == 0)
        ZERO_TRY(zr_train_sample(l->train, step, error));
    return ZERO_OK;
}

// Returns what this rank wants after a step; `stop` is the caller's answer on rank 0.
static verdict choose_verdict(zr_train *train, int64_t step, int stop)
{
    if (stop)
        return STOP;
    if (wants_to_leave(train))
        return LEAVE;
    return train->comm->rank == 0 && zr_train_wants_checkpoint(train, step) ? SAVE : GO_ON;
}

// Takes down what was exchanged and moved before the steps, and reads their rows.
static zero_status begin_steps(loop *l, int64_t steps, zero_error *error)
{
    zr_train_run *run = &l->train->run;
    zero_traffic_report(run->engine, &l->before);
    for (zero_axis axis = 0; axis < ZERO_AXIS_COUNT; axis++)
        zr_engine_traffic(run->engine, axis, &l->groups_before[axis]);
    zr_engine_job_traffic(run->engine, &l->job_before);
    zero_io_report(run->engine, &l->io_before);
    zr_run_clock_turn(&run->clock, ZR_TIME_DATA);
    ZERO_TRY(read_rows(l, steps, error));
    zr_run_clock_turn(&run->clock, ZR_TIME_COMPUTE);
    return ZERO_OK;
}

// Agrees with all ranks on what follows the step.
static zero_status agree_on_verdict(zr_train *train, int64_t step, int stop, int64_t *out,
                                    zero_error *error)
{
    *out = choose_verdict(train, step, stop);
    ZERO_TRY(zr_comm_agree_on_largest(train->comm, out, error));
    if (*out == STOP)
        return zr_fail(error, ZERO_ERR_CANCELLED, "cancelled after step %lld of %lld",
                       (long long)step, (long long)train->resolved.steps);
    return ZERO_OK;
}

static zero_status follow_verdict(loop *l, int64_t step, int64_t verdict, zero_error *error)
{
    zr_train *train = l->train;
    bool last = step == train->resolved.steps;
    // Without more to do the run ends as usual.
    bool more = step < train->resolved.steps || l->between.eval_every > 0;
    if (verdict == LEAVE && more)
        return zr_train_save_and_stop(train, step, true, error);
    if (last)
        ZERO_TRY(zr_train_save_last(train, step, verdict == SAVE, error));
    ZERO_TRY(between_steps(l, step, error));
    return verdict == SAVE && !last ? zr_train_begin_checkpoint(train, step, error) : ZERO_OK;
}

// Reports a step that was made; *stop is set if the caller wants the run to end.
static zero_status check_and_report_step(loop *l, zero_step_info *info, bool last,
                                         double milliseconds, int *stop, zero_error *error)
{
    zr_train *train = l->train;
    ZERO_TRY(zr_train_check_step(train, info, last, error));
    zr_train_mark_idle_step(train, info);
    if (train->comm->rank == 0 && report_step(l, info, last, milliseconds))
        *stop = 1;
    l->previous_loss = isnan(info->loss) ? l->previous_loss : info->loss;
    return info->step == train->resolved.profiled.last ? zr_train_profile_write(train, error)
                                                       : ZERO_OK;
}

// Makes the next steps, up to where a pipeline drains: one, unless its schedule is asynchronous.
// *step: made before.
static zero_status run_window(loop *l, int64_t *step, int64_t end, zero_error *error)
{
    zr_train_run *run = &l->train->run;
    int64_t verdict, steps = ZR_MIN(l->window - *step % l->window, end - *step);
    int stop = 0;
    double begin = zr_clock_seconds();
    ZERO_TRY(begin_steps(l, steps, error));
    ZERO_TRY(zero_train_window(run->engine, l->batches, steps, l->infos, error));
    zr_run_clock_end_steps(&run->clock, steps);
    double seconds = zr_clock_seconds() - begin, milliseconds = seconds * 1e3 / (double)steps;
    run->longest_step = fmax(run->longest_step, seconds);
    for (int64_t i = 0; i < steps; i++)
        ZERO_TRY(
            check_and_report_step(l, &l->infos[i], i == steps - 1, milliseconds, &stop, error));
    *step += steps;
    ZERO_TRY(agree_on_verdict(l->train, *step, stop, &verdict, error));
    return follow_verdict(l, *step, verdict, error);
}

// Forgets the best loss if it was measured over other windows, because the two do not compare.
static void forget_incomparable_best(zr_train *train, int64_t windows)
{
    bool other = isfinite(train->run.evals.best) && train->run.evals.best_windows &&
                 train->run.evals.best_windows != windows;
    if (other)
        zr_log(&train->logger, ZERO_LOG_INFO,
               "resume   the best model so far was chosen by %lld windows of the held-out text, "
               "this run reads %lld: it is replaced by the first one of this run",
               (long long)train->run.evals.best_windows, (long long)windows);
    train->run.evals.best = other ? INFINITY : train->run.evals.best;
    train->run.evals.best_windows = windows;
}

static void plan_evaluations(loop *l)
{
    zr_train *train = l->train;
    int64_t asked = train->asked.options->eval_every;
    if (!train->subject.val.count || asked < 0 || train->asked.options->dry_run)
        return;
    l->between.eval_every =
        asked ? asked : ZR_ROUND_UP(ZR_MAX(train->resolved.steps / EVALUATIONS, 1), l->window);
    int64_t trained = l->between.eval_every * zr_engine_config(train->run.engine)->train_batch;
    l->between.eval_batches = ZR_MAX(trained / EVAL_SHARE / l->micro_batch, 1);
    if (l->between.eval_batches * l->micro_batch >= zr_dataset_eval_windows(&train->subject.val))
        l->between.eval_batches = 0;
    forget_incomparable_best(train, l->between.eval_batches
                                        ? l->between.eval_batches * l->micro_batch
                                        : zr_dataset_eval_windows(&train->subject.val));
}

static zero_status run_loop_steps(loop *l, zero_error *error)
{
    zr_train *train = l->train;
    zero_event start = {.kind = ZERO_EVENT_START,
                        .total_steps = train->resolved.steps,
                        .print_every = zr_engine_config(train->run.engine)->steps_per_print};
    zr_train_tell(train, &start);
    int64_t end = train->asked.replay_to ? train->asked.replay_to : train->resolved.steps;
    if (train->run.owed) {
        train->run.owed = false;
        zr_observation_owes(train->run.observed);
        ZERO_TRY(between_steps(l, train->run.first_step, error));
    }
    for (int64_t step = train->run.first_step; step < end;)
        ZERO_TRY(run_window(l, &step, end, error));
    ZERO_TRY(zr_train_end_checkpoint(train, error));
    if (l->between.eval_batches > 0) // so far only parts of the held-out text were read
        ZERO_TRY(evaluate_model(l, train->resolved.steps, 0, error));
    return l->left ? zr_train_save_and_stop(train, train->resolved.steps, false, error) : ZERO_OK;
}

zero_status zr_train_loop(zr_train *train, zero_error *error)
{
    zero_engine *engine = train->run.engine;
    loop l = {.train = train,
              .micro_batch = zr_engine_config(engine)->micro_batch,
              .window = zero_window(engine)};
    size_t count = (size_t)(l.window * zero_accumulation(engine));
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_BEGIN);
    zr_run_clock_start(&train->run.clock);
    plan_evaluations(&l);
    zr_train_tell_length(train, &l.between);
    zero_status status =
        zr_windows_alloc(&train->subject.data, (int64_t)count * l.micro_batch, &l.rows, error);
    l.batches = zr_alloc(count * sizeof *l.batches, error);
    l.infos = zr_alloc((size_t)l.window * sizeof *l.infos, error);
    if (status == ZERO_OK)
        status = l.batches && l.infos ? run_loop_steps(&l, error) : ZERO_ERR_MEMORY;
    int64_t step;
    zero_position(engine, &step, NULL);
    zr_train_warn_idle(train, step - train->run.first_step);
    zr_windows_free(&l.rows);
    zr_free(l.batches);
    zr_free(l.infos);
    return status;
}
