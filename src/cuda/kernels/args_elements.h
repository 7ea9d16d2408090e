// What the kernels of elements.cu get (args.h). `*_type` is a zr_kernel_type; n counts elements.
#ifndef ZR_CUDA_ARGS_ELEMENTS_H
#define ZR_CUDA_ARGS_ELEMENTS_H

#include "args.h"

#define ZR_KERNELS_elements(X)                                                                     \
    X(elements, gelu)                                                                              \
    X(elements, gelu_slope)                                                                        \
    X(elements, silu_gate)                                                                         \
    X(elements, silu_gate_slopes)                                                                  \
    X(elements, add)                                                                               \
    X(elements, convert)                                                                           \
    X(elements, scale)                                                                             \
    X(elements, dropout)                                                                           \
    X(elements, add_bias)                                                                          \
    X(elements, embedding_rows)                                                                    \
    X(elements, add_positions)                                                                     \
    X(elements, token_sums)                                                                        \
    X(elements, position_sums)                                                                     \
    X(elements, copy_rows)

// out = gelu(pre); by: 0: with tanh, 1: with the error function.
#define ZR_ARGS_gelu(P, V, S, R)                                                                   \
    P(const void, pre)                                                                             \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(int32_t, type)                                                                               \
    V(int32_t, by)
ZR_ARGS_DECLARE(gelu)

// d_pre = d * gelu'(pre)
#define ZR_ARGS_gelu_slope(P, V, S, R)                                                             \
    P(const void, pre)                                                                             \
    P(const void, d)                                                                               \
    P(void, d_pre)                                                                                 \
    V(int64_t, n)                                                                                  \
    V(int32_t, type)                                                                               \
    V(int32_t, by)
ZR_ARGS_DECLARE(gelu_slope)

// out = silu(gate) * up
#define ZR_ARGS_silu_gate(P, V, S, R)                                                              \
    P(const void, gate)                                                                            \
    P(const void, up)                                                                              \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(silu_gate)

#define ZR_ARGS_silu_gate_slopes(P, V, S, R)                                                       \
    P(const void, gate)                                                                            \
    P(const void, up)                                                                              \
    P(const void, d)                                                                               \
    P(void, d_gate)                                                                                \
    P(void, d_up)                                                                                  \
    V(int64_t, n)                                                                                  \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(silu_gate_slopes)

// out = x + branch
#define ZR_ARGS_add(P, V, S, R)                                                                    \
    P(const void, x)                                                                               \
    P(const void, branch)                                                                          \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(int32_t, stream_type)                                                                        \
    V(int32_t, branch_type)
ZR_ARGS_DECLARE(add)

#define ZR_ARGS_convert(P, V, S, R)                                                                \
    P(const void, x)                                                                               \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(int32_t, x_type)                                                                             \
    V(int32_t, out_type)
ZR_ARGS_DECLARE(convert)

// out = by * x
#define ZR_ARGS_scale(P, V, S, R)                                                                  \
    P(const float, x)                                                                              \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(float, by)                                                                                   \
    V(int32_t, out_type)
ZR_ARGS_DECLARE(scale)

// out = factor * x where the word of element first + i is at least the threshold, else 0.
#define ZR_ARGS_dropout(P, V, S, R)                                                                \
    P(const void, x)                                                                               \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(int64_t, first)                                                                              \
    V(uint64_t, key)                                                                               \
    V(uint64_t, threshold)                                                                         \
    V(float, factor)                                                                               \
    V(int32_t, x_type)                                                                             \
    V(int32_t, out_type)                                                                           \
    V(int32_t, unused)
ZR_ARGS_DECLARE(dropout)

// out(rows, width) = sum + bias; bias may be NULL. A block a row.
#define ZR_ARGS_add_bias(P, V, S, R)                                                               \
    P(const float, sum)                                                                            \
    P(const void, bias)                                                                            \
    P(void, out)                                                                                   \
    V(int64_t, width)                                                                              \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(add_bias)

// out(rows, width) = tokens[ids[i]] + positions[i % seq]; positions may be NULL. A block a row.
#define ZR_ARGS_embedding_rows(P, V, S, R)                                                         \
    P(const int32_t, ids)                                                                          \
    P(const void, tokens)                                                                          \
    P(const void, positions)                                                                       \
    P(void, out)                                                                                   \
    V(int64_t, width)                                                                              \
    V(int64_t, seq)                                                                                \
    V(int32_t, type)                                                                               \
    V(int32_t, stream_type)
ZR_ARGS_DECLARE(embedding_rows)

// x(rows, width) += 0, then += positions[(first + i) % seq], which may be NULL. A block a row.
#define ZR_ARGS_add_positions(P, V, S, R)                                                          \
    P(const void, positions)                                                                       \
    P(float, x)                                                                                    \
    V(int64_t, width)                                                                              \
    V(int64_t, seq)                                                                                \
    V(int64_t, first)                                                                              \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(add_positions)

// d_tokens[id] += the rows of d with that id, in order. A block a row and a stretch of columns, of
// which that of the id's first row does the work.
#define ZR_ARGS_token_sums(P, V, S, R)                                                             \
    P(const int32_t, ids)                                                                          \
    P(const void, d)                                                                               \
    P(float, d_tokens)                                                                             \
    V(int64_t, rows)                                                                               \
    V(int64_t, width)                                                                              \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(token_sums)

// d_positions[p] += rows p, p + seq, ... of d, in order. A block a position and a stretch of
// columns.
#define ZR_ARGS_position_sums(P, V, S, R)                                                          \
    P(const void, d)                                                                               \
    P(float, d_positions)                                                                          \
    V(int64_t, rows)                                                                               \
    V(int64_t, width)                                                                              \
    V(int64_t, seq)                                                                                \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(position_sums)

// Between rows that lie from_stride and to_stride bytes apart; `units` of each row are moved, each
// of unit_bytes: 16, 4 or 1, by which all addresses and strides can be divided.
#define ZR_ARGS_copy_rows(P, V, S, R)                                                              \
    P(const void, from)                                                                            \
    P(void, to)                                                                                    \
    V(int64_t, rows)                                                                               \
    V(int64_t, units)                                                                              \
    V(int64_t, from_stride)                                                                        \
    V(int64_t, to_stride)                                                                          \
    V(int32_t, unit_bytes)                                                                         \
    V(int32_t, unused)
ZR_ARGS_DECLARE(copy_rows)

#endif
