// The table of what computes rows of activations: norms, softmax and the loss. compute.h says what
// holds for all tables.
#ifndef ZR_COMPUTE_ROW_OPS_H
#define ZR_COMPUTE_ROW_OPS_H

#include "base/errors.h"
#include <zero/tensor.h>

typedef struct zr_queue zr_queue;

typedef struct zr_norm { // LayerNorm or RMSNorm over the last dimension; statistics in fp32
    zero_dtype dtype;    // of y, dy, gamma, beta, and of what residual_norm_forward adds
    zero_dtype stream;   // of x, sum, dx: the residual stream
    int64_t rows, width;
    float epsilon;
} zr_norm;

typedef struct zr_loss { // softmax cross-entropy of rows of logits
    zero_dtype dtype;    // of the logits and of the gradient that replaces them
    int64_t rows, vocab;
    float factor; // gradient = (softmax - onehot) * factor
} zr_loss;

typedef struct zr_row_ops {
    // y = (x - mean) * rstd * gamma + beta; mean, rstd (rows) may be NULL (evaluation).
    void (*norm_forward)(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma,
                         const void *beta, void *y, float *mean, float *rstd);
    // sum = x + branch, and the norm of sum as it was rounded into y, in one pass; sum may be x, or
    // branch where stream == dtype.
    void (*residual_norm_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                  const void *branch, void *sum, const void *gamma,
                                  const void *beta, void *y, float *mean, float *rstd);
    // dx = [past +] gradient; past: what arrives around the norm, of the stream's type, dx itself
    // or NULL. dgamma, dbeta (width): set, or added to where add_parameters; each may be NULL,
    // where nobody wants it. scratch: norm_scratch bytes, 64-byte aligned.
    void (*norm_backward)(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x,
                          const void *gamma, const float *mean, const float *rstd, const void *past,
                          void *dx, float *dgamma, float *dbeta, bool add_parameters,
                          void *scratch);
    size_t (*norm_scratch)(const zr_queue *queue, const zr_norm *norm);
    // RMSNorm: y = x * rstd * gamma, rstd = 1/sqrt(mean of squares + epsilon); rstd (rows) may be
    // NULL. Otherwise as the three above; dx may be dy where stream == dtype.
    void (*rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma,
                        void *y, float *rstd);
    void (*residual_rms_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                 const void *branch, void *sum, const void *gamma, void *y,
                                 float *rstd);
    void (*rms_backward)(zr_queue *queue, const zr_norm *norm, const void *dy, const void *x,
                         const void *gamma, const float *rstd, const void *past, void *dx,
                         float *dgamma, bool add_parameters, void *scratch);
    // loss[i] (rows) = -log softmax(logits[i])[target[i]], in fp32; where gradient: logits are
    // overwritten by their gradient. target < 0: the row counts nothing (loss 0, gradient 0).
    void (*loss)(zr_queue *queue, const zr_loss *loss, void *logits, const int32_t *target,
                 float *row_loss, bool gradient);
    // In place.
    void (*softmax)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, void *x);
} zr_row_ops;

#endif
