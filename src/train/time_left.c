// How long the rest of a training takes: by its own measurements, or by predictions where it has
// measured nothing yet.
#include "base/text.h"
#include "layers/layers.h"
#include "train/training.h"

#include <math.h>

// The length of a run follows from its pace after this many steps;
enum { TELLING_STEPS = 4 };
// a prediction is corrected in the log if it is off by more than this factor.
static const double MOST_OFF = 1.5;
enum { TOKENS_OF_A_SAMPLE = 200 };

static double measured_or_predicted(double measured, int64_t count, double predicted)
{
    return count > 0 && measured > 0 ? measured / (double)count : predicted;
}

static double mean_of_task(const zr_train *train, zr_task task)
{
    const zr_run_tasks *tasks = &train->run.tasks;
    return measured_or_predicted(tasks->seconds[task], tasks->calls[task], tasks->expected[task]);
}

// Returns the micro-batches of a rank in an evaluation of `windows` windows.
static int64_t micro_batches_of(const zr_train *train, int64_t windows)
{
    const zr_config *config = zr_engine_config(train->run.engine);
    int64_t at_once = config->micro_batch * config->ranks;
    return (windows + at_once - 1) / at_once;
}

static void count_evaluations(const zr_train *train, const zr_train_between *between, int64_t step,
                              zr_work_left *out)
{
    int64_t steps = train->resolved.steps, all = 0, part = 0;
    if (between->eval_every <= 0)
        return;
    int64_t evaluations = zr_run_multiples(step, steps, between->eval_every) +
                          (step < steps && steps % between->eval_every ? 1 : 0);
    all = micro_batches_of(train, zr_dataset_eval_windows(&train->subject.val));
    part = between->eval_batches > 0
               ? micro_batches_of(train, between->eval_batches *
                                             zr_engine_config(train->run.engine)->micro_batch)
               : all;
    out->micro_batches.count = evaluations * part + (between->eval_batches > 0 ? all : 0);
    out->models.count += evaluations; // each may find the best model so far
}

static void count_saves(const zr_train *train, int64_t step, zr_work_left *out)
{
    const zero_train_options *options = train->asked.options;
    int64_t steps = train->resolved.steps;
    if (options->dry_run)
        return;
    int64_t by_steps = zr_run_multiples(step, steps - 1, options->save_every),
            by_time = options->save_seconds > 0
                          ? (int64_t)((double)out->steps.count * out->steps.seconds /
                                      options->save_seconds)
                          : 0;
    out->checkpoints.count = by_steps + by_time + (options->no_final_checkpoint ? 0 : 1);
    out->models.count++;
}

// step: seconds of one.
static double seconds_left(const zr_train *train, const zr_train_between *between, int64_t after,
                           double step)
{
    const zr_run_clock *clock = &train->run.clock;
    const zr_overheads *overheads = &train->resolved.overheads;
    int64_t steps = train->resolved.steps,
            every = zr_train_makes_samples(train) ? train->asked.options->sample_every : 0,
            made = zr_run_multiples(train->run.first_step, after - 1, every);
    // Without a measurement: backward takes twice as long as forward, which is an evaluation.
    double forward = step / (3 * (double)zero_accumulation(train->run.engine));
    zr_work_left work = {
        .steps = {steps - after, step},
        .micro_batches.seconds = measured_or_predicted(
            clock->seconds[ZR_TIME_EVALUATION], train->run.evals.micro_batches,
            overheads->micro_batch > 0 ? overheads->micro_batch : forward),
        .checkpoints.seconds = mean_of_task(train, ZR_TASK_CHECKPOINT),
        .models.seconds = mean_of_task(train, ZR_TASK_MODEL),
        .samples = {zr_run_multiples(after, steps, every),
                    measured_or_predicted(clock->seconds[ZR_TIME_GENERATION], made,
                                          TOKENS_OF_A_SAMPLE * overheads->token)},
    };
    count_evaluations(train, between, after, &work);
    count_saves(train, after, &work);
    return zr_work_left_seconds(&work);
}

double zr_train_seconds_left(const zr_train *train, const zr_train_between *between, int64_t step)
{
    return seconds_left(train, between, step, zr_run_pace_step(&train->run.pace));
}

void zr_train_tell_length(zr_train *train, const zr_train_between *between)
{
    const zr_forecast *forecast = &train->resolved.forecast;
    char text[ZR_LENGTH_TEXT] = "not known before the first steps", busy[ZR_BUSY_TEXT];
    if (train->comm->rank > 0 || train->asked.replay_to)
        return;
    train->run.length =
        zr_forecast_is_unknown(forecast)
            ? 0
            : seconds_left(train, between, train->run.first_step, forecast->seconds);
    if (train->run.length > 0)
        zr_length_text(train->run.length, time(NULL), zr_forecast_is_rough(forecast), text);
    zr_busy_text(&train->resolved.busy, busy);
    zr_log(&train->logger, ZERO_LOG_INFO, "predict  the whole run: %s%s%s", text,
           busy[0] ? "; " : "", busy);
}

void zr_train_correct_length(zr_train *train, const zr_train_between *between, int64_t step)
{
    const zr_run_pace *pace = &train->run.pace;
    char text[ZR_LENGTH_TEXT];
    if (pace->steps != TELLING_STEPS || step >= train->resolved.steps || train->asked.replay_to)
        return;
    double left = zr_train_seconds_left(train, between, step), before = train->run.length,
           made = (double)(step - train->run.first_step) * zr_run_pace_step(pace),
           off = before > 0 ? fabs(log((left + made) / before)) : INFINITY;
    if (off <= log(MOST_OFF))
        return;
    zr_length_text(left, time(NULL), false, text);
    zr_log(&train->logger, ZERO_LOG_INFO,
           "step %lld: the rest of the run: %s, by the steps so far (%.1f ms)", (long long)step,
           text, 1e3 * zr_run_pace_step(pace));
}
