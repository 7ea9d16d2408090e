// Amounts in words: bytes, seconds, and how long something takes.
#include "base/text.h"

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
static double round_seconds_coarsely(double seconds)
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
    write_length(rough ? round_seconds_coarsely(seconds) : seconds, rough, length, sizeof length);
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

void zr_bytes_text(double bytes, char out[static ZR_BYTES_TEXT])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int unit = 0;
    while (bytes >= 999.5 && unit + 1 < ZR_COUNT(units)) {
        bytes /= 1000;
        unit++;
    }
    int digits = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
    double scale = pow(10, digits);
    // Halves are rounded up, as in the paper's tables.
    snprintf(out, ZR_BYTES_TEXT, "%.*f %s", digits, floor(bytes * scale + 0.5) / scale,
             units[unit]);
}

void zr_seconds_text(double seconds, char out[static ZR_SECONDS_TEXT])
{
    bool hours = seconds >= 3600, minutes = seconds >= 60, milli = seconds < 0.9995;
    double value = hours     ? seconds / 3600
                   : minutes ? seconds / 60
                   : milli   ? seconds * 1e3
                             : seconds;
    int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3;
    snprintf(out, ZR_SECONDS_TEXT, "%.*f %s", digits, value,
             hours     ? "h"
             : minutes ? "min"
             : milli   ? "ms"
                       : "s");
}
