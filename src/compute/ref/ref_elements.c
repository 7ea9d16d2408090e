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

static void ref_gelu_forward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre,
                             void *out)
{
    for (int64_t i = 0; i < n; i++)
        ref_put(dtype, out, i, zr_ref_gelu(ref_get(dtype, pre, i)));
}

static void ref_gelu_backward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre,
                              void *d)
{
    for (int64_t i = 0; i < n; i++)
        ref_put(dtype, d, i, ref_get(dtype, d, i) * zr_ref_gelu_slope(ref_get(dtype, pre, i)));
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static void ref_silu_gate_forward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *gate,
                                  const void *up, void *out)
{
    for (int64_t i = 0; i < n; i++) {
        double g = ref_get(dtype, gate, i);
        ref_put(dtype, out, i, g * logistic(g) * ref_get(dtype, up, i));
    }
}

static void ref_silu_gate_backward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *gate,
                                   const void *up, const void *d, void *d_gate, void *d_up)
{
    for (int64_t i = 0; i < n; i++) {
        double g = ref_get(dtype, gate, i), u = ref_get(dtype, up, i), from = ref_get(dtype, d, i),
               s = logistic(g);
        ref_put(dtype, d_gate, i, from * u * s * (1 + g * (1 - s)));
        ref_put(dtype, d_up, i, from * g * s);
    }
}

static void ref_add(zr_queue *queue, zero_dtype stream, zero_dtype dtype, int64_t n, const void *x,
                    const void *branch, void *out)
{
    for (int64_t i = 0; i < n; i++)
        ref_put(stream, out, i, ref_get(stream, x, i) + ref_get(dtype, branch, i));
}

static void ref_dropout(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n, float p,
                        uint64_t key, int64_t first, const void *x, void *out)
{
    float factor = zr_dropout_factor(p);
    for (int64_t i = 0; i < n; i++)
        ref_put(to, out, i,
                zr_dropout_keep(key, (uint64_t)(first + i), p) ? ref_get(from, x, i) * factor : 0);
}

static void ref_add_bias(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                         const float *sum, const void *bias, void *out)
{
    for (int64_t i = 0; i < rows * width; i++)
        ref_put(dtype, out, i, bias ? sum[i] + ref_get(dtype, bias, i % width) : sum[i]);
}

static void ref_convert(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n, const void *x,
                        void *out)
{
    for (int64_t i = 0; i < n; i++)
        ref_put(to, out, i, ref_get(from, x, i));
}

static void ref_column_sum(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                           const void *x, float *out, bool add, void *scratch)
{
    for (int64_t j = 0; j < width; j++) {
        double sum = add ? out[j] : 0;
        for (int64_t i = 0; i < rows; i++)
            sum += ref_get(dtype, x, i * width + j);
        out[j] = (float)sum;
    }
}

static size_t ref_column_sum_scratch(const zr_queue *queue, int64_t rows, int64_t width)
{
    return 0;
}

static void ref_embedding_forward(zr_queue *queue, zero_dtype dtype, zero_dtype stream,
                                  int64_t rows, int64_t seq, int64_t width, const int32_t *ids,
                                  const void *tokens, const void *positions, void *out)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width && ids[i] >= 0; j++) {
            double value = ref_get(dtype, tokens, ids[i] * width + j);
            if (positions)
                value += ref_get(dtype, positions, i % seq * width + j);
            ref_put(stream, out, i * width + j, value);
        }
}

static void ref_add_positions(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t seq,
                              int64_t first, int64_t width, const void *positions, float *x)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            double value = x[i * width + j] + 0.0;
            if (positions)
                value += ref_get(dtype, positions, (first + i) % seq * width + j);
            x[i * width + j] = (float)value;
        }
}

static void ref_embedding_backward(zr_queue *queue, zero_dtype stream, int64_t rows, int64_t seq,
                                   int64_t width, const int32_t *ids, const void *d, int64_t vocab,
                                   float *d_tokens, bool add_tokens, int64_t max_seq,
                                   float *d_positions, bool add_positions)
{
    assert(!d_positions || seq <= max_seq);
    if (d_tokens && !add_tokens)
        memset(d_tokens, 0, sizeof(float) * (size_t)(vocab * width));
    if (d_positions && !add_positions)
        memset(d_positions, 0, sizeof(float) * (size_t)(max_seq * width));
    for (int64_t i = 0; i < rows; i++) {
        assert(ids[i] < vocab);
        for (int64_t j = 0; j < width; j++) {
            float from = (float)ref_get(stream, d, i * width + j);
            if (d_tokens && ids[i] >= 0)
                d_tokens[ids[i] * width + j] += from;
            if (d_positions)
                d_positions[i % seq * width + j] += from;
        }
    }
}

static void ref_copy(zr_queue *queue, int64_t bytes, const void *from, void *to)
{
    if (bytes > 0)
        memcpy(to, from, (size_t)bytes);
}

static void ref_copy_rows(zr_queue *queue, int64_t rows, int64_t bytes, const void *from,
                          int64_t from_stride, void *to, int64_t to_stride)
{
    for (int64_t i = 0; i < rows && bytes > 0; i++)
        memcpy((char *)to + i * to_stride, (const char *)from + i * from_stride, (size_t)bytes);
}

static void ref_zero(zr_queue *queue, int64_t bytes, void *to)
{
    if (bytes > 0)
        memset(to, 0, (size_t)bytes);
}

const zr_element_ops zr_ref_element_ops = {
    .gelu_forward = ref_gelu_forward,
    .gelu_backward = ref_gelu_backward,
    .silu_gate_forward = ref_silu_gate_forward,
    .silu_gate_backward = ref_silu_gate_backward,
    .add = ref_add,
    .dropout = ref_dropout,
    .add_bias = ref_add_bias,
    .convert = ref_convert,
    .column_sum = ref_column_sum,
    .column_sum_scratch = ref_column_sum_scratch,
    .embedding_forward = ref_embedding_forward,
    .add_positions = ref_add_positions,
    .embedding_backward = ref_embedding_backward,
    .copy = ref_copy,
    .copy_rows = ref_copy_rows,
    .zero = ref_zero,
};
