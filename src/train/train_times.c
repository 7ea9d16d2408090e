// What a training logs of its own time at its end, and adds to the book of rates.
#include "checkpoint/run_directory.h"
#include "comm/agreement.h"
#include "engine/rank_grid.h"
#include "predict/rates.h"
#include "setup/machine_facts.h"
#include "train/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// A run teaches how long operations take from this many steps on, after the first ones;
enum { ENOUGH_STEPS = 4 };
// from this many on, how long ranks wait, and corrections, unless its steps or operations differ so
// much that other programs must have disturbed it;
enum { STEADY_STEPS = 8 };
static const double MOST_SPREAD = 0.25, MOST_INTERRUPTED = 0.25, LEAST_QUIET = 0.85;
// corrections, unless more than this part of its prediction was guessed, by parts that take at
// least this share of a step.
static const double MOST_GUESSED = 0.1, LEAST_SHARE = 0.01;

// Returns whether ranks exchange with other machines.
static bool spans_machines(const zr_train *train)
{
    return zr_local_ranks(train->comm) < train->comm->size;
}

// Has exchanges measured as those of the network, if all are of one group and none overlaps.
static void measure_links(const zr_train *train, zr_measured *measured)
{
    const zero_comm *comm = train->comm;
    const zr_plan *plan = zr_engine_plan(train->run.engine);
    int together = comm->size - comm->strangers;
    measured->across = spans_machines(train);
    if (!measured->across || measured->overlaps || comm->strangers < 1 || plan->pipeline ||
        plan->tensor_ranks > 1 || plan->settings.weight_bits || plan->settings.gradient_bits)
        return; // what widens and sums codes is no exchange of others
    measured->reach = (zr_reach){.size = comm->size,
                                 .strangers = comm->strangers,
                                 .fetches = comm->fetches,
                                 .even = comm->even};
    measured->one_copy = plan->holding == ZR_HOLDS_SHARDS && plan->machine_ranks > 1;
    for (int i = 0; i < ZR_COUNT(measured->links); i++)
        measured->links[i].setting =
            zr_link_setting((comm->size + together - 1) / together, together, i > 0);
}

zero_status zr_train_measure(zr_train *train, zero_error *error)
{
    const zero_engine *engine = train->run.engine;
    if (train->asked.replay_to)
        return ZERO_OK;
    zr_measured *measured = zr_alloc(sizeof *measured, error);
    if (!measured)
        return ZERO_ERR_MEMORY;
    measured->rates.setting = zr_rate_setting_of(engine);
    measured->overlaps = zr_engine_grid(engine)->data->comm_thread != NULL;
    measure_links(train, measured);
    train->run.measured = measured;
    return ZERO_OK;
}

void zr_train_count_evaluation(zr_train *train, int64_t windows)
{
    const zr_config *config = zr_engine_config(train->run.engine);
    int64_t at_once = config->micro_batch * config->ranks;
    train->run.evals.calls++;
    train->run.evals.micro_batches += (windows + at_once - 1) / at_once;
}

typedef struct recorded {        // what the records of a rank say
    double parts[ZR_TIME_PARTS]; // seconds of a step
    double interrupted;          // zr_measured_interrupted
} recorded;

// Finds the records of the busiest rank, for which the others wait. Collective.
static zero_status find_recorded(const zr_train *train, recorded *out, zero_error *error)
{
    zero_comm *comm = train->comm;
    const zr_measured *measured = train->run.measured;
    double steps = (double)ZR_MAX(measured->steps, 1);
    *out = (recorded){.interrupted = zr_measured_interrupted(measured)};
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        out->parts[part] = measured->seconds[part] / steps;
    double seconds = out->parts[ZR_TIME_COMPUTE] + out->parts[ZR_TIME_UPDATE];
    int64_t busy = (int64_t)(seconds * 1e9), most = busy;
    ZERO_TRY(zr_comm_agree_on_largest(comm, &most, error));
    int64_t first = busy == most ? comm->rank : comm->size;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &first, 1, ZERO_I64, ZR_MIN, error));
    return zr_comm_broadcast(comm, out, (int64_t)sizeof *out, (int)first, error);
}

