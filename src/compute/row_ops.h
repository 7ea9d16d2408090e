// The table of work on rows of activations: norms, softmax and the loss. compute.h states what
// holds for all tables.
#ifndef ZR_COMPUTE_ROW_OPS_H
#define ZR_COMPUTE_ROW_OPS_H

#include "base/errors.h"
#include <zero/tensor.h>

typedef struct zr_queue zr_queue;

typedef struct zr_norm { // LayerNorm or RMSNorm over the last dimension; statistics in fp32
    // The type of y, dy, gamma, beta, and of the branch that residual_norm_forward adds.
    zero_dtype dtype;
    zero_dtype stream; // of x, sum, dx: the residual stream
    int64_t rows, width;
    float epsilon;
} zr_norm;

typedef struct zr_loss { // softmax cross-entropy of rows of logits
    zero_dtype dtype;    // of the logits and of the gradient that replaces them
    int64_t rows, vocab;
    float factor; // gradient = (softmax - onehot) * factor
} zr_loss;

typedef struct zr_row_ops {
    // y = (x - mean) * rstd * gamma + beta; mean and rstd (rows) may be NULL in an evaluation.
    void (*norm_forward)(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma,
                         const void *beta, void *y, float *mean, float *rstd);
    // At once, sum = x + branch, and y = the norm of sum as it was rounded. sum may be x, or
    // branch if stream == dtype.
    void (*residual_norm_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                  const void *branch, void *sum, const void *gamma,
                                  const void *beta, void *y, float *mean, float *rstd);
    // dx = [past +] gradient. past is the gradient that arrives around the norm, in the stream's
    // type; it may be dx itself, or NULL. dgamma and dbeta (width) are set, or added to with
    // add_parameters; each may be NULL if nobody wants it. scratch: norm_scratch bytes, 64-byte
    // aligned.
    void (*norm_backward)(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x,
                          const void *gamma, const float *mean, const float *rstd, const void *past,
                          void *dx, float *dgamma, float *dbeta, bool add_parameters,
                          void *scratch);
    size_t (*norm_scratch)(const zr_queue *queue, const zr_norm *norm);
    // RMSNorm: y = x * rstd * gamma, rstd = 1/sqrt(mean of squares + epsilon); rstd (rows) may be
    // NULL. Otherwise these are like the three above; dx may be dy if stream == dtype.
    void (*rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma,
                        void *y, float *rstd);
    void (*residual_rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                 const void *branch, void *sum, const void *gamma, void *y,
                                 float *rstd);
    void (*rms_backward)(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x,
                         const void *gamma, const float *rstd, const void *past, void *dx,
                         float *dgamma, bool add_parameters, void *scratch);
    // loss[i] (rows) = -log softmax(logits[i])[target[i]], in fp32. With `gradient`, the gradient
    // overwrites the logits. A row with target < 0 does not count (loss 0, gradient 0).
    void (*loss)(zr_queue *queue, const zr_loss *loss, void *logits, const int32_t *target,
                 float *row_loss, bool gradient);
    // In place.
    void (*softmax)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, void *x);
} zr_row_ops;

#endif
