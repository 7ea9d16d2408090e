// Elementwise operations, embedding and column sums, one element at a time, in double.
#include "compute/backends.h"
#include "compute/ref/ref.h"

#include <math.h>
#include <string.h>

static const double gelu_slope = 0.79788456080286535588; // sqrt(2/pi)
static const double gelu_cubic = 0.044715;

static double gelu_gate(double x)
{
    return 1 / (1 + exp(-2 * gelu_slope * (x + gelu_cubic * x * x * x)));
}

double zr_ref_gelu(double x) { return x * gelu_gate(x); }

double zr_ref_gelu_slope(double x)
{
    double gate = gelu_gate(x);
    return gate +
           (isinf(x) ? 0 : x * 2 * gate * (1 - gate) * gelu_slope * (1 + 3 * gelu_cubic * x * x));
}

void zr_ref_gelu_forward(zr_queue *queue, const zr_elements *of, const void *pre, void *out)
{
    for (int64_t i = 0; i < of->n; i++)
        ref_put(of->dtype, out, i, zr_ref_gelu(ref_get(of->dtype, pre, i)));
}

void zr_ref_gelu_backward(zr_queue *queue, const zr_elements *of, const void *pre, void *d)
{
    for (int64_t i = 0; i < of->n; i++)
        ref_put(of->dtype, d, i,
                ref_get(of->dtype, d, i) * zr_ref_gelu_slope(ref_get(of->dtype, pre, i)));
}

void zr_ref_gelu_erf_forward(zr_queue *queue, const zr_elements *of, const void *pre, void *out)
{
    for (int64_t i = 0; i < of->n; i++) {
        double x = ref_get(of->dtype, pre, i);
        ref_put(of->dtype, out, i, x / 2 * erfc(-x / sqrt(2)));
    }
}

