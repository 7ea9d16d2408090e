// LayerNorm, softmax and cross-entropy, row by row as the textbook writes them, in double.
#include "compute/ref/ref.h"

#include <math.h>

static void row_statistics(const float *x, int64_t width, double epsilon, double *mean, double *rstd)
{
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < width; j++)
        sum += x[j];
    *mean = sum / (double)width;
    for (int64_t j = 0; j < width; j++)
        squares += (x[j] - *mean) * (x[j] - *mean);
    *rstd = 1 / sqrt(squares / (double)width + epsilon);
}

static void norm_forward(zr_queue *queue, const zr_norm *norm, const void *x_, const float *gamma, const float *beta,
                         void *y_, float *mean, float *rstd)
{
    assert(norm->dtype == ZERO_F32);
    for (int64_t i = 0; i < norm->rows; i++) {
        const float *x = (const float *)x_ + i * norm->width;
        float *y = (float *)y_ + i * norm->width;
        double m, r;
        row_statistics(x, norm->width, norm->epsilon, &m, &r);
        for (int64_t j = 0; j < norm->width; j++)
            y[j] = (float)((x[j] - m) * r * gamma[j] + beta[j]);
        if (mean)
            mean[i] = (float)m;
        if (rstd)
            rstd[i] = (float)r;
    }
}

static void residual_norm_forward(zr_queue *queue, const zr_norm *norm, const void *a_, const void *b_, void *sum_,
                                  const float *gamma, const float *beta, void *y, float *mean, float *rstd)
{
    const float *a = a_, *b = b_;
    float *sum = sum_;
    for (int64_t i = 0; i < norm->rows * norm->width; i++)
        sum[i] = a[i] + b[i];
    norm_forward(queue, norm, sum, gamma, beta, y, mean, rstd);
}

static void norm_backward_row(const zr_norm *norm, const float *dy, const float *x, const float *gamma, double mean,
                              double rstd, float *dx, bool add_dx)
{
    double sum = 0, dot = 0;
    for (int64_t j = 0; j < norm->width; j++) {
        double g = (double)dy[j] * gamma[j];
        sum += g;
        dot += g * (x[j] - mean) * rstd;
    }
    sum /= (double)norm->width;
    dot /= (double)norm->width;
    for (int64_t j = 0; j < norm->width; j++) {
        double d = ((double)dy[j] * gamma[j] - sum - (x[j] - mean) * rstd * dot) * rstd;
        dx[j] = (float)(add_dx ? dx[j] + d : d);
    }
}

static void norm_backward(zr_queue *queue, const zr_norm *norm, const void *dy_, const void *x_, const float *gamma,
                          const float *mean, const float *rstd, void *dx_, bool add_dx, float *dgamma, float *dbeta,
                          bool add_parameters, void *scratch)
{
    assert(norm->dtype == ZERO_F32);
    const float *dy = dy_, *x = x_;
    for (int64_t j = 0; j < norm->width; j++) {
        double scale = 0, shift = 0;
        for (int64_t i = 0; i < norm->rows; i++) {
            double g = dy[i * norm->width + j];
            scale += g * ((double)x[i * norm->width + j] - mean[i]) * rstd[i];
            shift += g;
        }
        dgamma[j] = (float)(add_parameters ? dgamma[j] + scale : scale);
        dbeta[j] = (float)(add_parameters ? dbeta[j] + shift : shift);
    }
    for (int64_t i = 0; i < norm->rows; i++) {
        int64_t at = i * norm->width;
        norm_backward_row(norm, dy + at, x + at, gamma, mean[i], rstd[i], (float *)dx_ + at, add_dx);
    }
}

static size_t norm_scratch(const zr_queue *queue, const zr_norm *norm)
{
    return 0;
}

// The largest of a row, and the sum of e^(x - largest).
static double exponentials(const float *x, int64_t width, double *largest)
{
    double sum = 0;
    *largest = -INFINITY;
    for (int64_t j = 0; j < width; j++)
        *largest = x[j] > *largest ? x[j] : *largest;
    for (int64_t j = 0; j < width; j++)
        sum += exp(x[j] - *largest);
    return sum;
}

static void loss(zr_queue *queue, const zr_loss *loss, void *logits_, const int32_t *target, float *row_loss,
                 bool gradient)
{
    assert(loss->dtype == ZERO_F32);
    for (int64_t i = 0; i < loss->rows; i++) {
        float *logits = (float *)logits_ + i * loss->vocab;
        bool counts = target[i] >= 0;
        double largest = 0, sum = counts ? exponentials(logits, loss->vocab, &largest) : 1;
        assert(target[i] < loss->vocab);
        row_loss[i] = counts ? (float)(log(sum) + (largest - logits[target[i]])) : 0;
        for (int64_t j = 0; gradient && j < loss->vocab; j++)
            logits[j] = counts ? (float)((exp(logits[j] - largest) / sum - (j == target[i])) * loss->factor) : 0;
    }
}

static void softmax(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, void *x_)
{
    assert(dtype == ZERO_F32);
    for (int64_t i = 0; i < rows; i++) {
        float *x = (float *)x_ + i * width;
        double largest, sum = exponentials(x, width, &largest);
        for (int64_t j = 0; j < width; j++)
            x[j] = (float)(exp(x[j] - largest) / sum);
    }
}

const zr_row_ops zr_ref_row_ops = {
    .norm_forward = norm_forward,
    .residual_norm_forward = residual_norm_forward,
    .norm_backward = norm_backward,
    .norm_scratch = norm_scratch,
    .loss = loss,
    .softmax = softmax,
};
