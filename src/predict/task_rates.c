#include "predict/task_rates.h"

#include <math.h>

// How many earlier runs a sample counts for at most, next to one of now.
enum { MOST_EARLIER = 3, MOST_SEEN = 1 << 30 };

static bool is_sample(const zr_task_sample *s)
{
    return s->together > 0 && s->amount >= 0 && s->element >= 0 && s->seen > 0 &&
           isfinite(s->seconds) && s->seconds > 0;
}

static double distance_of_amounts(int64_t a, int64_t b)
{
    return fabs(log(((double)a + 1) / ((double)b + 1)));
}

static bool is_same_kind(const zr_task_sample *a, const zr_task_sample *b)
{
    return a->together == b->together && a->element == b->element;
}

// By how much clearly quieter is, and how much less counts what is clearly less quiet.
static const double CLEARLY = 1.2, OF_A_BUSY_TIME = 0.1;

double zr_quiet_weight(double known, double later, double usual)
{
    if (later > known * CLEARLY)
        return 1;
    return later * CLEARLY < known ? OF_A_BUSY_TIME * usual : usual;
}

static double quiet_or_full(const zr_task_sample *s) { return s->quiet > 0 ? s->quiet : 1; }

static void average_into_task(zr_task_sample *to, const zr_task_sample *later)
{
    int64_t seen = ZR_MIN(later->seen, MOST_SEEN), earlier = ZR_MIN(to->seen, MOST_EARLIER * seen);
    double weight = zr_quiet_weight(quiet_or_full(to), quiet_or_full(later),
                                    (double)seen / (double)(earlier + seen));
    to->quiet = (1 - weight) * quiet_or_full(to) + weight * quiet_or_full(later);
    to->seconds = exp((1 - weight) * log(to->seconds) + weight * log(later->seconds));
    to->seen = ZR_MIN(to->seen + seen, MOST_SEEN);
}

// Returns the sample of a full list that is most like a later one.
static zr_task_sample *least_useful(zr_task_sample *list)
{
    zr_task_sample *least = &list[0];
    double nearest = INFINITY;
    for (int i = 0; i < ZR_TASK_SAMPLES; i++)
        for (int k = 0; k < i; k++) {
            double away = distance_of_amounts(list[i].amount, list[k].amount);
            if (!is_same_kind(&list[i], &list[k]) || away >= nearest)
                continue;
            nearest = away;
            least = list[i].seen < list[k].seen ? &list[i] : &list[k];
        }
    return least;
}

void zr_task_rates_add(zr_task_rates *rates, zr_task task, const zr_task_sample *sample)
{
    zr_task_sample *list = rates->at[task];
    int *count = &rates->count[task];
    if (!is_sample(sample))
        return;
    for (int i = 0; i < *count; i++)
        if (is_same_kind(&list[i], sample) && list[i].amount == sample->amount) {
            average_into_task(&list[i], sample);
            return;
        }
    zr_task_sample *place = *count < ZR_TASK_SAMPLES ? &list[(*count)++] : least_useful(list);
    *place = *sample;
    place->seen = ZR_MIN(sample->seen, MOST_SEEN);
}

// Returns how unlike the kinds of two samples are: first by ranks, then by type.
static double unlikeness_of_kinds(const zr_task_sample *a, const zr_task_sample *b)
{
    const double ranks_first = 1e3;
    return ranks_first * distance_of_amounts(a->together, b->together) +
           distance_of_amounts(a->element, b->element);
}

// Copies the samples of the kind that is nearest to `of`. Returns their number.
static int choose_nearest_kind(const zr_task_sample *list, int count, const zr_task_sample *of,
                               zr_task_sample *out)
{
    const zr_task_sample *nearest = list;
    int chosen = 0;
    for (int i = 1; i < count; i++)
        if (unlikeness_of_kinds(&list[i], of) < unlikeness_of_kinds(nearest, of))
            nearest = &list[i];
    for (int i = 0; i < count; i++)
        if (is_same_kind(&list[i], nearest))
            out[chosen++] = list[i];
    return chosen;
}

typedef struct line {
    double constant, rate; // seconds, and seconds of one
} line;

// What tasks take on a usual machine, assumed before any run.
static const line usual[ZR_TASKS] = {
    [ZR_TASK_BEGIN] = {0.05, 1e-10},      [ZR_TASK_READ] = {0.01, 2e-8},
    [ZR_TASK_RESERVE] = {0.01, 3e-10},    [ZR_TASK_SHARE] = {0.01, 4e-10},
    [ZR_TASK_DRAW] = {0.01, 1e-8},        [ZR_TASK_FORECAST] = {1e-3, 3e-4},
    [ZR_TASK_LOAD] = {0.02, 4e-9},        [ZR_TASK_RESUME] = {0.05, 1e-9},
    [ZR_TASK_ARRANGE] = {1e-5, 3e-9},     [ZR_TASK_CHECKPOINT] = {0.1, 1e-9},
    [ZR_TASK_OVERLAPPED] = {0.02, 5e-10}, [ZR_TASK_MODEL] = {0.05, 4e-9},
    [ZR_TASK_CHOOSE] = {1e-5, 1e-8},
};
// By how much one machine's differ from another's, and its samples from its line: mean distances of
// logarithms. Constants differ most (a disk that has to be flushed).
static const double OFF_CONSTANT = 2.3, OFF_RATE = 1.1, OFF_SAMPLE = 0.05;
// An amount this many times the largest known one is unknown if this part of the time comes from a
// rate that no run has shown.
static const double FAR_BEYOND = 4, MOST_ASSUMED = 0.5;
// Samples that are farther away than this (a logarithm) count no less.
static const double MOST_AWAY = 3;
// A constant or a rate that is less than this part of the usual one is as unlikely as this.
static const double LEAST_PART = 1e-6;

