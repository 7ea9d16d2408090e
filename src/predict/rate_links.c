// An exchange takes a latency, and its bytes over a rate, so between two samples seconds lie on a
// straight line of bytes: unlike the line of logarithms that others have, it is right however far
// apart the samples are.
#include "predict/rates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const LINK_PATH = "network", *const ONE_COPY_PATH = "network, one copy";

// Assumed of a link that was never measured.
static const double GUESSED_RATE = 1e8, GUESSED_LATENCY = 1e-4; // bytes a second, seconds
// How unknown an exchange is whose seconds are those of another kind.
static const double OF_ANOTHER_KIND = 0.3;

zr_rate_setting zr_link_setting(int machines, int together, bool one_copy)
{
    zr_rate_setting setting = {
        .dtype = ZERO_F32, .threads = 1, .together = together, .machines = machines};
    snprintf(setting.path, sizeof setting.path, "%s", one_copy ? ONE_COPY_PATH : LINK_PATH);
    return setting;
}

static double distance_of_links(const zr_rate_setting *a, const zr_rate_setting *b)
{
    return fabs(log((double)a->together / b->together)) +
           0.5 * fabs(log((double)a->machines / b->machines));
}

const zr_rates *zr_rate_book_link(const zr_rate_book *book, const zr_rate_setting *setting)
{
    const zr_rates *nearest = NULL;
    for (int i = 0; i < book->count; i++) {
        const zr_rates *r = &book->settings[i];
        const zr_rate_setting *s = &r->setting;
        if (s->machines < 1 || strcmp(s->path, setting->path) ||
            (s->machines > 1) != (setting->machines > 1))
            continue;
        if (!nearest ||
            distance_of_links(s, setting) < distance_of_links(&nearest->setting, setting))
            nearest = r;
    }
    return nearest;
}

typedef struct ends { // of the samples of an activity, by bytes; NULL: there is none
    const zr_rate_sample *below, *above; // next to some bytes
    const zr_rate_sample *first, *last, *before_last;
} ends;

static ends find_samples_around(const zr_rates *link, int what, double bytes)
{
    ends e = {0};
    for (int i = 0; i < link->count[what]; i++) {
        const zr_rate_sample *s = &link->at[what][i];
        if ((double)s->bytes <= bytes && (!e.below || s->bytes > e.below->bytes))
            e.below = s;
        if ((double)s->bytes >= bytes && (!e.above || s->bytes < e.above->bytes))
            e.above = s;
        if (!e.first || s->bytes < e.first->bytes)
            e.first = s;
        if (!e.last || s->bytes > e.last->bytes) {
            e.before_last = e.last;
            e.last = s;
        } else if (s->bytes < e.last->bytes &&
                   (!e.before_last || s->bytes > e.before_last->bytes)) {
            e.before_last = s;
        }
    }
    return e;
}

// Returns the seconds of a byte beyond the largest sample.
static double slope_beyond_largest(const ends *e)
{
    double all = e->last->seconds / fmax((double)e->last->bytes, 1);
    if (!e->before_last)
        return all;
    double slope = (e->last->seconds - e->before_last->seconds) /
                   (double)(e->last->bytes - e->before_last->bytes);
    return slope > 0 ? slope : all;
}

// Beyond the largest sample seconds go on as before it; below the smallest one they are a latency.
static double seconds_at(const ends *e, double bytes, double *unknown)
{
    *unknown = 0;
    if (!e->below)
        return e->first->seconds;
    if (!e->above) {
        *unknown = 0.5 * (1 - (double)e->last->bytes / bytes);
        return e->last->seconds + slope_beyond_largest(e) * (bytes - (double)e->last->bytes);
    }
    double width = (double)(e->above->bytes - e->below->bytes),
           part = width > 0 ? (bytes - (double)e->below->bytes) / width : 0;
    return e->below->seconds + part * (e->above->seconds - e->below->seconds);
}

// Returns the activity by whose samples another one is estimated; ZR_ACTIVITY_COUNT if there is
// none.
static int stand_in(const zr_rates *link, int what)
{
    static const zr_activity likely[] = {ZR_ACTIVITY_all_gather, ZR_ACTIVITY_reduce_scatter,
                                         ZR_ACTIVITY_exchange, ZR_ACTIVITY_send,
                                         ZR_ACTIVITY_all_reduce};
    if (link && link->count[what])
        return what;
    for (int i = 0; i < ZR_COUNT(likely) && link; i++)
        if (link->count[likely[i]])
            return (int)likely[i];
    return ZR_ACTIVITY_COUNT;
}

double zr_link_seconds(const zr_rates *link, zr_activity what, double bytes, double *unknown)
{
    int from = stand_in(link, (int)what);
    *unknown = 1;
    if (from == ZR_ACTIVITY_COUNT)
        return GUESSED_LATENCY + bytes / GUESSED_RATE;
    ends e = find_samples_around(link, from, bytes);
    double seconds = seconds_at(&e, bytes, unknown);
    if (from != (int)what)
        *unknown = fmax(*unknown, OF_ANOTHER_KIND);
    return seconds;
}

bool zr_link_describe(const zr_rates *link, double *rate, double *latency)
{
    int from = stand_in(link, ZR_ACTIVITY_all_gather);
    *rate = 0;
    if (from == ZR_ACTIVITY_COUNT)
        return false;
    for (const zr_rate_sample *s = link->at[from]; s < link->at[from] + link->count[from]; s++)
        *rate = fmax(*rate, (double)s->bytes / s->seconds);
    *latency = find_samples_around(link, from, 0).first->seconds;
    return *rate > 0;
}

bool zr_rate_book_knows_kernels(const zr_rate_book *book)
{
    for (int i = 0; i < book->count; i++)
        if (!book->settings[i].setting.machines)
            return true;
    return false;
}

bool zr_rate_book_knows_network(const zr_rate_book *book)
{
    for (int i = 0; i < book->count; i++)
        if (book->settings[i].setting.machines > 1)
            return true;
    return false;
}
