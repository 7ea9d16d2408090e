// The table of work on rows of activations: norms, softmax and the loss. compute.h states what
// holds for all tables. Rows may be 0: then gradients of parameters are set to zero, or stay as
// they are if they are added to.
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

// One slice's part of a row's loss over a vocabulary. The parts of all slices give the row's loss,
// so ranks exchange only 16 bytes a row and slice.
typedef struct zr_loss_part {
    float largest; // logit of the slice; -INFINITY if it has none above that
    float aimed;   // the target's logit; -INFINITY if the target lies in another slice
    double sum;    // of e^(logit - largest) over the slice; 0 if largest is -INFINITY
} zr_loss_part;
static_assert(sizeof(zr_loss_part) == 16, "ranks exchange parts of 16 bytes");

// The target of a row that does not count, in a slice of a vocabulary.
enum { ZR_TARGET_NONE = INT32_MIN };

typedef struct zr_row_ops {
    // y = (x - mean) * rstd * gamma + beta; mean and rstd (rows) may be NULL in an evaluation.
    void (*norm_forward)(zr_queue *queue, const zr_norm *norm, const void *x, const void *gamma,
                         const void *beta, void *y, float *mean, float *rstd);
    // In one call, sum = x + branch, and y = the norm of sum as it was rounded. sum may be x, or
    // branch if stream == dtype.
    void (*residual_norm_forward)(zr_queue *queue, const zr_norm *norm, const void *x,
                                  const void *branch, void *sum, const void *gamma,
                                  const void *beta, void *y, float *mean, float *rstd);
    // dx = [past +] gradient. past is the gradient that arrives around the norm, in the stream's
    // type; it may be dx itself, or NULL. dgamma and dbeta (width) are set, or added to with
    // add_parameters: then the same sums, as they would have been set, are added. Each may be NULL
    // if it is not wanted. scratch: norm_scratch bytes, 64-byte aligned.
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
    // The loss over slices of the vocabulary, in two calls: loss_parts for each slice, then, with
    // the parts of all, loss_finish for each slice. loss->vocab is the slice's tokens, possibly 0.
    // target(rows) counts from the slice's first token: below 0, or loss->vocab and above, the
    // target lies in another slice, except that a row of ZR_TARGET_NONE does not count.
    // A row's part depends on the slice's logits and its target alone.
    void (*loss_parts)(zr_queue *queue, const zr_loss *loss, const void *logits,
                       const int32_t *target, zr_loss_part *parts);
    // parts: of row i and slice t at parts[t*stride + i]; their sums are added in double by the
    // tree over slices that splits at the largest power of two below their number. row_loss is the
    // same for each slice. With `gradient`, the gradient overwrites the slice's logits, which are
    // not read without it. One slice gives the bits of `loss`, but for the gradient in fp32, where
    // `loss` keeps exponentials that are computed again here.
    void (*loss_finish)(zr_queue *queue, const zr_loss *loss, int slices, const zr_loss_part *parts,
                        int64_t stride, const int32_t *target, void *logits, float *row_loss,
                        bool gradient);
    // In place.
    void (*softmax)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width, void *x);
} zr_row_ops;

#endif