// Reading and writing grow with bytes, those of a model and its loading with parameters.
static line usual_line_of(zr_task task, const zr_task_sample *of, const zr_task_facts *facts)
{
    line l = usual[task];
    double element = of->element ? of->element : 4;
    bool writes = task == ZR_TASK_CHECKPOINT || task == ZR_TASK_MODEL,
         reads = task == ZR_TASK_RESUME || task == ZR_TASK_LOAD;
    double bytes = task == ZR_TASK_MODEL || task == ZR_TASK_LOAD ? element : 1;
    if (facts && writes && facts->write > 0)
        l.rate = bytes / facts->write;
    if (facts && reads && facts->read > 0)
        l.rate = bytes / facts->read;
    return l;
}

typedef struct fit {
    const zr_task_sample *list;
    int count;
    int64_t amount; // whose time is wanted
    line prior, best;
    bool sampled; // the best line's rate follows from samples
    double least; // how unlikely the best line is
} fit;

static double seconds_on(const line *l, int64_t amount)
{
    return l->constant + l->rate * (double)amount;
}

static double distance_from_usual(double value, double expected, double off)
{
    return fabs(log(fmax(value / expected, LEAST_PART))) / off;
}

// Takes a line if it is more likely than those before.
static void keep_line_if_likelier(fit *f, line l, bool sampled)
{
    double off = distance_from_usual(l.constant, f->prior.constant, OFF_CONSTANT) +
                 distance_from_usual(l.rate, f->prior.rate, OFF_RATE);
    for (int i = 0; i < f->count; i++) {
        const zr_task_sample *s = &f->list[i];
        double away = ZR_MIN(distance_of_amounts(s->amount, f->amount), MOST_AWAY),
               weight = 1 / (1 + away) / OFF_SAMPLE;
        off += weight * fabs(log(seconds_on(&l, s->amount) / s->seconds));
    }
    if (off < f->least) {
        f->least = off;
        f->best = l;
        f->sampled = sampled;
    }
}

// Considers the lines through one sample that have the usual rate, or the usual constant.
static void consider_one(fit *f, const zr_task_sample *s)
{
    double constant = s->seconds - f->prior.rate * (double)s->amount;
    if (constant > 0)
        keep_line_if_likelier(f, (line){constant, f->prior.rate}, false);
    if (s->amount > 0 && s->seconds > f->prior.constant)
        keep_line_if_likelier(
            f, (line){f->prior.constant, (s->seconds - f->prior.constant) / (double)s->amount},
            true);
}

static void consider_through(fit *f, const zr_task_sample *a, const zr_task_sample *b)
{
    if (a->amount == b->amount)
        return;
    double rate = (a->seconds - b->seconds) / (double)(a->amount - b->amount),
           constant = a->seconds - rate * (double)a->amount;
    if (rate >= 0 && constant >= 0)
        keep_line_if_likelier(f, (line){constant, rate}, true);
}

// Says whether an amount is so far beyond all that is known that its time is mostly assumed.
static bool is_assumed(const fit *f)
{
    int64_t largest = 0;
    for (int i = 0; i < f->count; i++)
        largest = ZR_MAX(largest, f->list[i].amount);
    double grows = f->best.rate * (double)f->amount;
    return !f->sampled && (double)f->amount > FAR_BEYOND * (double)largest &&
           grows > MOST_ASSUMED * seconds_on(&f->best, f->amount);
}

double zr_task_rates_seconds(const zr_task_rates *rates, zr_task task, const zr_task_sample *of,
                             const zr_task_facts *facts)
{
    zr_task_sample list[ZR_TASK_SAMPLES];
    if (rates->count[task] == 0)
        return 0;
    fit f = {.list = list, .amount = of->amount, .prior = usual_line_of(task, of, facts)};
    f.least = INFINITY;
    f.count = choose_nearest_kind(rates->at[task], rates->count[task], of, list);
    // What is added up bends at the samples and at what is usual: the least lies at two of these.
    keep_line_if_likelier(&f, f.prior, false);
    for (int i = 0; i < f.count; i++) {
        consider_one(&f, &list[i]);
        for (int k = 0; k < i; k++)
            consider_through(&f, &list[i], &list[k]);
    }
    return is_assumed(&f) ? 0 : seconds_on(&f.best, of->amount);
}

bool zr_task_rates_are_empty(const zr_task_rates *rates)
{
    int count = 0;
    for (int task = 0; task < ZR_TASKS; task++)
        count += rates->count[task];
    return count == 0;
}

void zr_task_rates_merge(zr_task_rates *into, const zr_task_rates *from)
{
    for (int task = 0; task < ZR_TASKS; task++)
        for (int i = 0; i < from->count[task]; i++)
            zr_task_rates_add(into, (zr_task)task, &from->at[task][i]);
}
