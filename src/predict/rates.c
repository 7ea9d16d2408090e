// Between two samples of an activity the seconds are found on the line through both, of the
// logarithms of size and seconds. The size is FLOPs, where an operation has them, else bytes.
// Products of one size differ by their shape, which shows in their FLOPs a byte: samples that
// differ in them count as farther away. Beyond the largest sample an operation takes in proportion
// what the nearest one does, and the farther it is, the more what large ones take.
#include "predict/rates.h"

#include <math.h>
#include <string.h>

// Assumed if nothing is known of an operation: roughly one core of a server.
static const double GUESSED_BYTES = 8e9, GUESSED_FLOPS = 3e10; // a second

// What a thread computes at the least, by the path of its kernels, and of fp32 at the most.
static const struct {
    const char *path;
    double flops; // a second
} assumed[] = {
    {"portable", 4e9}, {"avx2", 4e10}, {"avx512", 8e10}, {"avx512_bf16", 1.5e11}, {"amx", 4e11}};
static const double ASSUMED_OF_F32 = 8e10;

// An operation of fewer FLOPs a byte waits for memory.
static const double LEAST_INTENSITY = 4;
// Smaller operations take mostly the time of the call, from which nothing follows for larger ones.
static const double LEAST_BYTES = 1 << 16, LEAST_FLOPS = 1e6;
// The nearest sample no longer counts for an operation so far beyond it: 16 times its size.
static const double FAR_BEYOND = 2.77;

// How much FLOPs a byte count in the distance of two operations, next to size.
static const double INTENSITY = 0.5;

// How many earlier observations a sample counts for at most, next to one of now.
enum { MOST_EARLIER = 3 };
// Beyond that, operations are not counted any more.
#define MOST_SEEN ((int64_t)1 << 30)

static double size_of_sample(const zr_rate_sample *s)
{
    return (double)(s->flops ? s->flops : s->bytes);
}

// Returns how far apart two operations are: the logarithm of the factor between their sizes, and a
// part of that between their FLOPs a byte.
static double distance_of_samples(const zr_rate_sample *a, const zr_rate_sample *b)
{
    double away = fabs(log(size_of_sample(a) / size_of_sample(b)));
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
        if (size_of_sample(s) <= 0 || !s->flops != !wanted->flops)
            continue;
        neighbour *side =
            size_of_sample(s) <= size_of_sample(wanted) ? &found->below : &found->above;
        double away = distance_of_samples(s, wanted);
        if (!side->sample || away < side->away)
            *side = (neighbour){s, away};
    }
}

static double seconds_per_size(const neighbour *n)
{
    return n->sample->seconds / size_of_sample(n->sample);
}

double zr_rates_assumed_flops(const zr_rate_setting *setting)
{
    double flops = GUESSED_FLOPS;
    for (int i = 0; i < ZR_COUNT(assumed); i++)
        if (strcmp(assumed[i].path, setting->path) == 0)
            flops = assumed[i].flops;
    if (setting->dtype == ZERO_F32)
        flops = ZR_MIN(flops, ASSUMED_OF_F32);
    return flops * ZR_MAX(setting->threads, 1);
}

static bool waits_for_memory(const zr_rate_sample *s)
{
    return (double)s->flops < LEAST_INTENSITY * (double)s->bytes;
}

// Returns what an operation's time grows with: bytes, or FLOPs.
static double bytes_or_flops_of(const zr_rate_sample *s)
{
    return (double)(waits_for_memory(s) ? s->bytes : s->flops);
}

static bool may_extrapolate_from(const zr_rate_sample *s)
{
    return bytes_or_flops_of(s) >= (waits_for_memory(s) ? LEAST_BYTES : LEAST_FLOPS);
}

// Picks the sample from which to extrapolate an operation larger than any measured one: the
// fastest; but of operations that wait for memory the largest, because caches hold less of it.
static void pick_extrapolation_base(const zr_rates *rates, int what, const zr_rate_sample *wanted,
                                    const zr_rate_sample **found)
{
    bool memory = waits_for_memory(wanted);
    for (int i = 0; i < rates->count[what]; i++) {
        const zr_rate_sample *s = &rates->at[what][i];
        if (!s->flops != !wanted->flops || waits_for_memory(s) != memory ||
            !may_extrapolate_from(s))
            continue;
        bool better = !*found || (memory ? s->bytes > (*found)->bytes
                                         : bytes_or_flops_of(s) / s->seconds >
                                               bytes_or_flops_of(*found) / (*found)->seconds);
        *found = better ? s : *found;
    }
}

// Returns the seconds of an operation that is larger than all that are known: by its activity, by
// all that compute, or by what a machine like this one does at the least.
static double seconds_of_large(const zr_rates *rates, zr_activity what,
                               const zr_rate_sample *wanted)
{
    const zr_rate_sample *base = NULL;
    pick_extrapolation_base(rates, (int)what, wanted, &base);
    for (int other = 0; other < ZR_ACTIVITY_COUNT && !base; other++)
        if (zr_activity_track((zr_activity)other) == ZR_TRACK_COMPUTE)
            pick_extrapolation_base(rates, other, wanted, &base);
    if (base)
        return bytes_or_flops_of(wanted) * base->seconds / bytes_or_flops_of(base);
    return bytes_or_flops_of(wanted) /
           (waits_for_memory(wanted) ? GUESSED_BYTES : zr_rates_assumed_flops(&rates->setting));
}

