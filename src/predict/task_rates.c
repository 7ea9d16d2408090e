#include "predict/task_rates.h"

#include <math.h>

// How many earlier runs a sample counts for at most, next to one of now.
enum { MOST_EARLIER = 3, MOST_SEEN = 1 << 30 };

static bool is_sample(const zr_task_sample *s)
{
    return s->together > 0 && s->amount >= 0 && s->seen > 0 && isfinite(s->seconds) &&
           s->seconds > 0;
}

static double distance(const zr_task_sample *a, const zr_task_sample *b)
{
    if (a->together != b->together)
        return INFINITY;
    return fabs(log(((double)a->amount + 1) / ((double)b->amount + 1)));
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
            double away = distance(&list[i], &list[k]);
            if (away >= nearest)
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
        if (list[i].together == sample->together && list[i].amount == sample->amount) {
            average(&list[i], sample);
            return;
        }
    zr_task_sample *place = *count < ZR_TASK_SAMPLES ? &list[(*count)++] : least_useful(list);
    *place = *sample;
    place->seen = ZR_MIN(sample->seen, MOST_SEEN);
}

// Returns the number of ranks, of those that samples have, that is nearest to `together`.
static int nearest_ranks(const zr_task_sample *list, int count, int together)
{
    int nearest = list[0].together;
    for (int i = 1; i < count; i++)
        if (fabs(log((double)list[i].together / together)) < fabs(log((double)nearest / together)))
            nearest = list[i].together;
    return nearest;
}

typedef struct neighbours { // nearest first; NULL: there is none
    const zr_task_sample *below[2], *above[2];
} neighbours;

static void keep_nearer(const zr_task_sample *of[2], const zr_task_sample *s, bool nearer_than_0,
                        bool nearer_than_1)
{
    if (nearer_than_0) {
        of[1] = of[0];
        of[0] = s;
    } else if (nearer_than_1)
        of[1] = s;
}

static neighbours find_neighbours(const zr_task_sample *list, int count, int together,
                                  int64_t amount)
{
    neighbours n = {{NULL, NULL}, {NULL, NULL}};
    for (int i = 0; i < count; i++) {
        const zr_task_sample *s = &list[i];
        if (s->together != together)
            continue;
        if (s->amount <= amount)
            keep_nearer(n.below, s, !n.below[0] || s->amount > n.below[0]->amount,
                        !n.below[1] || s->amount > n.below[1]->amount);
        else
            keep_nearer(n.above, s, !n.above[0] || s->amount < n.above[0]->amount,
                        !n.above[1] || s->amount < n.above[1]->amount);
    }
    return n;
}

static double slope_between(const zr_task_sample *a, const zr_task_sample *b)
{
    return (a->seconds - b->seconds) / (double)(a->amount - b->amount);
}

// Continues the line through the two nearest samples of one side: more never takes less, and
// nothing takes no less than nothing.
static double beyond(const zr_task_sample *nearest, const zr_task_sample *next, int64_t amount)
{
    double all = nearest->amount > 0 ? nearest->seconds / (double)nearest->amount : 0,
           slope = next ? fmin(fmax(slope_between(nearest, next), 0), all) : all;
    return nearest->seconds + slope * (double)(amount - nearest->amount);
}

double zr_task_rates_seconds(const zr_task_rates *rates, zr_task task, int together, int64_t amount)
{
    const zr_task_sample *list = rates->at[task];
    int count = rates->count[task];
    if (count == 0)
        return 0;
    int ranks = nearest_ranks(list, count, ZR_MAX(together, 1));
    const neighbours n = find_neighbours(list, count, ranks, amount);
    if (!n.below[0])
        return beyond(n.above[0], n.above[1], amount);
    if (!n.above[0])
        return beyond(n.below[0], n.below[1], amount);
    return n.below[0]->seconds +
           slope_between(n.below[0], n.above[0]) * (double)(amount - n.below[0]->amount);
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
