#include "base/bytes_text.h"

#include "base/errors.h"

#include <math.h>
#include <stdio.h>

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
