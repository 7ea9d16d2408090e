// A forecast in words and as JSON.
#include "base/bytes_text.h"
#include "base/json.h"
#include "predict/forecast.h"

#include <string.h>

void zr_forecast_text(const zr_forecast *f, zr_buffer *out)
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

void zr_forecast_json(const zr_forecast *f, zr_buffer *out)
{
    zr_buffer_printf(out, "{\"seconds\":");
    zr_json_append_double(out, f->seconds);
    zr_buffer_printf(out, ",\"low\":");
    zr_json_append_double(out, f->low);
    zr_buffer_printf(out, ",\"high\":");
    zr_json_append_double(out, f->high);
    zr_buffer_printf(out, ",\"tokens_per_second\":");
    zr_json_append_double(out, f->tokens);
    zr_buffer_printf(out, ",\"flops\":");
    zr_json_append_double(out, f->flops);
    zr_buffer_printf(out, ",\"guessed\":");
    zr_json_append_double(out, f->unknown);
    zr_buffer_printf(out, ",\"bubble\":");
    zr_json_append_double(out, f->bubble);
    zr_buffer_printf(out, ",\"bound\":\"%s\",\"parts\":{", f->bound);
    for (int p = 0; p <= ZR_TIME_DISK; p++) {
        zr_buffer_printf(out, "%s\"%s\":", p ? "," : "", zr_time_part_names[p]);
        zr_json_append_double(out, f->parts[p]);
    }
    zr_buffer_printf(out, "}}");
}
