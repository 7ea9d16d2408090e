#include "base/clock.h"
#include "base/numbers.h"
#include "base/random.h"
#include "tune/tuning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_FINALISTS = 5,
    LEAST_FINALISTS = 3,
    MOST_OF_A_GRID = 3, // finalists
    MOST_OF_A_MICRO_BATCH = 2,
    SKIPPED = 2, // steps of a trial that are not measured
    LEAST_STEPS = 3,
    MOST_STEPS = 40,
    SHUFFLE_SEED = 1337,
};

#define TRIAL_SECONDS 2.0 // of measured steps
#define SPARE_SECONDS 30.0
#define USUAL_START 5.0 // seconds until a first step, before any trial has shown them
#define MOST_START 600.0
#define SLOW_STEP 2.0 // seconds from which one step of a trial suffices
// A candidate that is not plain has to be faster by this factor.
#define LEAST_GAIN 1.02
// A candidate on another number of ranks is measured if its predicted step is within this factor.
#define FAR_BEHIND 1.5

// ---- choosing the finalists

typedef struct ranked { // a candidate, to be sorted
    double cost;
    const zr_run_candidate *candidate;
} ranked;

static int compare_costs(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    return x->candidate < y->candidate ? -1 : 1;
}

static double cost_of_candidate(const zr_tuning *t, const zr_run_candidate *c)
{
    return zr_candidate_cost(c, t->settings.metric);
}

static double cost_at(const zr_tuning *t, const zr_run_candidate *c, double seconds)
{
    return zr_candidate_cost_at(c, t->settings.metric, seconds);
}

static void add_finalist(zr_tuning *t, const zr_run_candidate *c)
{
    if (t->race.count < ZR_RACE_LANES)
        t->finalists[t->race.count++].candidate = (int)(c - t->candidates.at);
}

static bool is_same_grid(const zr_run_candidate *a, const zr_run_candidate *b)
{
    return a->ranks == b->ranks && a->threads == b->threads && a->tensor == b->tensor &&
           a->stages == b->stages;
}

// Returns whether it saves memory at the cost of time, or uses old parameters.
static bool is_plain(const zr_run_candidate *c)
{
    return c->checkpoints == 0 && c->optimizer == ZERO_TIER_device &&
           c->parameters == ZERO_TIER_device && !c->delayed && c->tiling == 0;
}

// Returns how many finalists have its grid, and, with micro_batch, its micro-batch too.
static int count_alike(const zr_tuning *t, const zr_run_candidate *c, bool micro_batch)
{
    int count = 0;
    for (int i = 0; i < t->race.count; i++) {
        const zr_run_candidate *other = zr_tuning_candidate(t, i);
        count += is_same_grid(other, c) && (!micro_batch || other->micro_batch == c->micro_batch);
    }
    return count;
}

// Returns whether a plain candidate of the same grid is predicted to be nearly as fast.
static bool gains_nothing(const zr_tuning *t, const zr_run_candidate *c)
{
    for (int i = 0; i < t->candidates.count && !is_plain(c); i++) {
        const zr_run_candidate *other = &t->candidates.at[i];
        if (other->state == ZR_CANDIDATE_FITS && is_plain(other) && is_same_grid(other, c) &&
            cost_of_candidate(t, other) < LEAST_GAIN * cost_of_candidate(t, c))
            return true;
    }
    return false;
}

// Takes the best predicted ones, few of each grid and micro-batch, because neighbours share the
// error of a prediction. After the third, takes only those that may still be the best.
static void choose_best(zr_tuning *t, const zr_run_candidate *const *sorted, int count)
{
    const zr_run_candidate *best = NULL;
    for (int i = 0; i < count && t->race.count < MOST_FINALISTS; i++) {
        const zr_run_candidate *c = sorted[i];
        bool hopeless = t->race.count >= LEAST_FINALISTS &&
                        cost_at(t, c, c->step.low) > cost_at(t, best, best->step.high);
        if (hopeless || gains_nothing(t, c) || count_alike(t, c, false) >= MOST_OF_A_GRID ||
            count_alike(t, c, true) >= MOST_OF_A_MICRO_BATCH)
            continue;
        best = best ? best : c;
        add_finalist(t, c);
    }
}

static bool has_ranks(const zr_tuning *t, int ranks)
{
    for (int i = 0; i < t->race.count; i++)
        if (zr_tuning_candidate(t, i)->ranks == ranks)
            return true;
    return false;
}

