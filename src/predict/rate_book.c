// The book of a machine's rates: its settings, and how far predictions were off.
#include "predict/rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// How many earlier runs a correction counts at most, next to the one of now.
enum { MOST_EARLIER_RUNS = 8 };
enum { MOST_RUNS = 1 << 20 }; // beyond that they are not counted any more
// What one run can be off by; more was a disturbance.
static const double MOST_OFF = 4;

static bool is_same_kind(const zr_rate_setting *a, const zr_rate_setting *b)
{
    return !strcmp(a->path, b->path) && a->dtype == b->dtype && a->machines == b->machines;
}

static bool same_rate_setting(const zr_rate_setting *a, const zr_rate_setting *b)
{
    return is_same_kind(a, b) && a->threads == b->threads && a->together == b->together;
}

// Returns how unlike the threads and ranks of two settings are. Threads count more.
static double distance_of_settings(const zr_rate_setting *a, const zr_rate_setting *b)
{
    return fabs(log((double)ZR_MAX(a->threads, 1) / ZR_MAX(b->threads, 1))) +
           0.5 * fabs(log((double)ZR_MAX(a->together, 1) / ZR_MAX(b->together, 1)));
}

const zr_rates *zr_rate_book_find(const zr_rate_book *book, const zr_rate_setting *setting,
                                  bool *exact)
{
    const zr_rates *nearest = NULL;
    for (int i = 0; i < book->count; i++) {
        const zr_rates *r = &book->settings[i];
        if (!is_same_kind(&r->setting, setting))
            continue;
        if (!nearest || distance_of_settings(&r->setting, setting) <
                            distance_of_settings(&nearest->setting, setting))
            nearest = r;
    }
    *exact = nearest && same_rate_setting(&nearest->setting, setting);
    return nearest;
}

double zr_rates_factor(const zr_rates *rates, const zr_rate_setting *setting)
{
    return (double)ZR_MAX(rates->setting.threads, 1) / ZR_MAX(setting->threads, 1);
}

static zr_rates *oldest_rates(const zr_rate_book *book)
{
    zr_rates *found = book->settings;
    for (zr_rates *r = found; r < book->settings + book->count; r++)
        found = r->measured < found->measured ? r : found;
    return found;
}

// Returns a place for the rates of another setting.
static zr_rates *make_room_for_rates(zr_rate_book *book, zero_error *error)
{
    if (book->count == ZR_MOST_RATE_SETTINGS)
        return oldest_rates(book);
    zr_rates *grown =
        zr_realloc(book->settings, (size_t)(book->count + 1) * sizeof *book->settings, error);
    if (!grown)
        return NULL;
    book->settings = grown;
    return &grown[book->count++];
}

// Returns the rates of a setting; new ones are empty.
static zr_rates *find_or_add_rates(zr_rate_book *book, const zr_rate_setting *setting,
                                   zero_error *error)
{
    for (int i = 0; i < book->count; i++)
        if (same_rate_setting(&book->settings[i].setting, setting))
            return &book->settings[i];
    zr_rates *made = make_room_for_rates(book, error);
    if (made) {
        memset(made, 0, sizeof *made);
        made->setting = *setting;
    }
    return made;
}

zr_rates *zr_rate_book_take(zr_rate_book *book, const zr_rate_setting *setting, zero_error *error)
{
    zr_rates *rates = find_or_add_rates(book, setting, error);
    if (rates)
        rates->measured = (int64_t)time(NULL);
    return rates;
}

// Adds what `later` has learnt; the runs of `to` before it count less and less.
static void combine_corrections(zr_correction *to, const zr_correction *later)
{
    double runs = (double)ZR_MIN(to->runs, MOST_EARLIER_RUNS), more = (double)later->runs;
    if (later->runs < 1)
        return;
    double old = to->runs ? log(to->factor) : 0, new = log(later->factor),
           weight = more / (runs + more), mean = (1 - weight) * old + weight *new;
    double variance = (1 - weight) * (to->spread * to->spread + (old - mean) * (old - mean)) +
                      weight * (later->spread * later->spread + (new - mean) * (new - mean));
    *to = (zr_correction){.factor = exp(mean),
                          .spread = sqrt(variance),
                          .runs = ZR_MIN(to->runs, MOST_RUNS) + ZR_MIN(later->runs, MOST_RUNS)};
}

void zr_correction_learn(zr_correction *correction, double predicted, double measured)
{
    double factor = measured / predicted;
    if (!(predicted > 0) || !(measured > 0) || !isfinite(factor))
        return;
    factor = fmin(fmax(factor, 1 / MOST_OFF), MOST_OFF);
    combine_corrections(correction, &(zr_correction){.factor = factor, .runs = 1});
}

double zr_correction_factor(const zr_correction *correction)
{
    double runs = (double)correction->runs;
    return correction->runs ? pow(correction->factor, runs / (runs + 1)) : 1;
}

static void merge_rates(zr_rates *into, const zr_rates *from)
{
    into->measured = ZR_MAX(into->measured, from->measured);
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++)
        for (int i = 0; i < from->count[what]; i++) {
            zr_rate_sample s = from->at[what][i];
            s.quiet = from->quiet > 0 ? from->quiet : s.quiet;
            zr_rates_add_sample(into, (zr_activity)what, &s);
        }
}

// A setting without samples would hide the nearest one that has some.
static bool is_empty(const zr_rates *rates)
{
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++)
        if (rates->count[what] > 0)
            return false;
    return true;
}

zero_status zr_rate_book_merge(zr_rate_book *into, const zr_rate_book *from, zero_error *error)
{
    for (int i = 0; i < from->count; i++) {
        if (is_empty(&from->settings[i]))
            continue;
        zr_rates *place = find_or_add_rates(into, &from->settings[i].setting, error);
        if (!place)
            return ZERO_ERR_MEMORY;
        merge_rates(place, &from->settings[i]);
    }
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        combine_corrections(&into->corrections[part], &from->corrections[part]);
    combine_corrections(&into->whole, &from->whole);
    for (int i = 0; i < from->storage_count; i++)
        ZERO_TRY(zr_rate_book_set_storage(into, &from->storage[i], error));
    into->read = from->read > 0 ? from->read : into->read;
    into->write = from->write > 0 ? from->write : into->write;
    into->mix = from->mix > 0 ? from->mix : into->mix;
    into->checksum = from->checksum > 0 ? from->checksum : into->checksum;
    zr_task_rates_merge(&into->tasks, &from->tasks);
    return ZERO_OK;
}

zr_task_facts zr_rate_book_facts(const zr_rate_book *book)
{
    return (zr_task_facts){.read = book->read, .write = book->write};
}

void zr_rate_book_free(zr_rate_book *book)
{
    zr_free(book->settings);
    zr_free(book->storage);
    *book = (zr_rate_book){0};
}

const char *const zr_time_part_names[ZR_TIME_PARTS] = {
    [ZR_TIME_COMPUTE] = "compute", [ZR_TIME_EXCHANGE] = "exchange",
    [ZR_TIME_UPDATE] = "update",   [ZR_TIME_DISK] = "disk",
    [ZR_TIME_DATA] = "data",       [ZR_TIME_EVALUATION] = "evaluation",
    [ZR_TIME_SAVING] = "saving",   [ZR_TIME_GENERATION] = "generation",
};