// Returns the seconds of an operation that computes and is larger than the nearest sample; they are
// at least those of a sample of its kind.
static double seconds_beyond(const zr_rates *rates, zr_activity what, const zr_rate_sample *wanted,
                             const neighbour *nearest)
{
    double in_proportion = size_of_sample(wanted) * seconds_per_size(nearest),
           large = seconds_of_large(rates, what, wanted),
           part = ZR_MIN(nearest->away / FAR_BEYOND, 1),
           seconds = exp((1 - part) * log(in_proportion) + part * log(large));
    bool alike = waits_for_memory(nearest->sample) == waits_for_memory(wanted);
    return alike ? ZR_MAX(seconds, nearest->sample->seconds) : seconds;
}

// Returns the seconds by the neighbours, at least one of which exists; the nearer one counts more.
static double seconds_by(const zr_rates *rates, zr_activity what, const zr_rate_sample *wanted,
                         const neighbours *found, double *away)
{
    const neighbour *below = &found->below, *above = &found->above;
    double size = size_of_sample(wanted);
    if (!below->sample || !above->sample) {
        const neighbour *only = below->sample ? below : above;
        *away = only->away;
        return below->sample && zr_activity_track(what) == ZR_TRACK_COMPUTE
                   ? seconds_beyond(rates, what, wanted, below)
                   : size * seconds_per_size(only);
    }
    double both = below->away + above->away, upper = below->away / both;
    *away = below->away * above->away / both;
    return size *
           exp((1 - upper) * log(seconds_per_size(below)) + upper * log(seconds_per_size(above)));
}

static bool has_neighbour(const neighbours *found)
{
    return found->below.sample || found->above.sample;
}

// Returns whether an activity cannot be guessed from others, because the `bytes` of its samples
// mean something else (zr_rate_sample).
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
            bool counts = !stands_alone((zr_activity)other) && track != ZR_TRACK_OVERLAPPED;
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
static double guess_seconds(const zr_rates *rates, zr_activity what, const zr_rate_sample *wanted,
                            double *unknown)
{
    neighbours found = {{0}, {0}};
    double away = 0, seconds;
    *unknown = 1;
    if (rates)
        look_among(rates, (int)what, wanted, &found);
    if (has_neighbour(&found)) {
        seconds = seconds_by(rates, what, wanted, &found, &away);
        *unknown = away / (1 + away);
        return seconds;
    }
    if (rates)
        look_elsewhere(rates, what, wanted, &found);
    if (has_neighbour(&found))
        return seconds_by(rates, what, wanted, &found, &away);
    if (rates && !waits_for_memory(wanted))
        return size_of_sample(wanted) / zr_rates_assumed_flops(&rates->setting);
    return size_of_sample(wanted) / (wanted->flops ? GUESSED_FLOPS : GUESSED_BYTES);
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
    if (size_of_sample(&wanted) <= 0 || unseen)
        return 0;
    return guess_seconds(rates, what, &wanted, unknown);
}

// Averages, by logarithms, because a disturbed measurement is off by a factor.
static void average_into_sample(zr_rate_sample *s, const zr_rate_sample *later)
{
    int64_t seen = ZR_MIN(later->seen, MOST_SEEN), earlier = ZR_MIN(s->seen, MOST_EARLIER * seen);
    double weight =
        zr_quiet_weight(s->quiet, later->quiet, (double)seen / (double)(earlier + seen));
    s->seconds = exp((1 - weight) * log(s->seconds) + weight * log(later->seconds));
    s->quiet = (1 - weight) * s->quiet + weight * later->quiet;
    s->seen = ZR_MIN(s->seen + seen, MOST_SEEN);
}

// Returns the sample of a full list that is most like another one.
static zr_rate_sample *least_useful(zr_rate_sample *list)
{
    zr_rate_sample *least = NULL;
    double nearest = INFINITY;
    for (int i = 0; i < ZR_RATE_SAMPLES; i++)
        for (int k = 0; k < i; k++) {
            bool comparable = size_of_sample(&list[i]) > 0 && size_of_sample(&list[k]) > 0;
            double away = comparable ? distance_of_samples(&list[i], &list[k]) : INFINITY;
            if (least && away >= nearest)
                continue;
            nearest = away;
            least = list[i].seen < list[k].seen ? &list[i] : &list[k];
        }
    return least;
}

void zr_rates_add_sample(zr_rates *rates, zr_activity what, const zr_rate_sample *sample)
{
    zr_rate_sample *list = rates->at[what];
    if (!isfinite(sample->seconds) || sample->seconds <= 0 || sample->bytes < 0 ||
        sample->flops < 0 || sample->seen < 1 || !(sample->quiet > 0))
        return;
    zr_rate_sample *same = (zr_rate_sample *)find_same(rates, what, sample->bytes, sample->flops);
    if (same) {
        average_into_sample(same, sample);
        return;
    }
    bool full = rates->count[what] == ZR_RATE_SAMPLES;
    zr_rate_sample *place = full ? least_useful(list) : &list[rates->count[what]++];
    *place = *sample;
    place->seen = ZR_MIN(sample->seen, MOST_SEEN);
}

void zr_rates_add(zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops, double seconds,
                  int64_t seen)
{
    zr_rates_add_sample(
        rates, what,
        &(zr_rate_sample){
            .bytes = bytes, .flops = flops, .seconds = seconds, .seen = seen, .quiet = 1});
}
