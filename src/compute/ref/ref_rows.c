// LayerNorm, RMSNorm, softmax and cross-entropy, row by row as in a textbook, in double.
#include "compute/backends.h"
#include "compute/ref/ref.h"

#include <math.h>

// Computes mean and rstd of elements at .. at + width - 1 of x.
static void row_statistics(const zr_norm *norm, const void *x, int64_t at, double *mean,
                           double *rstd)
{
    double sum = 0, squares = 0;
    for (int64_t j = at; j < at + norm->width; j++)
        sum += ref_get(norm->stream, x, j);
    *mean = sum / (double)norm->width;
    for (int64_t j = at; j < at + norm->width; j++) {
        double distance = ref_get(norm->stream, x, j) - *mean;
        squares += distance * distance;
    }
    *rstd = 1 / sqrt(squares / (double)norm->width + norm->epsilon);
}

static void ref_norm_forward(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma,
                             const void *beta, void *y, float *mean, float *rstd)
{
    for (int64_t i = 0; i < norm->rows; i++) {
        int64_t at = i * norm->width;
        double m, r;
        row_statistics(norm, x, at, &m, &r);
        for (int64_t j = 0; j < norm->width; j++) {
            double normal = (ref_get(norm->stream, x, at + j) - m) * r;
            ref_put(norm->dtype, y, at + j,
                    normal * ref_get(norm->dtype, gamma, j) + ref_get(norm->dtype, beta, j));
        }
        if (mean)
            mean[i] = (float)m;
        if (rstd)
            rstd[i] = (float)r;
    }
}

static void ref_residual_norm_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                      const void *branch, void *sum, const void *gamma,
                                      const void *beta, void *y, float *mean, float *rstd)
{
    for (int64_t i = 0; i < norm->rows * norm->width; i++)
        ref_put(norm->stream, sum, i,
                ref_get(norm->stream, x, i) + ref_get(norm->dtype, branch, i));
    ref_norm_forward(queue, norm, sum, gamma, beta, y, mean, rstd);
}

// Sets the gradient of a parameter, or adds the sum that would be set.
static void store_parameter_gradient(float *gradient, bool add, double sum)
{
    *gradient = add ? *gradient + (float)sum : (float)sum;
}

static void norm_backward_row(const zr_norm *norm, const void *dy, const void *x, const void *gamma,
                              int64_t at, double mean, double rstd, const void *past, void *dx)
{
    double sum = 0, dot = 0;
    for (int64_t j = 0; j < norm->width; j++) {
        double g = ref_get(norm->dtype, dy, at + j) * ref_get(norm->dtype, gamma, j);
        sum += g;
        dot += g * (ref_get(norm->stream, x, at + j) - mean) * rstd;
    }
    sum /= (double)norm->width;
    dot /= (double)norm->width;
    for (int64_t j = 0; j < norm->width; j++) {
        double g = ref_get(norm->dtype, dy, at + j) * ref_get(norm->dtype, gamma, j);
        double d = (g - sum - (ref_get(norm->stream, x, at + j) - mean) * rstd * dot) * rstd;
        ref_put(norm->stream, dx, at + j, past ? ref_get(norm->stream, past, at + j) + d : d);
    }
}

static void ref_norm_backward(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x,
                              const void *gamma, const float *mean, const float *rstd,
                              const void *past, void *dx, float *dgamma, float *dbeta,
                              bool add_parameters, void *scratch)
{
    for (int64_t j = 0; (dgamma || dbeta) && j < norm->width; j++) {
        double scale = 0, shift = 0;
        for (int64_t i = 0; i < norm->rows; i++) {
            double g = ref_get(norm->dtype, dy, i * norm->width + j);
            scale += g * (ref_get(norm->stream, x, i * norm->width + j) - mean[i]) * rstd[i];
            shift += g;
        }
        if (dgamma)
            store_parameter_gradient(&dgamma[j], add_parameters, scale);
        if (dbeta)
            store_parameter_gradient(&dbeta[j], add_parameters, shift);
    }
    for (int64_t i = 0; i < norm->rows; i++)
        norm_backward_row(norm, dy, x, gamma, i * norm->width, mean[i], rstd[i], past, dx);
}

static size_t ref_norm_scratch(const zr_queue *queue, const zr_norm *norm) { return 0; }

static void ref_rms_forward(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma,
                            void *y, float *rstd)
{
    for (int64_t i = 0; i < norm->rows; i++) {
        int64_t at = i * norm->width;
        double squares = 0;
        for (int64_t j = 0; j < norm->width; j++)
            squares += ref_get(norm->stream, x, at + j) * ref_get(norm->stream, x, at + j);
        double r = 1 / sqrt(squares / (double)norm->width + norm->epsilon);
        for (int64_t j = 0; j < norm->width; j++)
            ref_put(norm->dtype, y, at + j,
                    ref_get(norm->stream, x, at + j) * r * ref_get(norm->dtype, gamma, j));
        if (rstd)
            rstd[i] = (float)r;
    }
}

static void ref_residual_rms_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                     const void *branch, void *sum, const void *gamma, void *y,
                                     float *rstd)
{
    for (int64_t i = 0; i < norm->rows * norm->width; i++)
        ref_put(norm->stream, sum, i,
                ref_get(norm->stream, x, i) + ref_get(norm->dtype, branch, i));
    ref_rms_forward(queue, norm, sum, gamma, y, rstd);
}

