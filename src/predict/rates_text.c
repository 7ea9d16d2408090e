// The book as an answer: which settings were measured, how fast each activity was, and what
// predictions were off by.
#include "base/dtype.h"
#include "predict/rates.h"

#include <math.h>
#include <time.h>

// Finds the lowest and highest rate of an activity: FLOPs, if its samples have them, or bytes.
static void range_of_rates(const zr_rates *rates, int what, bool flops, double *low, double *high)
{
    *low = INFINITY, *high = 0;
    for (int i = 0; i < rates->count[what]; i++) {
        const zr_rate_sample *s = &rates->at[what][i];
        double rate = (double)(flops ? s->flops : s->bytes) / s->seconds;
        if (rate <= 0)
            continue;
        *low = fmin(*low, rate);
        *high = fmax(*high, rate);
    }
}

static void report_activity(const zr_rates *rates, int what, zr_report *r)
{
    bool moves = zr_activity_track((zr_activity)what) != ZR_TRACK_PHASE && what != ZR_ACTIVITY_wait,
         flops = rates->at[what][0].flops > 0;
    int count = rates->count[what];
    double low, high;
    range_of_rates(rates, what, flops, &low, &high);
    moves = moves && high > 0;
    zr_value least = moves ? zr_real(low) : zr_absent(), most = moves ? zr_real(high) : zr_absent();
    zr_report_begin(r, NULL);
    zr_report_json_only(r, "activity", zr_text(zr_activity_name((zr_activity)what)));
    ZR_SENTENCE(r, "",
                flops ? "    {:-26} {sizes:3} size{}[, {least_flops_per_second:.4gG} to "
                        "{most_flops_per_second:.4gG} Gflop/s]"
                      : "    {:-26} {sizes:3} size{}[, {least_bytes_per_second:.4gG} to "
                        "{most_bytes_per_second:.4gG} GB/s]",
                zr_text(zr_activity_text((zr_activity)what)), zr_integer(count), zr_plural(count),
                least, most);
    zr_report_end(r);
}

// Reports whose link it is, and what it is like.
static void report_link(const zr_rates *rates, const char *day, zr_report *r)
{
#define LINK                                                                                       \
    "[: {bytes_per_second:B}/s to a rank, latency {latency_seconds:s}]; last measured "            \
    "{last_measured}"
    const zr_rate_setting *s = &rates->setting;
    double rate = 0, latency = 0;
    bool known = zr_link_describe(rates, &rate, &latency);
    zr_value bytes = known ? zr_real(rate) : zr_absent(),
             seconds = known ? zr_real(latency) : zr_absent();
    zr_report_json_only(r, "machines", zr_integer(s->machines));
    if (s->machines > 1)
        ZR_SENTENCE(r, "", "  {path}, {} machines of {ranks} rank{}" LINK, zr_text(s->path),
                    zr_integer(s->machines), zr_integer(s->together), zr_plural(s->together), bytes,
                    seconds, zr_text(day));
    else
        ZR_SENTENCE(r, "", "  messages among {ranks} ranks of this machine" LINK,
                    zr_integer(s->together), bytes, seconds, zr_text(day));
#undef LINK
}

static void report_setting(const zr_rates *rates, const char *day, zr_report *r)
{
    const zr_rate_setting *s = &rates->setting;
    ZR_SENTENCE(r, "",
                "  {dtype}, {threads} thread{}, {ranks} rank{} at once, {path}; last measured "
                "{last_measured}",
                zr_text(zr_dtype_name(s->dtype)), zr_integer(s->threads), zr_plural(s->threads),
                zr_integer(s->together), zr_plural(s->together), zr_text(s->path), zr_text(day));
}

static void report_rates(const zr_rates *rates, zr_report *r)
{
    char day[32] = "";
    struct tm at;
    time_t measured = (time_t)rates->measured;
    if (gmtime_r(&measured, &at))
        strftime(day, sizeof day, "%Y-%m-%d", &at);
    zr_report_begin(r, NULL);
    if (rates->setting.machines)
        report_link(rates, day, r);
    else
        report_setting(rates, day, r);
    zr_report_begin_list(r, "activities");
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++)
        if (rates->count[what])
            report_activity(rates, what, r);
    zr_report_end(r);
    zr_report_end(r);
}

static void report_correction(const zr_correction *correction, const char *name, zr_report *r)
{
    if (!correction->runs)
        return;
    zr_report_begin(r, NULL);
    ZR_SENTENCE(r, "", "    {part:-26} x {factor:.3}, +-{spread:%}, {runs} run{}", zr_text(name),
                zr_real(correction->factor), zr_real(correction->spread),
                zr_integer(correction->runs), zr_plural(correction->runs));
    zr_report_end(r);
}

static bool has_corrections(const zr_rate_book *book)
{
    int64_t runs = book->whole.runs;
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        runs += book->corrections[part].runs;
    return runs > 0;
}

static void report_disk(const zr_rate_book *book, zr_report *r)
{
    const struct {
        const char *words;
        double rate;
    } rows[] = {
        {"    reading                    {read_bytes_per_second:B}/s", book->read},
        {"    writing                    {write_bytes_per_second:B}/s", book->write},
        {"    both                       {update_bytes_per_second:B}/s", book->mix},
        {"    checksums                  {checksum_bytes_per_second:B}/s", book->checksum},
    };
    if (book->read > 0 || book->checksum > 0)
        zr_report_line(r, "", "  disk");
    zr_report_begin(r, "disk");
    for (int i = 0; i < ZR_COUNT(rows); i++)
        if (rows[i].rate > 0)
            ZR_SENTENCE(r, "", rows[i].words, zr_real(rows[i].rate));
    zr_report_end(r);
}

void zr_rate_book_report(const zr_rate_book *book, zr_report *r)
{
    zr_report_begin_list(r, "settings");
    for (int i = 0; i < book->count; i++)
        report_rates(&book->settings[i], r);
    zr_report_end(r);
    report_disk(book, r);
    zr_task_rates_report(&book->tasks, r);
    if (has_corrections(book))
        zr_report_line(r, "", "  measured / predicted");
    zr_report_begin_list(r, "corrections");
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        report_correction(&book->corrections[part], zr_time_part_names[part], r);
    report_correction(&book->whole, "step", r);
    zr_report_end(r);
}
