// Rows of weights and columns of their products, one element at a time, in double.
#include "compute/backends.h"
#include "compute/ref/ref.h"

#include <math.h>

static double weight_at(const zr_weight_rows *of, const void *weight, const float *scales,
                        int64_t row, int64_t column)
{
    float value;
    if (!of->format)
        return ref_get(of->dtype, weight,
                       of->outputs_first ? row * of->in + column : column * of->out + row);
    const char *codes = (const char *)weight + row * zr_weight_code_bytes(of->format, of->in);
    zr_weight_decode(of->format, codes, scales + row * zr_weight_row_scales(of->format, of->in),
                     column, 1, &value);
    return value;
}

void zr_ref_weight_squares(zr_queue *queue, const zr_weight_rows *of, const void *weight,
                           const float *scales, float *squares)
{
    for (int64_t i = 0; i < of->out; i++) {
        double sum = 0;
        for (int64_t j = 0; j < of->in; j++) {
            double value = weight_at(of, weight, scales, i, j);
            sum += value * value;
        }
        squares[i] = (float)sum;
    }
}

void zr_ref_adapted_squares(zr_queue *queue, const zr_magnitude *of, const float *across,
                            const float *gram, const void *b, float *squares)
{
    for (int64_t i = 0; i < of->out; i++) {
        double sum = squares[i], s = of->scale;
        for (int64_t k = 0; k < of->rank; k++) {
            double twice = 2 * (double)across[k * of->out + i];
            for (int64_t l = 0; l < of->rank; l++)
                twice += s * gram[k * of->rank + l] * ref_get(of->dtype, b, i * of->rank + l);
            sum += s * twice * ref_get(of->dtype, b, i * of->rank + k);
        }
        squares[i] = (float)sum;
    }
}

void zr_ref_magnitude_factors(zr_queue *queue, const zr_magnitude *of, const float *squares,
                              const void *magnitude, float *factors, float *inverse)
{
    for (int64_t i = 0; i < of->out; i++) {
        double by = squares[i] > 0 ? 1 / sqrt((double)squares[i]) : 0;
        inverse[i] = (float)by;
        factors[i] = (float)(by * ref_get(of->dtype, magnitude, i));
    }
}

void zr_ref_scale_columns(zr_queue *queue, const zr_column_scaling *of, const float *factors,
                          const void *x, const float *past, const void *bias, void *out)
{
    for (int64_t i = 0; i < of->rows * of->width; i++) {
        int64_t j = i % of->width;
        double value = ((double)factors[j] - of->less) * ref_get(of->from, x, i);
        value += past ? past[i] : 0;
        value += bias ? ref_get(of->to, bias, j) : 0;
        ref_put(of->to, out, i, value);
    }
}

void zr_ref_column_products(zr_queue *queue, const zr_matrix *of, const float *factors,
                            const void *a, const float *b, float *out)
{
    for (int64_t j = 0; j < of->width; j++) {
        double sum = 0;
        for (int64_t i = j; i < of->rows * of->width; i += of->width)
            sum += ref_get(of->dtype, a, i) * b[i];
        out[j] = (float)(sum * factors[j] + (of->add ? out[j] : 0));
    }
}