static void ref_rms_backward(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x,
                             const void *gamma, const float *rstd, const void *past, void *dx,
                             float *dgamma, bool add_parameters, void *scratch)
{
    for (int64_t j = 0; dgamma && j < norm->width; j++) {
        double scale = 0;
        for (int64_t i = 0; i < norm->rows; i++)
            scale += ref_get(norm->dtype, dy, i * norm->width + j) *
                     ref_get(norm->stream, x, i * norm->width + j) * rstd[i];
        store_parameter_gradient(&dgamma[j], add_parameters, scale);
    }
    for (int64_t i = 0; i < norm->rows; i++) {
        int64_t at = i * norm->width;
        double dot = 0, r = rstd[i];
        for (int64_t j = 0; j < norm->width; j++)
            dot += ref_get(norm->dtype, dy, at + j) * ref_get(norm->dtype, gamma, j) *
                   ref_get(norm->stream, x, at + j) * r;
        dot /= (double)norm->width;
        for (int64_t j = 0; j < norm->width; j++) {
            double g = ref_get(norm->dtype, dy, at + j) * ref_get(norm->dtype, gamma, j);
            double d = (g - ref_get(norm->stream, x, at + j) * r * dot) * r;
            ref_put(norm->stream, dx, at + j, past ? ref_get(norm->stream, past, at + j) + d : d);
        }
    }
}

// Returns the largest of elements at .. at + width - 1, -INFINITY if there are none.
static double ref_largest_of(zero_dtype dtype, const void *x, int64_t at, int64_t width)
{
    double largest = -INFINITY;
    for (int64_t j = at; j < at + width; j++)
        largest = fmax(largest, ref_get(dtype, x, j));
    return largest;
}

// Returns the sum of e^(x - shift) over the same.
static double sum_exponentials(zero_dtype dtype, const void *x, int64_t at, int64_t width,
                               double shift)
{
    double sum = 0;
    for (int64_t j = at; j < at + width; j++)
        sum += exp(ref_get(dtype, x, j) - shift);
    return sum;
}

static void ref_loss(zr_queue *queue, const zr_loss *loss, void *logits, const int32_t *target,
                     float *row_loss, bool gradient)
{
    for (int64_t i = 0; i < loss->rows; i++) {
        int64_t at = i * loss->vocab;
        bool counts = target[i] >= 0;
        double largest = counts ? ref_largest_of(loss->dtype, logits, at, loss->vocab) : 0,
               sum = counts ? sum_exponentials(loss->dtype, logits, at, loss->vocab, largest) : 1;
        assert(target[i] < loss->vocab);
        row_loss[i] =
            counts ? (float)(log(sum) + (largest - ref_get(loss->dtype, logits, at + target[i])))
                   : 0;
        for (int64_t j = 0; gradient && j < loss->vocab; j++) {
            double probability = exp(ref_get(loss->dtype, logits, at + j) - largest) / sum;
            ref_put(loss->dtype, logits, at + j,
                    counts ? (probability - (j == target[i])) * loss->factor : 0);
        }
    }
}

static void ref_loss_parts(zr_queue *queue, const zr_loss *loss, const void *logits,
                           const int32_t *target, zr_loss_part *parts)
{
    for (int64_t i = 0; i < loss->rows; i++) {
        int64_t at = i * loss->vocab;
        parts[i] = (zr_loss_part){.largest = -INFINITY, .aimed = -INFINITY};
        if (target[i] == ZR_TARGET_NONE)
            continue;
        double largest = ref_largest_of(loss->dtype, logits, at, loss->vocab);
        parts[i].largest = (float)largest;
        parts[i].sum = sum_exponentials(loss->dtype, logits, at, loss->vocab,
                                        largest == -INFINITY ? 0 : largest);
        if (target[i] >= 0 && target[i] < loss->vocab)
            parts[i].aimed = (float)ref_get(loss->dtype, logits, at + target[i]);
    }
}

static void ref_loss_finish(zr_queue *queue, const zr_loss *loss, int slices,
                            const zr_loss_part *parts, int64_t stride, const int32_t *target,
                            void *logits, float *row_loss, bool gradient)
{
    for (int64_t i = 0; i < loss->rows; i++) {
        int64_t at = i * loss->vocab;
        bool counts = target[i] != ZR_TARGET_NONE;
        zr_loss_part whole = zr_loss_parts_join(parts + i, slices, stride);
        row_loss[i] = counts ? (float)(log(whole.sum) + ((double)whole.largest - whole.aimed)) : 0;
        for (int64_t j = 0; gradient && j < loss->vocab; j++) {
            double x = ref_get(loss->dtype, logits, at + j),
                   probability = exp(x - whole.largest) / whole.sum;
            ref_put(loss->dtype, logits, at + j,
                    counts ? (probability - (j == target[i])) * loss->factor : 0);
        }
    }
}

static void ref_softmax(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, void *x)
{
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i * width;
        double largest = ref_largest_of(dtype, x, at, width),
               sum = sum_exponentials(dtype, x, at, width, largest);
        for (int64_t j = at; j < at + width; j++)
            ref_put(dtype, x, j, exp(ref_get(dtype, x, j) - largest) / sum);
    }
}

const zr_row_ops zr_ref_row_ops = {
    .norm_forward = ref_norm_forward,
    .residual_norm_forward = ref_residual_norm_forward,
    .norm_backward = ref_norm_backward,
    .norm_scratch = ref_norm_scratch,
    .rms_forward = ref_rms_forward,
    .residual_rms_forward = ref_residual_rms_forward,
    .rms_backward = ref_rms_backward,
    .loss = ref_loss,
    .loss_parts = ref_loss_parts,
    .loss_finish = ref_loss_finish,
    .softmax = ref_softmax,
};
