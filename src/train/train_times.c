// What a training says of its own time at its end, and what it teaches the book of rates.
#include "comm/agree.h"
#include "engine/rank_grid.h"
#include "setup/machine_facts.h"
#include "train/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// A run teaches from so many steps on, after the first ones; the corrections, unless more than this
// part of its prediction was guessed, by parts that take at least this share of a step.
enum { ENOUGH_STEPS = 8 };
static const double MOST_GUESSED = 0.1, LEAST_SHARE = 0.01;

zero_status zr_train_measure(zr_train *train, zero_error *error)
{
    const zero_engine *engine = train->run.engine;
    if (train->asked.replay_to)
        return ZERO_OK;
    zr_measured *measured = zr_alloc(sizeof *measured, error);
    if (!measured)
        return ZERO_ERR_MEMORY;
    zr_rate_setting *setting = &measured->rates.setting;
    setting->dtype = zr_engine_config(engine)->dtype;
    setting->threads = train->resolved.threads.count;
    setting->together = zr_local_ranks(train->comm);
    snprintf(setting->path, sizeof setting->path, "%s", zr_engine_queue(engine)->backend->path());
    measured->overlaps = zr_engine_grid(engine)->data->courier != NULL;
    train->run.measured = measured;
    return ZERO_OK;
}

// Computes the mean seconds of the parts of a step on the rank that is busiest, for which the
// others wait. Collective.
static zero_status find_parts(const zr_train *train, double parts[ZR_TIME_PARTS], zero_error *error)
{
    zero_comm *comm = train->comm;
    const zr_measured *measured = train->run.measured;
    double steps = (double)ZR_MAX(measured->steps, 1);
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        parts[part] = measured->seconds[part] / steps;
    int64_t busy = (int64_t)((parts[ZR_TIME_COMPUTE] + parts[ZR_TIME_UPDATE]) * 1e9), most = busy;
    ZERO_TRY(zr_comm_agree_on_largest(comm, &most, error));
    int64_t first = busy == most ? comm->rank : comm->size;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &first, 1, ZERO_I64, ZR_MIN, error));
    return zr_comm_broadcast(comm, parts, ZR_TIME_PARTS * (int64_t)sizeof *parts, (int)first,
                             error);
}

// Returns the FLOPs of a step of all ranks, as PaLM counts them: 6 a parameter and token, and of
// attention 12 a layer, channel and position, as if it were not causal.
static double flops_of(const zr_train *train)
{
    const zr_lm_shape *shape = &train->subject.shape;
    double seq = (double)train->resolved.seq, channels = (double)(shape->heads * shape->head_dim),
           tokens = (double)zr_engine_config(train->run.engine)->train_batch * seq;
    return tokens *
           (6 * (double)train->subject.parameters + 12 * (double)shape->layers * channels * seq);
}

static double best_product(const zr_rates *rates)
{
    double best = 0;
    for (int i = 0; i < rates->count[ZR_ACTIVITY_product]; i++) {
        const zr_rate_sample *sample = &rates->at[ZR_ACTIVITY_product][i];
        best = fmax(best, (double)sample->flops / sample->seconds);
    }
    return best;
}

// Returns the FLOP/s of the fastest product that this run or an earlier one has seen with its
// setting; 0: none has.
static double product_rate(const zr_measured *measured, const zr_rate_book *known)
{
    bool exact;
    const zr_rates *rates = zr_rate_book_find(known, &measured->rates.setting, &exact);
    return fmax(best_product(&measured->rates), rates && exact ? best_product(rates) : 0);
}

static void take_forecast(zr_run_times *times, const zr_forecast *forecast)
{
    if (!(forecast->seconds > 0))
        return;
    times->predicted_step = forecast->seconds;
    times->low = forecast->low;
    times->high = forecast->high;
    memcpy(times->predicted, forecast->parts, sizeof times->predicted);
}

static zr_run_times times_of(const zr_train *train, const double parts[ZR_TIME_PARTS],
                             const zr_rate_book *known)
{
    const zr_measured *measured = train->run.measured;
    zr_run_times times = {
        .setting = measured->rates.setting,
        .ranks = train->comm->size,
        .first_step = train->run.first_step,
        .flops = flops_of(train),
        .product_rate = train->comm->size * product_rate(measured, known),
    };
    zr_run_times_take(&times, &train->run.clock);
    zr_run_times_divide(&times, parts);
    take_forecast(&times, &train->resolved.forecast);
    return times;
}

static void say(const zr_train *train, const zr_run_times *times)
{
    zr_buffer text = {0};
    zr_run_times_text(times, &text);
    for (char *line = text.failed ? NULL : text.data, *end; line && *line; line = end + 1) {
        end = strchr(line, '\n');
        *end = 0;
        zr_log(&train->logger, ZERO_LOG_INFO, "%s", line);
    }
    zr_buffer_free(&text);
}

// Writes them down. If that fails, the run has not failed.
static void keep(const zr_train *train, const zr_run_times *times)
{
    zero_error error = {0};
    const zero_train_options *options = train->asked.options;
    if (options->dry_run)
        return;
    if (zr_run_times_write(times, options->out_dir, &train->logger, &error) != ZERO_OK)
        zr_log(&train->logger, ZERO_LOG_WARNING, "the times of the run are not kept: %s",
               error.message);
}

// Adds what the prediction was off by: of each part without its correction, of the whole with
// those of the parts.
static void correct(const zr_run_times *times, const zr_forecast *forecast,
                    const zr_rate_book *known, zr_rate_book *found)
{
    double least = LEAST_SHARE * times->step;
    for (int part = 0; part <= ZR_TIME_DISK; part++)
        if (forecast->plain[part] >= least && times->measured[part] >= least)
            zr_correction_learn(&found->corrections[part], forecast->plain[part],
                                times->measured[part]);
    zr_correction_learn(&found->whole, forecast->seconds / zr_correction_factor(&known->whole),
                        times->step);
}

// Says whether this rank's operations are to be learnt: one rank of each pipeline stage teaches,
// because the others do the same.
static bool teaches(const zr_train *train)
{
    const zr_mesh *mesh = &zr_engine_grid(train->run.engine)->mesh;
    return !train->asked.options->no_learn &&
           zr_run_clock_warm_steps(&train->run.clock) >= ENOUGH_STEPS &&
           mesh->place[ZERO_AXIS_data] == 0 && mesh->place[ZERO_AXIS_tensor] == 0;
}

// times: NULL on ranks above 0.
static void teach(const zr_train *train, const zr_run_times *times, const zr_rate_book *known)
{
    zr_rates *rates = &train->run.measured->rates;
    const zr_forecast *forecast = &train->resolved.forecast;
    zr_rate_book found = {.settings = rates, .count = 1};
    rates->measured = (int64_t)time(NULL);
    if (times && forecast->seconds > 0 && forecast->unknown <= MOST_GUESSED)
        correct(times, forecast, known, &found);
    zr_rate_book_keep(&found, &train->logger);
}

zero_status zr_train_tell_times(zr_train *train, zero_error *error)
{
    double parts[ZR_TIME_PARTS];
    zr_rate_book known = {0};
    zr_run_times times;
    bool first = train->comm->rank == 0;
    zr_run_clock_turn(&train->run.clock, ZR_TIME_REST);
    ZERO_TRY(find_parts(train, parts, error));
    if (first) {
        zr_rate_book_read(NULL, &known);
        times = times_of(train, parts, &known);
        say(train, &times);
        keep(train, &times);
    }
    if (teaches(train))
        teach(train, first ? &times : NULL, &known);
    zr_rate_book_free(&known);
    return ZERO_OK;
}
