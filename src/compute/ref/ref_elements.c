// Elementwise operations, embedding and column sums, one element at a time, in double.
#include "compute/backends.h"
#include "compute/ref/ref.h"

#include <math.h>
#include <string.h>

static const double gelu_slope = 0.79788456080286535588; // sqrt(2/pi)
static const double gelu_cubic = 0.044715;

// (1 + tanh(u)) / 2 without the cancellation that the sum suffers where x is far below zero.
static double gelu_gate(double x)
{
    return 1 / (1 + exp(-2 * gelu_slope * (x + gelu_cubic * x * x * x)));
}

static void gelu_forward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre, void *out)
{
    assert(dtype == ZERO_F32);
    for (int64_t i = 0; i < n; i++) {
        double x = ((const float *)pre)[i];
        ((float *)out)[i] = (float)(x * gelu_gate(x));
    }
}

static void gelu_backward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre, void *d)
{
    assert(dtype == ZERO_F32);
    for (int64_t i = 0; i < n; i++) {
        double x = ((const float *)pre)[i], gate = gelu_gate(x);
        double slope = 2 * gate * (1 - gate) * gelu_slope * (1 + 3 * gelu_cubic * x * x);
        ((float *)d)[i] = (float)(((float *)d)[i] * (gate + x * slope));
    }
}

static void add(zr_queue *queue, zero_dtype dtype, int64_t n, const void *a, const void *b, void *out)
{
    assert(dtype == ZERO_F32);
    for (int64_t i = 0; i < n; i++)
        ((float *)out)[i] = ((const float *)a)[i] + ((const float *)b)[i];
}

static void dropout(zr_queue *queue, zero_dtype dtype, int64_t n, float p, uint64_t key, const void *x, void *out)
{
    assert(dtype == ZERO_F32);
    float factor = zr_dropout_factor(p);
    for (int64_t i = 0; i < n; i++)
        ((float *)out)[i] = zr_dropout_keep(key, (uint64_t)i, p) ? ((const float *)x)[i] * factor : 0;
}

static void column_sum(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, const void *x, float *out,
                       bool add, void *scratch)
{
    assert(dtype == ZERO_F32);
    for (int64_t j = 0; j < width; j++) {
        double sum = add ? out[j] : 0;
        for (int64_t i = 0; i < rows; i++)
            sum += ((const float *)x)[i * width + j];
        out[j] = (float)sum;
    }
}

static size_t column_sum_scratch(const zr_queue *queue, int64_t rows, int64_t width)
{
    return 0;
}

static void embedding_forward(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t seq, int64_t width,
                              const int32_t *ids, const void *tokens, const void *positions, void *out_)
{
    assert(dtype == ZERO_F32);
    for (int64_t i = 0; i < rows; i++) {
        const float *token = (const float *)tokens + ids[i] * width;
        const float *position = positions ? (const float *)positions + i % seq * width : NULL;
        float *out = (float *)out_ + i * width;
        for (int64_t j = 0; j < width; j++)
            out[j] = position ? token[j] + position[j] : token[j];
    }
}

static void embedding_backward(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t seq, int64_t width,
                               const int32_t *ids, const void *d_, int64_t vocab, float *d_tokens, bool add_tokens,
                               int64_t max_seq, float *d_positions, bool add_positions)
{
    assert(dtype == ZERO_F32 && (!d_positions || seq <= max_seq));
    if (!add_tokens)
        memset(d_tokens, 0, sizeof(float) * (size_t)(vocab * width));
    if (d_positions && !add_positions)
        memset(d_positions, 0, sizeof(float) * (size_t)(max_seq * width));
    for (int64_t i = 0; i < rows; i++) {
        const float *d = (const float *)d_ + i * width;
        assert(ids[i] >= 0 && ids[i] < vocab);
        for (int64_t j = 0; j < width; j++)
            d_tokens[ids[i] * width + j] += d[j];
        for (int64_t j = 0; d_positions && j < width; j++)
            d_positions[i % seq * width + j] += d[j];
    }
}

static void copy(zr_queue *queue, int64_t bytes, const void *from, void *to)
{
    if (bytes > 0)
        memcpy(to, from, (size_t)bytes);
}

static void zero(zr_queue *queue, int64_t bytes, void *to)
{
    if (bytes > 0)
        memset(to, 0, (size_t)bytes);
}

const zr_element_ops zr_ref_element_ops = {
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .add = add,
    .dropout = dropout,
    .column_sum = column_sum,
    .column_sum_scratch = column_sum_scratch,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .copy = copy,
    .zero = zero,
};