// Other numbers of ranks have rates and errors of their own: the best of them is measured, too,
// unless it is far behind.
static void choose_other_ranks(zr_tuning *t, const zr_run_candidate *const *sorted, int count)
{
    double most = FAR_BEHIND * cost_of_candidate(t, sorted[0]);
    for (int i = 0; i < count && cost_of_candidate(t, sorted[i]) <= most; i++) {
        if (has_ranks(t, sorted[i]->ranks) || !is_plain(sorted[i]))
            continue;
        if (t->race.count == MOST_FINALISTS)
            t->race.count--;
        add_finalist(t, sorted[i]);
        return;
    }
}

static void shuffle_candidates(const zr_run_candidate **list, int count)
{
    uint64_t state = SHUFFLE_SEED;
    for (int i = count - 1; i > 0; i--) {
        state = zr_hash_bytes(&state, sizeof state, (uint64_t)i);
        int k = (int)(state % (uint64_t)(i + 1));
        const zr_run_candidate *other = list[i];
        list[i] = list[k];
        list[k] = other;
    }
}

static void sort_by_cost(const zr_tuning *t, const zr_run_candidate **list, ranked *room, int count)
{
    for (int i = 0; i < count; i++)
        room[i] = (ranked){cost_of_candidate(t, list[i]), list[i]};
    qsort(room, (size_t)count, sizeof *room, compare_costs);
    for (int i = 0; i < count; i++)
        list[i] = room[i].candidate;
}

zero_status zr_tuning_choose_finalists(zr_tuning *t, zero_error *error)
{
    int count = 0;
    size_t most = (size_t)t->candidates.count;
    ranked *room = zr_alloc(most * (sizeof *room + sizeof(zr_run_candidate *)), error);
    if (!room)
        return ZERO_ERR_MEMORY;
    const zr_run_candidate **list = (const zr_run_candidate **)(room + most);
    for (int i = 0; i < t->candidates.count; i++)
        if (t->candidates.at[i].state == ZR_CANDIDATE_FITS)
            list[count++] = &t->candidates.at[i];
    if (count && t->settings.order == ZR_ORDER_MODEL) {
        sort_by_cost(t, list, room, count);
        choose_best(t, list, count);
        choose_other_ranks(t, list, count);
    } else {
        if (t->settings.order == ZR_ORDER_RANDOM)
            shuffle_candidates(list, count);
        for (int i = 0; i < count && i < t->race.most_trials; i++)
            add_finalist(t, list[i]);
    }
    zr_free(room);
    return ZERO_OK;
}

// ---- their trials

// Sets which steps are made and measured: those of the section, or as many as fit TRIAL_SECONDS.
static void set_steps(const zr_tuning *t, double predicted, zr_trial_question *q)
{
    const zr_tuning_settings *settings = &t->settings;
    if (settings->first_step) {
        q->skipped = settings->first_step - 1;
        q->steps = settings->last_step;
        return;
    }
    double wanted = predicted > 0 ? ceil(TRIAL_SECONDS / predicted) : LEAST_STEPS;
    double least = predicted > SLOW_STEP ? 1 : LEAST_STEPS;
    q->skipped = predicted > SLOW_STEP ? 1 : SKIPPED;
    q->enough = TRIAL_SECONDS;
    q->steps = q->skipped + (int64_t)ZR_MIN(ZR_MAX(wanted, least), MOST_STEPS);
}

// The steps of a trial have several times what is predicted. Only the first trial shows how long
// reading data and a model takes before them, so it may take all of the remaining time.
static void set_deadlines(const zr_tuning *t, double predicted, zr_trial_question *q)
{
    double left = ZR_MAX(t->until - zr_clock_seconds(), 1);
    q->after_first = SPARE_SECONDS + 10 * predicted * (double)q->steps;
    if (t->start > 0)
        q->deadline = ZR_MIN(4 * t->start + q->after_first, left);
    else
        q->deadline = t->options->seconds > 0 ? left : ZR_MAX(left, MOST_START);
}

void zr_tuning_allow_rounds(zr_tuning *t)
{
    double start = t->start > 0 ? t->start : USUAL_START;
    double trial = start + 3 * zr_tuning_candidate(t, 0)->step.seconds;
    if (t->options->seconds <= 0)
        t->until = ZR_MAX(t->until, zr_clock_seconds() + 2 * t->race.count * trial);
}

