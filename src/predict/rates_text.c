// The book for people: which settings were measured, how fast each activity was, and what
// predictions were off by.
#include "base/dtype.h"
#include "base/text.h"
#include "predict/rates.h"

#include <math.h>
#include <time.h>

enum { NAME_WIDTH = 26 };

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

static void write_activity(const zr_rates *rates, int what, zr_buffer *out)
{
    bool moves = zr_activity_track((zr_activity)what) != ZR_TRACK_PHASE && what != ZR_ACTIVITY_wait,
         flops = rates->at[what][0].flops > 0;
    int count = rates->count[what];
    double low, high;
    range_of_rates(rates, what, flops, &low, &high);
    zr_buffer_printf(out, "    %-*s %3d size%s", NAME_WIDTH, zr_activity_text((zr_activity)what),
                     count, count == 1 ? "" : "s");
    if (high > 0 && moves)
        zr_buffer_printf(out, ", %.4g to %.4g %s", low / 1e9, high / 1e9,
                         flops ? "Gflop/s" : "GB/s");
    zr_buffer_printf(out, "\n");
}

// Writes whose link it is, and what it is like.
static void write_link(const zr_rates *rates, const char *day, zr_buffer *out)
{
    const zr_rate_setting *s = &rates->setting;
    char bytes[ZR_BYTES_TEXT], seconds[ZR_SECONDS_TEXT];
    double rate, latency;
    if (s->machines > 1)
        zr_buffer_printf(out, "  %s, %d machines of %d rank%s", s->path, s->machines, s->together,
                         s->together == 1 ? "" : "s");
    else
        zr_buffer_printf(out, "  messages among %d ranks of this machine", s->together);
    if (zr_link_describe(rates, &rate, &latency)) {
        zr_bytes_text(rate, bytes);
        zr_seconds_text(latency, seconds);
        zr_buffer_printf(out, ": %s/s to a rank, latency %s", bytes, seconds);
    }
    zr_buffer_printf(out, "; last measured %s\n", day);
}

static void write_setting(const zr_rates *rates, const char *day, zr_buffer *out)
{
    const zr_rate_setting *s = &rates->setting;
    zr_buffer_printf(out, "  %s, %d thread%s, %d rank%s at once, %s; last measured %s\n",
                     zr_dtype_name(s->dtype), s->threads, s->threads == 1 ? "" : "s", s->together,
                     s->together == 1 ? "" : "s", s->path, day);
}

static void write_rates(const zr_rates *rates, zr_buffer *out)
{
    char day[32] = "";
    struct tm at;
    time_t measured = (time_t)rates->measured;
    if (gmtime_r(&measured, &at))
        strftime(day, sizeof day, "%Y-%m-%d", &at);
    if (rates->setting.machines)
        write_link(rates, day, out);
    else
        write_setting(rates, day, out);
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++)
        if (rates->count[what])
            write_activity(rates, what, out);
}

static void write_correction(const zr_correction *correction, const char *name, zr_buffer *out)
{
    if (correction->runs)
        zr_buffer_printf(out, "    %-*s x %.3f, +-%.0f%%, %lld run%s\n", NAME_WIDTH, name,
                         correction->factor, 100 * correction->spread, (long long)correction->runs,
                         correction->runs == 1 ? "" : "s");
}

static void write_bandwidth(const char *name, double rate, zr_buffer *out)
{
    char text[ZR_BYTES_TEXT];
    if (rate <= 0)
        return;
    zr_bytes_text(rate, text);
    zr_buffer_printf(out, "    %-*s %s/s\n", NAME_WIDTH, name, text);
}

static bool has_corrections(const zr_rate_book *book)
{
    int64_t runs = book->whole.runs;
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        runs += book->corrections[part].runs;
    return runs > 0;
}

void zr_rate_book_text(const zr_rate_book *book, zr_buffer *out)
{
    for (int i = 0; i < book->count; i++)
        write_rates(&book->settings[i], out);
    if (book->read > 0 || book->checksum > 0)
        zr_buffer_printf(out, "  disk\n");
    write_bandwidth("reading", book->read, out);
    write_bandwidth("writing", book->write, out);
    write_bandwidth("both", book->mix, out);
    write_bandwidth("checksums", book->checksum, out);
    zr_task_rates_text(&book->tasks, out);
    if (!has_corrections(book))
        return;
    zr_buffer_printf(out, "  measured / predicted\n");
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        write_correction(&book->corrections[part], zr_time_part_names[part], out);
    write_correction(&book->whole, "step", out);
}
