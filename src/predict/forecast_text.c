// A forecast in words and as JSON.
#include "base/json.h"
#include "base/text.h"
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

static void append_time(const zr_forecast *f, double value, zr_buffer *out)
{
    if (zr_forecast_is_unknown(f))
        zr_buffer_printf(out, "null");
    else
        zr_json_append_double(out, value);
}

void zr_forecast_json(const zr_forecast *f, zr_buffer *out)
{
    zr_buffer_printf(out, "{\"seconds\":");
    append_time(f, f->seconds, out);
    zr_buffer_printf(out, ",\"low\":");
    append_time(f, f->low, out);
    zr_buffer_printf(out, ",\"high\":");
    append_time(f, f->high, out);
    zr_buffer_printf(out, ",\"tokens_per_second\":");
    append_time(f, f->tokens, out);
    zr_buffer_printf(out, ",\"flops\":");
    zr_json_append_double(out, f->flops);
    zr_buffer_printf(out, ",\"guessed\":");
    zr_json_append_double(out, f->unknown);
    zr_buffer_printf(out, ",\"bubble\":");
    append_time(f, f->bubble, out);
    zr_buffer_printf(out, ",\"bound\":\"%s\",\"parts\":{", f->bound);
    for (int p = 0; p <= ZR_TIME_DISK; p++) {
        zr_buffer_printf(out, "%s\"%s\":", p ? "," : "", zr_time_part_names[p]);
        append_time(f, f->parts[p], out);
    }
    zr_buffer_printf(out, "}}");
}