void zr_ref_gelu_erf_backward(zr_queue *queue, const zr_elements *of, const void *pre,
                              const void *d, void *d_pre)
{
    for (int64_t i = 0; i < of->n; i++) {
        double x = ref_get(of->dtype, pre, i),
               density = isinf(x) ? 0 : x * exp(-x * x / 2) / sqrt(2 * M_PI);
        ref_put(of->dtype, d_pre, i, ref_get(of->dtype, d, i) * (erfc(-x / sqrt(2)) / 2 + density));
    }
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

void zr_ref_silu_gate_forward(zr_queue *queue, const zr_elements *of, const void *gate,
                              const void *up, void *out)
{
    for (int64_t i = 0; i < of->n; i++) {
        double g = ref_get(of->dtype, gate, i);
        ref_put(of->dtype, out, i, g * logistic(g) * ref_get(of->dtype, up, i));
    }
}

void zr_ref_silu_gate_backward(zr_queue *queue, const zr_elements *of, const void *gate,
                               const void *up, const void *d, void *d_gate, void *d_up)
{
    for (int64_t i = 0; i < of->n; i++) {
        double g = ref_get(of->dtype, gate, i), u = ref_get(of->dtype, up, i),
               from = ref_get(of->dtype, d, i), s = logistic(g);
        ref_put(of->dtype, d_gate, i, from * u * s * (1 + g * (1 - s)));
        ref_put(of->dtype, d_up, i, from * g * s);
    }
}

void zr_ref_add(zr_queue *queue, const zr_sum *of, const void *x, const void *branch, void *out)
{
    for (int64_t i = 0; i < of->n; i++)
        ref_put(of->stream, out, i, ref_get(of->stream, x, i) + ref_get(of->dtype, branch, i));
}

void zr_ref_dropout(zr_queue *queue, const zr_dropout *of, const zr_step_values *values,
                    const void *x, void *out)
{
    float p = of->p, factor = zr_dropout_factor(p);
    uint64_t key = p > 0 ? zr_mask_key(&of->mask, values) : 0;
    for (int64_t i = 0; i < of->n; i++)
        ref_put(of->to, out, i,
                zr_dropout_keep(key, (uint64_t)(of->first + i), p)
                    ? ref_get(of->from, x, i) * factor
                    : 0);
}

void zr_ref_add_bias(zr_queue *queue, const zr_matrix *of, const float *sum, const void *bias,
                     void *out)
{
    for (int64_t i = 0; i < of->rows * of->width; i++)
        ref_put(of->dtype, out, i,
                bias ? sum[i] + ref_get(of->dtype, bias, i % of->width) : sum[i]);
}

void zr_ref_convert(zr_queue *queue, const zr_conversion *of, const void *x, void *out)
{
    for (int64_t i = 0; i < of->n; i++)
        ref_put(of->to, out, i, ref_get(of->from, x, i));
}

void zr_ref_weighted_sum(zr_queue *queue, const zr_weighted *of, const float *sum, const void *x,
                         void *out)
{
    for (int64_t i = 0; i < of->n; i++)
        ref_put(of->dtype, out, i,
                (double)of->of_sum * sum[i] + (double)of->of_x * ref_get(of->dtype, x, i));
}

void zr_ref_scale(zr_queue *queue, const zr_scaling *of, const float *x, void *out)
{
    for (int64_t i = 0; i < of->n; i++)
        ref_put(of->to, out, i, x[i] * of->by);
}

void zr_ref_column_sum(zr_queue *queue, const zr_matrix *of, const void *x, float *out,
                       void *scratch)
{
    for (int64_t j = 0; j < of->width; j++) {
        double sum = of->add ? out[j] : 0;
        for (int64_t i = 0; i < of->rows; i++)
            sum += ref_get(of->dtype, x, i * of->width + j);
        out[j] = (float)sum;
    }
}

void zr_ref_embedding_forward(zr_queue *queue, const zr_embedding *of, const int32_t *ids,
                              const void *tokens, const void *positions, void *out)
{
    int64_t width = of->width;
    for (int64_t i = 0; i < of->rows; i++)
        for (int64_t j = 0; j < width && ids[i] >= 0; j++) {
            double value = ref_get(of->dtype, tokens, ids[i] * width + j);
            if (positions)
                value += ref_get(of->dtype, positions, i % of->seq * width + j);
            ref_put(of->stream, out, i * width + j, value);
        }
}

void zr_ref_add_positions(zr_queue *queue, const zr_embedding *of, const void *positions, float *x)
{
    int64_t width = of->width;
    for (int64_t i = 0; i < of->rows; i++)
        for (int64_t j = 0; j < width; j++) {
            double value = x[i * width + j] + 0.0;
            if (positions)
                value += ref_get(of->dtype, positions, (of->first + i) % of->seq * width + j);
            x[i * width + j] = (float)value;
        }
}

void zr_ref_embedding_backward(zr_queue *queue, const zr_embedding *of, const int32_t *ids,
                               const void *d, float *d_tokens, float *d_positions)
{
    int64_t width = of->width;
    assert(!d_positions || of->seq <= of->positions);
    if (d_tokens && !of->add_tokens)
        memset(d_tokens, 0, sizeof(float) * (size_t)(of->vocab * width));
    if (d_positions && !of->add_positions)
        memset(d_positions, 0, sizeof(float) * (size_t)(of->positions * width));
    for (int64_t i = 0; i < of->rows; i++) {
        assert(ids[i] < of->vocab);
        for (int64_t j = 0; j < width; j++) {
            float from = (float)ref_get(of->stream, d, i * width + j);
            if (d_tokens && ids[i] >= 0)
                d_tokens[ids[i] * width + j] += from;
            if (d_positions)
                d_positions[i % of->seq * width + j] += from;
        }
    }
}

void zr_ref_copy(zr_queue *queue, const zr_bytes *of, const void *from, void *to)
{
    if (of->bytes > 0)
        memcpy(to, from, (size_t)of->bytes);
}

void zr_ref_copy_rows(zr_queue *queue, const zr_strided *of, const void *from, void *to)
{
    for (int64_t i = 0; i < of->rows && of->bytes > 0; i++)
        memcpy((char *)to + i * of->to_stride, (const char *)from + i * of->from_stride,
               (size_t)of->bytes);
}

void zr_ref_fill(zr_queue *queue, const zr_bytes *of, void *to)
{
    if (of->bytes > 0)
        memset(to, of->value, (size_t)of->bytes);
}
