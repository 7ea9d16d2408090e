// A forecast in words and as JSON.
#include "base/text.h"
#include "base/json.h"
#include "predict/forecast.h"

#include <string.h>

static void append_rough(const zr_forecast *f, zr_buffer *out)
{
    char step[ZR_SECONDS_TEXT];
    int digits = 0;
    zr_seconds_text(zr_one_digit(f->seconds), step);
    // Without the zeros that would be digits.
    char *point = strchr(step, '.'), *unit = strchr(step, ' ');
    while (point && unit - digits > point && (unit[-digits - 1] == '0' || unit[-digits - 1] == '.'))
        digits++;
    memmove(unit - digits, unit, strlen(unit) + 1);
    zr_buffer_printf(out, "a step takes roughly %s; bound by %s; %.0f%% of it is guessed", step,
                     f->bound, 100 * f->unknown);
}

static void append_exact(const zr_forecast *f, zr_buffer *out)
{
    char step[ZR_SECONDS_TEXT], low[ZR_SECONDS_TEXT], high[ZR_SECONDS_TEXT];
    zr_seconds_text(f->seconds, step);
    zr_seconds_text(f->low, low);
    zr_seconds_text(f->high, high);
    zr_buffer_printf(out, "a step takes %s (%s to %s), %.0f tokens/s; bound by %s", step, low, high,
                     f->tokens, f->bound);
    const char *separator = " (";
    for (int p = 0; p < ZR_TIME_PARTS; p++) {
        if (f->parts[p] < 0.005 * f->seconds)
            continue;
        zr_buffer_printf(out, "%s%s %.0f%%", separator, zr_time_part_names[p],
                         100 * f->parts[p] / f->seconds);
        separator = ", ";
    }
    zr_buffer_printf(out, "%s", strcmp(separator, ", ") == 0 ? ")" : "");
    if (f->unknown >= 0.05)
        zr_buffer_printf(out, "; %.0f%% of it is guessed", 100 * f->unknown);
}

void zr_forecast_text(const zr_forecast *f, zr_buffer *out)
{
    if (zr_forecast_is_unknown(f))
        zr_buffer_printf(out,
                         "how long a step takes is not known yet (%.0f%% of it would be guessed)",
                         100 * f->unknown);
    else if (zr_forecast_is_rough(f))
        append_rough(f, out);
    else
        append_exact(f, out);
}

static void put_time(zr_json_writer *w, const char *key, const zr_forecast *f, double value)
{
    if (zr_forecast_is_unknown(f))
        zr_json_null(w, key);
    else
        zr_json_real(w, key, value);
}

void zr_forecast_json(const zr_forecast *f, zr_json_writer *w, const char *key)
{
    zr_json_begin_object(w, key);
    put_time(w, "seconds", f, f->seconds);
    put_time(w, "low", f, f->low);
    put_time(w, "high", f, f->high);
    put_time(w, "tokens_per_second", f, f->tokens);
    zr_json_real(w, "flops", f->flops);
    zr_json_real(w, "guessed", f->unknown);
    put_time(w, "bubble", f, f->bubble);
    zr_json_text(w, "bound", f->bound);
    zr_json_begin_object(w, "parts");
    for (int p = 0; p <= ZR_TIME_DISK; p++)
        put_time(w, zr_time_part_names[p], f, f->parts[p]);
    zr_json_end(w);
    zr_json_end(w);
}