static void note_times(zr_tuning *t, const zr_trial_answer *trial)
{
    bool first = t->start == 0;
    if (!trial->good)
        return;
    t->wall = trial->wall;
    if (first) {
        t->start = trial->until_first;
        zr_tuning_allow_rounds(t);
    }
}

// Adds a trial's steps to those of the finalist's earlier ones.
static zero_status add_steps(zr_finalist *f, const zr_trial_answer *trial, zero_error *error)
{
    int count = f->steps + trial->count;
    double *grown = zr_realloc(f->at, (size_t)count * sizeof *grown, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    memcpy(grown + f->steps, trial->at, (size_t)trial->count * sizeof *grown);
    f->at = grown;
    f->steps = count;
    f->seconds = zr_median(grown, count);
    f->low = zr_quantile(grown, count, 0.25);
    f->high = zr_quantile(grown, count, 0.75);
    f->memory = ZR_MAX(f->memory, trial->memory);
    return ZERO_OK;
}

// A trial that was cut by the end of the whole time is ignored, because it need not be slow.
static void excuse_late_trial(const zr_tuning *t, zr_trial_answer *trial)
{
    char why[ZR_TRIAL_WHY];
    if (trial->good || zr_clock_seconds() < t->until)
        return;
    snprintf(why, sizeof why, "%s", trial->why);
    snprintf(trial->why, sizeof trial->why, "the time for all trials is over: %.*s",
             (int)sizeof why - 40, why);
}

static void log_trial(const zr_tuning *t, const zr_run_candidate *c, const zr_trial_answer *trial)
{
    char text[200];
    zr_candidate_text(c, text, sizeof text);
    if (trial->good)
        zr_log(&t->options->logger, ZERO_LOG_INFO, "trial    %s: %.4g ms a step, predicted %.4g",
               text, 1e3 * trial->seconds, 1e3 * c->step.seconds);
    else
        zr_log(&t->options->logger, ZERO_LOG_WARNING, "trial    %s: failed: %s", text, trial->why);
}

static zero_status run_finalist(void *user, int lane, double *cost, bool *failed, zero_error *error)
{
    zr_tuning *t = user;
    zr_finalist *f = &t->finalists[lane];
    const zr_run_candidate *c = zr_tuning_candidate(t, lane);
    zr_trial_answer trial;
    double expected = f->seconds > 0 ? f->seconds : c->step.seconds;
    char *config = zr_tuning_file_of(&t->file, c, true, error);
    if (!config)
        return ZERO_ERR_MEMORY;
    zr_trial_question q = {.program = t->options->program,
                           .arguments = t->arguments,
                           .config = config,
                           .ranks = c->ranks,
                           .threads = c->threads,
                           .stop = t->options->stop};
    set_steps(t, expected, &q);
    set_deadlines(t, expected, &q);
    zero_status status = zr_trial_run(&q, &trial, error);
    zr_free(config);
    ZERO_TRY(status);
    excuse_late_trial(t, &trial);
    log_trial(t, c, &trial);
    *failed = !trial.good;
    note_times(t, &trial);
    *cost = cost_at(t, c, trial.seconds);
    if (trial.good)
        ZERO_TRY(add_steps(f, &trial, error));
    else
        memcpy(f->why, trial.why, sizeof f->why);
    return zr_tuning_write_experiment(t, lane, &trial, error);
}

// Takes over the numbers that decided the race.
static void take_cost(zr_tuning *t, int i)
{
    const zr_race_lane *lane = &t->race.lanes[i];
    const zr_run_candidate *c = zr_tuning_candidate(t, i);
    if (lane->trials > 0)
        t->finalists[i].seconds = lane->cost / cost_at(t, c, 1);
}

// Returns whether a trial like the last one would end in time.
static bool has_time(void *user)
{
    const zr_tuning *t = user;
    return zr_clock_seconds() + t->wall < t->until;
}

zero_status zr_tuning_race(zr_tuning *t, zero_error *error)
{
    t->race.run = run_finalist;
    t->race.has_time = has_time;
    t->race.user = t;
    t->race.early_stopping = (int)ZR_MIN(t->settings.early_stopping, INT32_MAX);
    ZERO_TRY(zr_race_run(&t->race, &t->best, error));
    for (int i = 0; i < t->race.count; i++)
        take_cost(t, i);
    return ZERO_OK;
}
