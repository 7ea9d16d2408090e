// What the kernels of rows.cu get (args.h). Arrays are (rows, width); where it is not said
// otherwise a block has a row.
#ifndef ZR_CUDA_ARGS_ROWS_H
#define ZR_CUDA_ARGS_ROWS_H

#include "args.h"

#define ZR_KERNELS_rows(X)                                                                         \
    X(rows, norm_forward)                                                                          \
    X(rows, norm_backward)                                                                         \
    X(rows, loss)                                                                                  \
    X(rows, loss_parts)                                                                            \
    X(rows, loss_finish)                                                                           \
    X(rows, softmax)                                                                               \
    X(rows, local_ids)                                                                             \
    X(rows, sum_rows)

// One slice's part of a row's loss, as zr_loss_part is laid out (launch_rows.c checks it).
typedef struct zr_kernel_loss_part {
    float largest, aimed;
    double sum;
} zr_kernel_loss_part;

// zr_op_norm_forward; branch and sum, mean, rstd: NULL if there is none.
#define ZR_ARGS_norm_forward(P, V, S, R)                                                           \
    P(const void, x)                                                                               \
    P(const void, branch)                                                                          \
    P(void, sum)                                                                                   \
    P(const void, gamma)                                                                           \
    P(const void, beta)                                                                            \
    P(void, y)                                                                                     \
    P(float, mean)                                                                                 \
    P(float, rstd)                                                                                 \
    V(int64_t, width)                                                                              \
    V(float, epsilon)                                                                              \
    V(int32_t, rms)                                                                                \
    V(int32_t, type)                                                                               \
    V(int32_t, stream_type)
ZR_ARGS_DECLARE(norm_forward)

// dx of zr_op_norm_backward; past: NULL if there is none.
#define ZR_ARGS_norm_backward(P, V, S, R)                                                          \
    P(const void, dy)                                                                              \
    P(const void, x)                                                                               \
    P(const void, gamma)                                                                           \
    P(const float, mean)                                                                           \
    P(const float, rstd)                                                                           \
    P(const void, past)                                                                            \
    P(void, dx)                                                                                    \
    V(int64_t, width)                                                                              \
    V(int32_t, type)                                                                               \
    V(int32_t, stream_type)                                                                        \
    V(int32_t, rms)                                                                                \
    V(int32_t, unused)
ZR_ARGS_DECLARE(norm_backward)

// zr_op_loss; weight: NULL if there is none.
#define ZR_ARGS_loss(P, V, S, R)                                                                   \
    P(const int32_t, target)                                                                       \
    P(const float, weight)                                                                         \
    P(void, logits)                                                                                \
    P(float, row_loss)                                                                             \
    V(int64_t, vocab)                                                                              \
    V(int64_t, step)                                                                               \
    V(float, factor)                                                                               \
    V(int32_t, gradient)                                                                           \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(loss)

// zr_op_loss_parts; `none` is the target of a row that does not count.
#define ZR_ARGS_loss_parts(P, V, S, R)                                                             \
    P(const int32_t, target)                                                                       \
    P(const void, logits)                                                                          \
    P(zr_kernel_loss_part, parts)                                                                  \
    V(int64_t, vocab)                                                                              \
    V(int64_t, step)                                                                               \
    V(int32_t, type)                                                                               \
    V(int32_t, none)
ZR_ARGS_DECLARE(loss_parts)

// zr_op_loss_finish; weight: NULL if there is none.
#define ZR_ARGS_loss_finish(P, V, S, R)                                                            \
    P(const zr_kernel_loss_part, parts)                                                            \
    P(const int32_t, target)                                                                       \
    P(const float, weight)                                                                         \
    P(void, logits)                                                                                \
    P(float, row_loss)                                                                             \
    V(int64_t, vocab)                                                                              \
    V(int64_t, step)                                                                               \
    V(int64_t, stride)                                                                             \
    V(float, factor)                                                                               \
    V(int32_t, slices)                                                                             \
    V(int32_t, gradient)                                                                           \
    V(int32_t, type)                                                                               \
    V(int32_t, none)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(loss_finish)

#define ZR_ARGS_softmax(P, V, S, R)                                                                \
    P(void, x)                                                                                     \
    V(int64_t, width)                                                                              \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(softmax)

// out[i] = ids[i] counted from `first` of a range; -1 outside of it, and `none` where ids[i] < 0.
// A thread an id.
#define ZR_ARGS_local_ids(P, V, S, R)                                                              \
    P(const int32_t, ids)                                                                          \
    P(int32_t, out)                                                                                \
    V(int64_t, n)                                                                                  \
    V(int64_t, first)                                                                              \
    V(int64_t, count)                                                                              \
    V(int32_t, none)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(local_ids)

// out = (x[0] + x[1] + ...) / divisor, in this order; 0 if that is 0. One block.
#define ZR_ARGS_sum_rows(P, V, S, R)                                                               \
    P(const float, x)                                                                              \
    P(double, out)                                                                                 \
    V(int64_t, n)                                                                                  \
    V(double, divisor)
ZR_ARGS_DECLARE(sum_rows)

#endif
