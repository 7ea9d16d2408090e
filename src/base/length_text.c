#include "base/length_text.h"

#include <math.h>
#include <stdio.h>

enum { CLOCK_TEXT = 32 };
static const double MINUTE = 60, HOUR = 3600, DAY = 86400, YEAR = 3e7, MOST = 1e10; // seconds

// Writes a number of seconds in the largest unit that it fills, and hours with minutes.
static void write_length(double seconds, bool rough, char *out, size_t size)
{
    long long minutes = llround(seconds / MINUTE), hours = llround(seconds / HOUR);
    if (seconds < MINUTE - 0.5)
        snprintf(out, size, "%.*f s", seconds < 9.5 && !rough ? 1 : 0, seconds);
    else if (seconds < 9.95 * MINUTE) // 1.2 min: half a minute counts
        snprintf(out, size, "%.2g min", seconds / MINUTE);
    else if (minutes < 60)
        snprintf(out, size, "%lld min", minutes);
    else if (minutes < 10 * 60 && minutes % 60)
        snprintf(out, size, "%lld h %lld min", minutes / 60, minutes % 60);
    else if (hours < 48)
        snprintf(out, size, "%lld h", hours);
    else
        snprintf(out, size, "%.1f days", seconds / DAY);
}

double zr_one_digit(double value)
{
    double ten = value > 0 ? pow(10, floor(log10(value))) : 1;
    return round(value / ten) * ten;
}

// Leaves one digit of a number in its unit.
static double roughen(double seconds)
{
    double unit = seconds < MINUTE ? 1 : seconds < HOUR ? MINUTE : seconds < 2 * DAY ? HOUR : DAY;
    return zr_one_digit(seconds / unit) * unit;
}

static void write_clock(time_t now, double seconds, char *out, size_t size)
{
    struct tm begin, end;
    time_t then = now + (time_t)seconds;
    out[0] = 0;
    if (!localtime_r(&now, &begin) || !localtime_r(&then, &end))
        return;
    bool today = begin.tm_year == end.tm_year && begin.tm_yday == end.tm_yday;
    strftime(out, size, today ? "%H:%M" : "%a %d %b %H:%M", &end);
}

void zr_length_text(double seconds, time_t now, bool rough, char out[static ZR_LENGTH_TEXT])
{
    char length[CLOCK_TEXT], clock[CLOCK_TEXT];
    seconds = fmin(fmax(seconds, 0), MOST);
    write_length(rough ? roughen(seconds) : seconds, rough, length, sizeof length);
    write_clock(now, seconds, clock, sizeof clock);
    bool ends = !rough && seconds >= MINUTE - 0.5 && seconds < YEAR && clock[0];
    snprintf(out, ZR_LENGTH_TEXT, "%s %s%s%s", rough ? "very roughly" : "about", length,
             ends ? ", until " : "", ends ? clock : "");
}

void zr_thousand_steps_text(double step, double start, time_t now, bool rough,
                            char out[static 2 * ZR_LENGTH_TEXT])
{
    char length[ZR_LENGTH_TEXT];
    zr_length_text(1000 * step + start, now, rough, length);
    snprintf(out, 2 * (size_t)ZR_LENGTH_TEXT,
             "A run of 1000 steps, without evaluations and checkpoints: %s", length);
}
