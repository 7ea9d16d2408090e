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

static void layer_norm_forward(const zr_norm *norm, const void *x, const void *gamma,
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

static void layer_norm_backward(const zr_norm *norm, const void *dy, const void *x,
                                const void *gamma, const float *mean, const float *rstd,
                                const void *past, void *dx, float *dgamma, float *dbeta)
{
    for (int64_t j = 0; (dgamma || dbeta) && j < norm->width; j++) {
        double scale = 0, shift = 0;
        for (int64_t i = 0; i < norm->rows; i++) {
            double g = ref_get(norm->dtype, dy, i * norm->width + j);
            scale += g * (ref_get(norm->stream, x, i * norm->width + j) - mean[i]) * rstd[i];
            shift += g;
        }
        if (dgamma)
            store_parameter_gradient(&dgamma[j], norm->add_parameters, scale);
        if (dbeta)
            store_parameter_gradient(&dbeta[j], norm->add_parameters, shift);
    }
    for (int64_t i = 0; i < norm->rows; i++)
        norm_backward_row(norm, dy, x, gamma, i * norm->width, mean[i], rstd[i], past, dx);
}

static void rms_norm_forward(const zr_norm *norm, const void *x, const void *gamma, void *y,
                             float *rstd)
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

void zr_ref_norm_forward(zr_queue *queue, const zr_norm *norm, const void *x, const void *branch,
                         void *sum, const void *gamma, const void *beta, void *y, float *mean,
                         float *rstd)
{
    for (int64_t i = 0; branch && i < norm->rows * norm->width; i++)
        ref_put(norm->stream, sum, i,
                ref_get(norm->stream, x, i) + ref_get(norm->dtype, branch, i));
    if (norm->rms)
        rms_norm_forward(norm, branch ? sum : x, gamma, y, rstd);
    else
        layer_norm_forward(norm, branch ? sum : x, gamma, beta, y, mean, rstd);
}

static void rms_norm_backward(const zr_norm *norm, const void *dy, const void *x, const void *gamma,
                              const float *rstd, const void *past, void *dx, float *dgamma)
{
    for (int64_t j = 0; dgamma && j < norm->width; j++) {
        double scale = 0;
        for (int64_t i = 0; i < norm->rows; i++)
            scale += ref_get(norm->dtype, dy, i * norm->width + j) *
                     ref_get(norm->stream, x, i * norm->width + j) * rstd[i];
        store_parameter_gradient(&dgamma[j], norm->add_parameters, scale);
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

void zr_ref_norm_backward(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x,
                          const void *gamma, const float *mean, const float *rstd, const void *past,
                          void *dx, float *dgamma, float *dbeta, void *scratch)
{
    if (norm->rms)
        rms_norm_backward(norm, dy, x, gamma, rstd, past, dx, dgamma);
    else
        layer_norm_backward(norm, dy, x, gamma, mean, rstd, past, dx, dgamma, dbeta);
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

// Returns by what the gradient of a row is multiplied.
static double ref_row_factor(const zr_loss *loss, const float *factor, const float *weight,
                             int64_t row)
{
    return !loss->gradient ? 0 : weight ? (double)*factor * weight[row] : *factor;
}

void zr_ref_loss(zr_queue *queue, const zr_loss *loss, const int32_t *target, const float *factor,
                 const float *weight, void *logits, float *row_loss)
{
    for (int64_t i = 0; i < loss->rows; i++) {
        int64_t at = i * ZR_LOGIT_STEP(loss);
        bool counts = target[i] >= 0;
        double by = ref_row_factor(loss, factor, weight, i);
        double largest = counts ? ref_largest_of(loss->dtype, logits, at, loss->vocab) : 0,
               sum = counts ? sum_exponentials(loss->dtype, logits, at, loss->vocab, largest) : 1;
        assert(target[i] < loss->vocab);
        row_loss[i] =
            counts ? (float)(log(sum) + (largest - ref_get(loss->dtype, logits, at + target[i])))
                   : 0;
        for (int64_t j = 0; loss->gradient && j < loss->vocab; j++) {
            double probability = exp(ref_get(loss->dtype, logits, at + j) - largest) / sum;
            ref_put(loss->dtype, logits, at + j,
                    counts ? (probability - (j == target[i])) * by : 0);
        }
    }
}

void zr_ref_loss_parts(zr_queue *queue, const zr_loss *loss, const int32_t *target,
                       const void *logits, zr_loss_part *parts)
{
    for (int64_t i = 0; i < loss->rows; i++) {
        int64_t at = i * ZR_LOGIT_STEP(loss);
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

void zr_ref_loss_finish(zr_queue *queue, const zr_loss *loss, const zr_loss_part *parts,
                        const int32_t *target, const float *factor, const float *weight,
                        void *logits, float *row_loss)
{
    for (int64_t i = 0; i < loss->rows; i++) {
        int64_t at = i * ZR_LOGIT_STEP(loss);
        bool counts = target[i] != ZR_TARGET_NONE;
        double by = ref_row_factor(loss, factor, weight, i);
        zr_loss_part whole = zr_loss_parts_join(parts + i, loss->slices, loss->stride);
        row_loss[i] = counts ? (float)(log(whole.sum) + ((double)whole.largest - whole.aimed)) : 0;
        for (int64_t j = 0; loss->gradient && j < loss->vocab; j++) {
            double x = ref_get(loss->dtype, logits, at + j),
                   probability = exp(x - whole.largest) / whole.sum;
            ref_put(loss->dtype, logits, at + j,
                    counts ? (probability - (j == target[i])) * by : 0);
        }
    }
}

void zr_ref_softmax(zr_queue *queue, const zr_matrix *matrix, void *x)
{
    int64_t width = matrix->width;
    zero_dtype dtype = matrix->dtype;
    for (int64_t i = 0; i < matrix->rows; i++) {
        int64_t at = i * width;
        double largest = ref_largest_of(dtype, x, at, width),
               sum = sum_exponentials(dtype, x, at, width, largest);
        for (int64_t j = at; j < at + width; j++)
            ref_put(dtype, x, j, exp(ref_get(dtype, x, j) - largest) / sum);
    }
}

void zr_ref_local_ids(zr_queue *queue, const zr_id_range *range, const int32_t *ids, int32_t *out)
{
    for (int64_t i = 0; i < range->n; i++) {
        bool here = ids[i] >= range->first && ids[i] < range->first + range->count;
        out[i] = ids[i] < 0 ? ZR_TARGET_NONE : here ? (int32_t)(ids[i] - range->first) : -1;
    }
}

void zr_ref_sum_rows(zr_queue *queue, const zr_row_sum *of, const double *divisor, const float *x,
                     double *out)
{
    double sum = 0;
    for (int64_t i = 0; i < of->n; i++)
        sum += x[i];
    *out = *divisor != 0 ? sum / *divisor : 0;
}