static double flops_of_step(const zr_train *train)
{
    const zero_engine *engine = train->run.engine;
    double tokens = (double)(zr_engine_config(engine)->train_batch * train->resolved.seq);
    return tokens * zr_flops_of_token(zr_engine_plan(engine));
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
// setting; 0 if none was seen.
static double product_rate(const zr_measured *measured, const zr_rate_book *known)
{
    bool exact;
    const zr_rates *rates = zr_rate_book_find(known, &measured->rates.setting, &exact);
    return fmax(best_product(&measured->rates), rates && exact ? best_product(rates) : 0);
}

// Returns what the run's evaluations were predicted to take, without a correction; 0: unknown. Each
// begins with a first micro-batch, and in a pipeline later ones take less.
static double predicted_evaluation(const zr_train *train)
{
    const double *of = train->resolved.evaluations;
    const zr_train_evals *evals = &train->run.evals;
    return (double)evals->calls * of[0] +
           (double)(evals->micro_batches - evals->calls) * (of[1] - of[0]);
}

static void take_forecast(zr_run_times *times, const zr_train *train, const zr_rate_book *known)
{
    const zr_forecast *forecast = &train->resolved.forecast;
    if (zr_forecast_is_unknown(forecast))
        return;
    times->predicted_step = forecast->seconds;
    times->low = forecast->low;
    times->high = forecast->high;
    memcpy(times->predicted, forecast->parts, sizeof times->predicted);
    double factor = zr_correction_factor(&known->corrections[ZR_TIME_EVALUATION]);
    times->predicted[ZR_TIME_EVALUATION] = predicted_evaluation(train) *
                                           (spans_machines(train) ? 1 : factor) *
                                           train->resolved.busy.slowdown;
}

// Returns which part of its turns this rank had: others had the rest.
static double share_of_turns(const zr_train *train)
{
    const zr_turns now = zr_turns_now();
    return zr_turns_quiet(&train->run.turns, &now);
}

static zr_run_times make_run_times(const zr_train *train, const recorded *recorded,
                                   const zr_rate_book *known)
{
    const zr_measured *measured = train->run.measured;
    zr_run_times times = {
        .setting = measured->rates.setting,
        .ranks = train->comm->size,
        .first_step = train->run.first_step,
        .quiet = share_of_turns(train),
        .interrupted = recorded->interrupted,
        .flops = flops_of_step(train),
        .adapts = train->subject.model_config.lora.rank > 0,
        .product_rate = train->comm->size * product_rate(measured, known),
    };
    zr_run_times_take(&times, &train->run.clock);
    zr_run_times_divide(&times, recorded->parts);
    take_forecast(&times, train, known);
    zr_run_tasks_take(&train->run.tasks, &times);
    times.predicted[ZR_TIME_GENERATION] = zr_train_predict_samples(train, known);
    return times;
}

static void log_times(const zr_train *train, const zr_run_times *times)
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
static void write_times_file(const zr_train *train, const zr_run_times *times)
{
    zero_error error = {0};
    const zero_train_options *options = train->asked.options;
    if (options->dry_run)
        return;
    char *path = zr_sprintf(&error, "%s/" ZR_TIMES_FILE, options->out_dir);
    if (!path || zr_run_times_write(times, path, &train->logger, &error) != ZERO_OK)
        zr_log(&train->logger, ZERO_LOG_WARNING, "the times of the run are not kept: %s",
               error.message);
    zr_free(path);
}

// Adds how far the prediction was off the median step: for each part without its correction, for
// the whole with the new corrections of the parts, so that nothing is learnt twice. Steps with a
// network in them correct no step without one.
static void learn_corrections(const zr_train *train, const zr_run_times *times,
                              const zr_rate_book *known, zr_rate_book *found)
{
    const zr_forecast *forecast = &train->resolved.forecast;
    double least = LEAST_SHARE * times->median, usual = times->median / times->step, corrected = 0;
    for (int part = 0; part <= ZR_TIME_DISK; part++) {
        double predicted = forecast->plain[part], measured = usual * times->measured[part];
        zr_correction after = known->corrections[part];
        bool of_network = part == ZR_TIME_EXCHANGE && spans_machines(train);
        if (predicted >= least && measured >= least && !of_network) {
            zr_correction_learn(&found->corrections[part], predicted, measured);
            zr_correction_learn(&after, predicted, measured);
        }
        corrected += predicted * zr_correction_factor(&after);
    }
    if (spans_machines(train))
        return;
    zr_correction_learn(&found->whole, corrected, times->median);
    zr_correction_learn(&found->corrections[ZR_TIME_EVALUATION], predicted_evaluation(train),
                        times->measured[ZR_TIME_EVALUATION]);
}

// Adds how long this rank waited for others in a step, and how long it was busy, if all ranks do
// the same and nothing overlaps.
static void teach_waits(const zr_train *train, zr_rates *rates)
{
    const zr_measured *measured = train->run.measured;
    double seconds = -measured->waits, steps = (double)ZR_MAX(measured->steps, 1);
    if (measured->overlaps || measured->across || zr_engine_plan(train->run.engine)->pipeline)
        return;
    for (int part = 0; part <= ZR_TIME_DISK; part++)
        seconds += measured->seconds[part];
    zr_rates_add(rates, ZR_ACTIVITY_wait, (int64_t)(seconds / steps * 1e9), 0,
                 measured->waits / steps, 1);
}

// Returns whether there were enough steps and nothing has disturbed them.
static bool is_steady(const zr_train *train, const zr_run_times *times)
{
    return zr_run_clock_warm_steps(&train->run.clock) >= STEADY_STEPS &&
           times->spread <= MOST_SPREAD && times->interrupted <= MOST_INTERRUPTED &&
           times->quiet >= LEAST_QUIET;
}

// Says whether this rank's operations are to be learnt: one rank of each pipeline stage teaches,
// because the others do the same.
static bool teaches_steps(const zr_train *train)
{
    const zr_mesh *mesh = &zr_engine_grid(train->run.engine)->mesh;
    return zr_run_clock_warm_steps(&train->run.clock) >= ENOUGH_STEPS &&
           mesh->place[ZERO_AXIS_data] == 0 && mesh->place[ZERO_AXIS_tensor] == 0;
}

// Adds what the first rank has seen of the network.
static void teach_links(const zr_train *train)
{
    zr_measured *measured = train->run.measured;
    const zr_rate_book found = {.settings = measured->links, .count = ZR_COUNT(measured->links)};
    if (measured->reach.strangers == 0 || train->comm->rank > 0)
        return;
    for (int i = 0; i < found.count; i++)
        found.settings[i].measured = (int64_t)time(NULL);
    zr_rate_book_keep(&found, &train->logger);
}

// times: NULL on ranks above 0.
static void teach_steps(const zr_train *train, const zr_run_times *times, const zr_rate_book *known,
                        zr_rate_book *found)
{
    zr_rates *rates = &train->run.measured->rates;
    const zr_forecast *forecast = &train->resolved.forecast;
    found->settings = rates;
    found->count = 1;
    rates->measured = (int64_t)time(NULL);
    rates->quiet = share_of_turns(train);
    bool steady = times && is_steady(train, times);
    if (steady)
        teach_waits(train, rates);
    if (steady && forecast->seconds > 0 && forecast->unknown <= MOST_GUESSED)
        learn_corrections(train, times, known, found);
}

// Adds what the run has shown to the user's book of rates. Tasks (loading, saving, evaluation) are
// learnt only from single-machine runs. times: NULL on ranks above 0.
static void teach_rates(const zr_train *train, const zr_run_times *times, const zr_rate_book *known)
{
    bool steps = teaches_steps(train), tasks = times && !spans_machines(train);
    zr_rate_book found = {0};
    // What is known by the processor's name is not of a card.
    if (zr_device_is_far(zr_engine_queue(train->run.engine)->device))
        return;
    if (train->asked.options->no_learn || (!steps && !tasks))
        return;
    if (steps)
        teach_steps(train, times, known, &found);
    if (tasks && !train->asked.options->dry_run) {
        const zr_task_subject subject = zr_train_task_subject(train);
        zr_run_tasks_teach(&train->run.tasks, times, &subject, &found.tasks);
    }
    zr_rate_book_keep(&found, &train->logger);
    if (steps)
        teach_links(train);
}

zero_status zr_train_tell_times(zr_train *train, zero_error *error)
{
    recorded recorded;
    zr_rate_book known = {0};
    zr_run_times times;
    bool first = train->comm->rank == 0;
    zr_run_clock_turn(&train->run.clock, ZR_TIME_REST);
    ZERO_TRY(find_recorded(train, &recorded, error));
    if (first) {
        zr_rate_book_read(NULL, &known);
        times = make_run_times(train, &recorded, &known);
        log_times(train, &times);
        write_times_file(train, &times);
    }
    teach_rates(train, first ? &times : NULL, &known);
    zr_rate_book_free(&known);
    return ZERO_OK;
}
