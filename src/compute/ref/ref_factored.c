// Adafactor's work on stretches of a matrix, one element at a time.
#include "compute/ref/ref.h"

#include <math.h>

static float gradient_at(const zr_factored *s, const zr_factored_values *values,
                         const void *gradient, int64_t i)
{
    return (float)ref_get(s->gradient, gradient, i) * values->gradient_scale;
}

// Whatever was there, the sum wraps as in every backend.
static void add_units(int64_t *to, double units)
{
    *to = (int64_t)((uint64_t)*to + (uint64_t)(int64_t)units);
}

static void add_square(const zr_factored_values *values, double square, int64_t sum[2])
{
    double whole = rint(square / values->coarse), rest = square - whole * values->coarse;
    add_units(&sum[0], whole);
    add_units(&sum[1], rint(rest / values->fine));
}

void zr_ref_factor_sums(zr_queue *queue, const zr_factored *s, const zr_factored_values *values,
                        const void *gradient, int64_t *rows, int64_t *columns)
{
    for (int64_t i = 0; i < s->count; i++) {
        const zr_factored_piece at = zr_factored_piece_at(s, i, i + 1);
        double g = gradient_at(s, values, gradient, i);
        if (rows)
            add_square(values, g * g, &rows[2 * at.row]);
        add_square(values, g * g, &columns[2 * at.column]);
    }
}

static double direction_at(const zr_factored *s, const zr_factored_values *values,
                           const void *gradient, const float *rows, const float *columns, int64_t i)
{
    const zr_factored_piece at = zr_factored_piece_at(s, i, i + 1);
    double by = (rows ? (double)rows[at.row] : 1) * columns[at.column];
    return gradient_at(s, values, gradient, i) * fmin(by, (double)values->most);
}

void zr_ref_factored_squares(zr_queue *queue, const zr_factored *s,
                             const zr_factored_values *values, const void *gradient,
                             const float *rows, const float *columns, double *sums)
{
    const zr_squares chunks = zr_factored_chunks(s);
    for (int64_t k = 0; k < zr_squares_parts(&chunks); k++) {
        sums[k] = 0;
        for (int64_t i = zr_squares_part(&chunks, k); i < zr_squares_part(&chunks, k + 1); i++) {
            double u = direction_at(s, values, gradient, rows, columns, i);
            sums[k] += u * u;
        }
    }
}

void zr_ref_factored_update(zr_queue *queue, const zr_factored *s, const zr_factored_values *values,
                            float *master, const void *gradient, const float *rows,
                            const float *columns, void *parameters)
{
    for (int64_t i = 0; i < s->count; i++) {
        double u = direction_at(s, values, gradient, rows, columns, i);
        master[i] = (float)((double)master[i] * values->keep - values->step * u);
        if (parameters)
            ref_put(s->parameters, parameters, i, master[i]);
    }
}
