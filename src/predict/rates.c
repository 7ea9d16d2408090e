// Between two samples of an activity the seconds are found on the line through both, of the
// logarithms of size and seconds. The size is FLOPs, where an operation has them, else bytes.
// Products of one size differ by their shape, of which FLOPs a byte tell something: samples that
// differ in them count as farther away.
#include "predict/rates.h"

#include <math.h>

// What is said of operations of which nothing is known: roughly one core of a server.
static const double GUESSED_BYTES = 8e9, GUESSED_FLOPS = 3e10; // a second

// How much FLOPs a byte count in the distance of two operations, next to size.
static const double INTENSITY = 0.5;

// How many earlier observations a sample counts for at most, next to one of now.
enum { MOST_EARLIER = 3 };
// Beyond that, operations are not counted any more.
#define MOST_SEEN ((int64_t)1 << 30)

static double size_of(const zr_rate_sample *s) { return (double)(s->flops ? s->flops : s->bytes); }

// Returns how far apart two operations are: the logarithm of the factor between their sizes, and a
// part of that between their FLOPs a byte.
static double distance(const zr_rate_sample *a, const zr_rate_sample *b)
{
    double away = fabs(log(size_of(a) / size_of(b)));
    if (a->flops && b->flops && a->bytes && b->bytes)
        away += INTENSITY * fabs(log((double)a->flops / (double)a->bytes) -
                                 log((double)b->flops / (double)b->bytes));
    return away;
}

typedef struct neighbour {
    const zr_rate_sample *sample; // NULL: there is none
    double away;
} neighbour;

typedef struct neighbours { // the nearest samples of an operation's size or less, and of more
    neighbour below, above;
} neighbours;

// Looks for nearer neighbours among the samples of an activity. Operations with FLOPs and without
// are no neighbours.
static void look_among(const zr_rates *rates, int what, const zr_rate_sample *wanted,
                       neighbours *found)
{
    for (int i = 0; i < rates->count[what]; i++) {
        const zr_rate_sample *s = &rates->at[what][i];
        if (size_of(s) <= 0 || !s->flops != !wanted->flops)
            continue;
        neighbour *side = size_of(s) <= size_of(wanted) ? &found->below : &found->above;
        double away = distance(s, wanted);
        if (!side->sample || away < side->away)
            *side = (neighbour){s, away};
    }
}

static double slowness(const neighbour *n) { return n->sample->seconds / size_of(n->sample); }

// Returns the seconds that neighbours tell, of which there is at least one; the nearer one counts
// more.
static double seconds_between(const neighbours *found, double size, double *away)
{
    const neighbour *below = &found->below, *above = &found->above;
    if (!below->sample || !above->sample) {
        const neighbour *only = below->sample ? below : above;
        *away = only->away;
        return size * slowness(only);
    }
    double both = below->away + above->away, upper = below->away / both;
    *away = below->away * above->away / both;
    return size * exp((1 - upper) * log(slowness(below)) + upper * log(slowness(above)));
}

static bool has_neighbour(const neighbours *found)
{
    return found->below.sample || found->above.sample;
}

// Returns whether nothing can be said of an activity from others, because `bytes` of its samples
// are something else: a phase is explained by its operations, and ranks need not wait for each
// other.
static bool stands_alone(zr_activity what)
{
    return zr_activity_track(what) == ZR_TRACK_PHASE || what == ZR_ACTIVITY_wait;
}

// Looks among the activities that are done on the same track, then among all.
static void look_elsewhere(const zr_rates *rates, zr_activity what, const zr_rate_sample *wanted,
                           neighbours *found)
{
    for (int same = 1; same >= 0 && !has_neighbour(found); same--)
        for (int other = 0; other < ZR_ACTIVITY_COUNT; other++) {
            zr_track track = zr_activity_track((zr_activity)other);
            bool counts = !stands_alone((zr_activity)other) && track != ZR_TRACK_ASIDE;
            if (counts && (!same || track == zr_activity_track(what)))
                look_among(rates, other, wanted, found);
        }
}

static const zr_rate_sample *find_same(const zr_rates *rates, zr_activity what, int64_t bytes,
                                       int64_t flops)
{
    for (int i = 0; i < rates->count[what]; i++)
        if (rates->at[what][i].bytes == bytes && rates->at[what][i].flops == flops)
            return &rates->at[what][i];
    return NULL;
}

// Returns the seconds of an operation that nobody has seen, of a size above 0.
static double guess(const zr_rates *rates, zr_activity what, const zr_rate_sample *wanted,
                    double *unknown)
{
    neighbours found = {{0}, {0}};
    double away = 0, seconds;
    *unknown = 1;
    if (rates)
        look_among(rates, (int)what, wanted, &found);
    if (has_neighbour(&found)) {
        seconds = seconds_between(&found, size_of(wanted), &away);
        *unknown = away / (1 + away);
        return seconds;
    }
    if (rates)
        look_elsewhere(rates, what, wanted, &found);
    if (has_neighbour(&found))
        return seconds_between(&found, size_of(wanted), &away);
    return size_of(wanted) / (wanted->flops ? GUESSED_FLOPS : GUESSED_BYTES);
}

double zr_rates_seconds(const zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops,
                        double *unknown)
{
    const zr_rate_sample wanted = {.bytes = bytes, .flops = flops},
                         *same = rates ? find_same(rates, what, bytes, flops) : NULL;
    bool unseen = stands_alone(what) && (!rates || !rates->count[what]);
    *unknown = 0;
    if (same)
        return same->seconds;
    if (size_of(&wanted) <= 0 || unseen)
        return 0;
    return guess(rates, what, &wanted, unknown);
}

// Averages, by logarithms, because a disturbed measurement is off by a factor.
static void average(zr_rate_sample *s, double seconds, int64_t seen)
{
    seen = ZR_MIN(seen, MOST_SEEN);
    int64_t earlier = ZR_MIN(s->seen, MOST_EARLIER * seen);
    double weight = (double)seen / (double)(earlier + seen);
    s->seconds = exp((1 - weight) * log(s->seconds) + weight * log(seconds));
    s->seen = ZR_MIN(s->seen + seen, MOST_SEEN);
}

// Returns the sample of a full list that is most like another one.
static zr_rate_sample *least_useful(zr_rate_sample *list)
{
    zr_rate_sample *least = NULL;
    double nearest = INFINITY;
    for (int i = 0; i < ZR_RATE_SAMPLES; i++)
        for (int k = 0; k < i; k++) {
            bool comparable = size_of(&list[i]) > 0 && size_of(&list[k]) > 0;
            double away = comparable ? distance(&list[i], &list[k]) : INFINITY;
            if (least && away >= nearest)
                continue;
            nearest = away;
            least = list[i].seen < list[k].seen ? &list[i] : &list[k];
        }
    return least;
}

void zr_rates_add(zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops, double seconds,
                  int64_t seen)
{
    zr_rate_sample *list = rates->at[what];
    if (!isfinite(seconds) || seconds <= 0 || bytes < 0 || flops < 0 || seen < 1)
        return;
    zr_rate_sample *same = (zr_rate_sample *)find_same(rates, what, bytes, flops);
    if (same) {
        average(same, seconds, seen);
        return;
    }
    bool full = rates->count[what] == ZR_RATE_SAMPLES;
    zr_rate_sample *place = full ? least_useful(list) : &list[rates->count[what]++];
    *place = (zr_rate_sample){
        .bytes = bytes, .flops = flops, .seconds = seconds, .seen = ZR_MIN(seen, MOST_SEEN)};
}
