// Work on rows of activations: norms, softmax and the loss. compute.h states what holds for all
// operations, op.h how they are declared. Rows may be 0: then gradients of parameters are set to
// zero, or stay as they are if they are added to.
#ifndef ZR_COMPUTE_ROW_OPS_H
#define ZR_COMPUTE_ROW_OPS_H

#include "compute/operand.h"

typedef struct zr_norm { // LayerNorm or RMSNorm over the last dimension; statistics in fp32
    // The type of y, dy, gamma, beta, and of the branch that joins the stream.
    zero_dtype dtype;
    zero_dtype stream; // of x, sum, dx: the residual stream
    int64_t rows, width;
    float epsilon;
    bool rms;            // RMSNorm: it has no mean and no beta
    bool add_parameters; // backward adds to the gradients of gamma and beta
} zr_norm;

typedef struct zr_loss { // softmax cross-entropy of rows of logits
    zero_dtype dtype;    // of the logits and of the gradient that replaces them
    int64_t rows, vocab;
    bool gradient; // overwrites the logits: (softmax - onehot) * factor * weight
    // Of loss_finish: the slices of the vocabulary, and the parts between those of two slices.
    int slices;
    int64_t stride;
    int64_t step; // elements from a row of logits to the next; 0: vocab
} zr_loss;

#define ZR_LOGIT_STEP(s) ((s)->step ? (s)->step : (s)->vocab)
#define ZR_LOGITS(s) ((s)->rows * ZR_LOGIT_STEP(s))

typedef struct zr_matrix { // dense (rows, width) of dtype
    zero_dtype dtype;
    int64_t rows, width;
    bool add; // column_sum adds to what is there
} zr_matrix;

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

// y = (x - mean) * rstd * gamma + beta; of RMSNorm y = x * rstd * gamma, where rstd = 1/sqrt(mean
// of squares + epsilon). With a branch, in one call: sum = x + branch, and y = the norm of sum as
// it was rounded; sum may be x, or branch if stream == dtype. mean and rstd are NULL in an
// evaluation.
#define ZR_OPERANDS_norm_forward(AT)                                                               \
    AT(x, const void *, ZR_READ, s->stream, s->rows * s->width)                                    \
    AT(branch, const void *, ZR_READ, s->dtype, s->rows * s->width)                                \
    AT(sum, void *, ZR_WRITTEN, s->stream, s->rows * s->width)                                     \
    AT(gamma, const void *, ZR_READ | ZR_AUX, s->dtype, s->width)                                  \
    AT(beta, const void *, ZR_READ | ZR_AUX, s->dtype, s->width)                                   \
    AT(y, void *, ZR_WRITTEN, s->dtype, s->rows * s->width)                                        \
    AT(mean, float *, ZR_WRITTEN | ZR_AUX, ZERO_F32, s->rows)                                      \
    AT(rstd, float *, ZR_WRITTEN | ZR_AUX, ZERO_F32, s->rows)

// dx = [past +] gradient. past is the gradient that arrives around the norm, in the stream's type;
// it may be dx itself. dgamma and dbeta are set or, with add_parameters, added to: the same sums,
// as they would have been set, are added. Each is NULL if it is not wanted. Of RMSNorm, dx may be
// dy if stream == dtype.
#define ZR_OPERANDS_norm_backward(AT)                                                              \
    AT(dy, const void *, ZR_READ, s->dtype, s->rows * s->width)                                    \
    AT(x, const void *, ZR_READ, s->stream, s->rows * s->width)                                    \
    AT(gamma, const void *, ZR_READ | ZR_AUX, s->dtype, s->width)                                  \
    AT(mean, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->rows)                                   \
    AT(rstd, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->rows)                                   \
    AT(past, const void *, ZR_READ, s->stream, s->rows * s->width)                                 \
    AT(dx, void *, ZR_WRITTEN, s->stream, s->rows * s->width)                                      \
    AT(dgamma, float *, ZR_BOTH | ZR_AUX, ZERO_F32, s->width)                                      \
    AT(dbeta, float *, ZR_BOTH | ZR_AUX, ZERO_F32, s->width)                                       \
    AT(scratch, void *, ZR_SCRATCH, ZERO_U8, 0)

