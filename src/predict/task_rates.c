#include "predict/task_rates.h"

#include <math.h>

// How many earlier runs a sample counts for at most, next to one of now.
enum { MOST_EARLIER = 3, MOST_SEEN = 1 << 30 };

static bool is_sample(const zr_task_sample *s)
{
    return s->together > 0 && s->amount >= 0 && s->element >= 0 && s->seen > 0 &&
           isfinite(s->seconds) && s->seconds > 0;
}

static double distance(int64_t a, int64_t b)
{
    return fabs(log(((double)a + 1) / ((double)b + 1)));
}

static bool is_same_kind(const zr_task_sample *a, const zr_task_sample *b)
{
    return a->together == b->together && a->element == b->element;
}

static void average(zr_task_sample *to, const zr_task_sample *later)
{
    int64_t seen = ZR_MIN(later->seen, MOST_SEEN), earlier = ZR_MIN(to->seen, MOST_EARLIER * seen);
    double weight = (double)seen / (double)(earlier + seen);
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
            double away = distance(list[i].amount, list[k].amount);
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
            average(&list[i], sample);
            return;
        }
    zr_task_sample *place = *count < ZR_TASK_SAMPLES ? &list[(*count)++] : least_useful(list);
    *place = *sample;
    place->seen = ZR_MIN(sample->seen, MOST_SEEN);
}

// Returns how unlike the kinds of two samples are: first by ranks, then by type.
static double unlike(const zr_task_sample *a, const zr_task_sample *b)
{
    const double ranks_first = 1e3;
    return ranks_first * distance(a->together, b->together) + distance(a->element, b->element);
}

// Copies the samples of the kind that is nearest to what is asked for. Returns their number.
static int choose_kind(const zr_task_sample *list, int count, const zr_task_sample *of,
                       zr_task_sample *out)
{
    const zr_task_sample *nearest = list;
    int chosen = 0;
    for (int i = 1; i < count; i++)
        if (unlike(&list[i], of) < unlike(nearest, of))
            nearest = &list[i];
    for (int i = 0; i < count; i++)
        if (is_same_kind(&list[i], nearest))
            out[chosen++] = list[i];
    return chosen;
}

typedef struct line {
    double constant, rate; // seconds, and seconds of one
} line;

typedef struct fit {
    const zr_task_sample *list;
    int count;
    int64_t amount; // that is asked for
    line best;
    double least; // by how much the samples are off the best line
} fit;

static double seconds_on(const line *l, int64_t amount)
{
    return l->constant + l->rate * (double)amount;
}

// Takes a line if the samples lie nearer to it than to those before.
static void consider(fit *f, line l)
{
    double off = 0;
    for (int i = 0; i < f->count; i++) {
        const zr_task_sample *s = &f->list[i];
        double weight = 1 / (1 + distance(s->amount, f->amount));
        off += weight * fabs(log(seconds_on(&l, s->amount) / s->seconds));
    }
    if (off < f->least) {
        f->least = off;
        f->best = l;
    }
}

static void consider_through(fit *f, const zr_task_sample *a, const zr_task_sample *b)
{
    if (a->amount == b->amount)
        return;
    double rate = (a->seconds - b->seconds) / (double)(a->amount - b->amount),
           constant = a->seconds - rate * (double)a->amount;
    if (rate >= 0 && constant >= 0)
        consider(f, (line){constant, rate});
}

double zr_task_rates_seconds(const zr_task_rates *rates, zr_task task, const zr_task_sample *of)
{
    zr_task_sample list[ZR_TASK_SAMPLES];
    if (rates->count[task] == 0)
        return 0;
    fit f = {.list = list, .amount = of->amount, .least = INFINITY};
    f.count = choose_kind(rates->at[task], rates->count[task], of, list);
    // The best line of this kind goes through two samples, or through one and a bound.
    for (int i = 0; i < f.count; i++) {
        if (list[i].amount > 0)
            consider(&f, (line){0, list[i].seconds / (double)list[i].amount});
        consider(&f, (line){list[i].seconds, 0});
        for (int k = 0; k < i; k++)
            consider_through(&f, &list[i], &list[k]);
    }
    return seconds_on(&f.best, of->amount);
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
