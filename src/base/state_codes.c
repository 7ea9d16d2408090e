#include "base/state_codes.h"

#include "base/numbers.h"

#include <math.h>

void zr_state_block_widen(const float map[ZR_DYNAMIC_CODES], const uint8_t *codes, float scale,
                          int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = map[codes[i]] * scale;
}

// Finds codes that give the values with this scale, up to sign of zeros. Returns false if a value
// has none.
static bool find_codes(const float map[ZR_DYNAMIC_CODES], const float *values, int64_t n,
                       float scale, uint8_t *codes)
{
    for (int64_t i = 0; i < n; i++) {
        int nearest = zr_dynamic_code(map, values[i] / scale), found = -1;
        for (int code = ZR_MAX(nearest - 1, 0);
             code <= ZR_MIN(nearest + 1, ZR_DYNAMIC_CODES - 1) && found < 0; code++)
            if (map[code] * scale == values[i])
                found = code;
        if (found < 0)
            return false;
        codes[i] = (uint8_t)found;
    }
    return true;
}

// The largest magnitude is that of the map's first or last value times the scale, so one of these
// and of the numbers next to it is the scale, if there is one that gives all values.
static bool find_scale(const float map[ZR_DYNAMIC_CODES], const float *values, int64_t n,
                       float largest, float *scale, uint8_t *codes)
{
    const float ends[] = {map[ZR_DYNAMIC_CODES - 1], -map[0]};
    for (int e = 0; e < ZR_COUNT(ends) && ends[e] > 0; e++) {
        float at = largest / ends[e];
        const float near[] = {at, nextafterf(at, INFINITY), nextafterf(at, 0),
                              nextafterf(nextafterf(at, INFINITY), INFINITY),
                              nextafterf(nextafterf(at, 0), 0)};
        for (int i = 0; i < ZR_COUNT(near); i++) {
            *scale = near[i];
            if (isfinite(*scale) && *scale > 0 && find_codes(map, values, n, *scale, codes))
                return true;
        }
    }
    return false;
}

float zr_state_block_narrow(const float map[ZR_DYNAMIC_CODES], const float *values, int64_t n,
                            uint8_t *codes)
{
    float largest = 0, scale = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    if (largest > 0 && find_scale(map, values, n, largest, &scale, codes))
        return scale;
    for (int64_t i = 0; i < n; i++)
        codes[i] = zr_dynamic_code(map, largest > 0 ? values[i] / largest : 0);
    return largest;
}