// row_loss[i] = -log softmax(logits[i])[target[i]], in fp32. With `gradient`, the gradient, times
// *factor and the row's weight, overwrites the logits. weight: NULL: all rows have the weight 1. A
// row with target < 0 does not count (loss 0, gradient 0).
#define ZR_OPERANDS_loss(AT)                                                                       \
    AT(target, const int32_t *, ZR_READ | ZR_AUX, ZERO_I32, s->rows)                               \
    AT(factor, const float *, ZR_HOST, ZERO_F32, 1)                                                \
    AT(weight, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->rows)                                 \
    AT(logits, void *, s->gradient ? ZR_BOTH : ZR_READ, s->dtype, ZR_LOGITS(s))                    \
    AT(row_loss, float *, ZR_WRITTEN | ZR_AUX, ZERO_F32, s->rows)

// The loss over slices of the vocabulary, in two operations: loss_parts for each slice, then, with
// the parts of all, loss_finish for each slice. vocab is the slice's tokens, possibly 0. target
// counts from the slice's first token: below 0, or vocab and above, the target lies in another
// slice, except that a row of ZR_TARGET_NONE does not count. A row's part depends on the slice's
// logits and its target alone.
#define ZR_OPERANDS_loss_parts(AT)                                                                 \
    AT(target, const int32_t *, ZR_READ | ZR_AUX, ZERO_I32, s->rows)                               \
    AT(logits, const void *, ZR_READ, s->dtype, ZR_LOGITS(s))                                      \
    AT(parts, zr_loss_part *, ZR_WRITTEN, ZERO_F32, 4 * s->rows)

// parts: of row i and slice t at parts[t*stride + i]; their sums are added in double by the tree
// over slices that splits at the largest power of two below their number. row_loss is the same for
// each slice. With `gradient`, the gradient overwrites the slice's logits, which are not read
// without it. One slice gives the bits of `loss`, but for the gradient in fp32, where `loss` keeps
// exponentials that are computed again here. weight: as in `loss`.
#define ZR_OPERANDS_loss_finish(AT)                                                                \
    AT(parts, const zr_loss_part *, ZR_READ, ZERO_F32,                                             \
       4 * ((s->slices - 1) * s->stride + s->rows))                                                \
    AT(target, const int32_t *, ZR_READ | ZR_AUX, ZERO_I32, s->rows)                               \
    AT(factor, const float *, ZR_HOST, ZERO_F32, 1)                                                \
    AT(weight, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->rows)                                 \
    AT(logits, void *, s->gradient ? ZR_BOTH : ZR_READ | ZR_AUX, s->dtype, ZR_LOGITS(s))           \
    AT(row_loss, float *, ZR_WRITTEN | ZR_AUX, ZERO_F32, s->rows)

// In place.
#define ZR_OPERANDS_softmax(AT) AT(x, void *, ZR_BOTH, s->dtype, s->rows * s->width)

// Ids [first, first + count) lie in a tile or a slice of a table.
typedef struct zr_id_range {
    int64_t n, first, count;
} zr_id_range;

// out[i] = ids[i] counted from the first of the range; -1 where it is in another range, and
// ZR_TARGET_NONE where ids[i] is negative.
#define ZR_OPERANDS_local_ids(AT)                                                                  \
    AT(ids, const int32_t *, ZR_READ | ZR_AUX, ZERO_I32, s->n)                                     \
    AT(out, int32_t *, ZR_WRITTEN | ZR_AUX, ZERO_I32, s->n)

typedef struct zr_row_sum {
    int64_t n;
} zr_row_sum;

// out = (x[0] + x[1] + ...) / *divisor, added in double in this order; 0 if the divisor is 0.
#define ZR_OPERANDS_sum_rows(AT)                                                                   \
    AT(divisor, const double *, ZR_HOST, ZERO_F64, 1)                                              \
    AT(x, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->n)                                         \
    AT(out, double *, ZR_WRITTEN | ZR_AUX | ZR_LENT, ZERO_F64, 1)

#define ZR_ROW_OPS(OP)                                                                             \
    OP(norm_forward, norm, norm, 0, 0)                                                             \
    OP(norm_backward, norm, norm, 0, 0)                                                            \
    OP(loss, loss, loss, 0, 0)                                                                     \
    OP(loss_parts, loss, loss, 0, 0)                                                               \
    OP(loss_finish, loss, loss, 0, 0)                                                              \
    OP(softmax, matrix, loss, 0, 0)                                                                \
    OP(local_ids, id_range, loss, 0, 0)                                                            \
    OP(sum_rows, row_sum, loss, 0, 0)

#endif
