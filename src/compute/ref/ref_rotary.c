// Rotary embedding, pair by pair. Angles are products rounded to fp32, as in torch; the rest is in
// double.
#include "compute/ref/ref.h"

#include <math.h>

void zr_ref_rotary_table(zr_queue *queue, const zr_rotary *rotary, float *table)
{
    int64_t half = rotary->head_dim / 2;
    for (int64_t i = 0; i < rotary->seq; i++)
        for (int64_t j = 0; j < half; j++) {
            float angle = (float)(rotary->first + i) * rotary->frequency[j];
            table[i * 2 * half + j] = (float)cos(angle) * rotary->factor;
            table[i * 2 * half + half + j] = (float)sin(angle) * rotary->factor;
        }
}

void zr_ref_rotate(zr_queue *queue, const zr_rotary *rotary, int64_t heads, const float *table,
                   bool back, const void *x, int64_t x_step, void *y, int64_t y_step)
{
    int64_t half = rotary->head_dim / 2;
    for (int64_t row = 0; row < rotary->batch * rotary->seq; row++)
        for (int64_t pair = 0; pair < heads * half; pair++) {
            int64_t at = pair / half * 2 * half + pair % half;
            const float *angles = table + row % rotary->seq * 2 * half + pair % half;
            double c = angles[0], s = back ? -angles[half] : angles[half];
            double x1 = ref_get(rotary->from, x, row * x_step + at),
                   x2 = ref_get(rotary->from, x, row * x_step + at + half);
            ref_put(rotary->to, y, row * y_step + at, x1 * c - x2 * s);
            ref_put(rotary->to, y, row * y_step + at + half, x2 * c + x1 * s);
        }
}
