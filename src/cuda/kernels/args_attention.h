// What the kernels of attention.cu, attention_mma.cu and attention_backward.cu get (args.h).
#ifndef ZR_CUDA_ARGS_ATTENTION_H
#define ZR_CUDA_ARGS_ATTENTION_H

#include "args.h"

#define ZR_KERNELS_attention(X)                                                                    \
    X(attention, attention_forward)                                                                \
    X(attention, attention_delta)                                                                  \
    X(attention, attention_keys)                                                                   \
    X(attention, attention_queries)                                                                \
    X(attention, attention_append)                                                                 \
    X(attention, attention_decode)                                                                 \
    X(attention, rotary_table)                                                                     \
    X(attention, rotate)

// By the width that heads are filled up to.
#define ZR_KERNELS_attention_mma(X)                                                                \
    X(attention_mma, attention_forward_64)                                                         \
    X(attention_mma, attention_forward_128)
#define ZR_KERNELS_attention_backward(X)                                                           \
    X(attention_backward, attention_keys_64)                                                       \
    X(attention_backward, attention_keys_128)                                                      \
    X(attention_backward, attention_queries_64)                                                    \
    X(attention_backward, attention_queries_128)

// What zr_attention says. Of dropout: the mask's key, the threshold below which a word drops its
// element, 0 if there is no dropout, and the factor of what is kept.
#define ZR_ARGS_attention_shape(V)                                                                 \
    V(int64_t, batch)                                                                              \
    V(int64_t, seq)                                                                                \
    V(int64_t, heads)                                                                              \
    V(int64_t, kv_heads)                                                                           \
    V(int64_t, head_dim)                                                                           \
    V(int64_t, window)                                                                             \
    V(int64_t, first_head)                                                                         \
    V(int64_t, all_heads)                                                                          \
    V(uint64_t, key)                                                                               \
    V(uint64_t, threshold)                                                                         \
    V(float, scale)                                                                                \
    V(float, kept)                                                                                 \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)

// lse and starts may be NULL.
#define ZR_ARGS_attention_forward(P, V, S, R)                                                      \
    P(const void, qkv)                                                                             \
    P(void, out)                                                                                   \
    P(float, lse)                                                                                  \
    P(const int32_t, starts)                                                                       \
    ZR_ARGS_attention_shape(V)
ZR_ARGS_DECLARE(attention_forward)
#define ZR_ARGS_attention_forward_64 ZR_ARGS_attention_forward
ZR_ARGS_DECLARE(attention_forward_64)
#define ZR_ARGS_attention_forward_128 ZR_ARGS_attention_forward
ZR_ARGS_DECLARE(attention_forward_128)

// delta (batch, heads, seq): the sum of out * dout over a row of a head.
#define ZR_ARGS_attention_delta(P, V, S, R)                                                        \
    P(const void, out)                                                                             \
    P(const void, dout)                                                                            \
    P(float, delta)                                                                                \
    V(int64_t, batch)                                                                              \
    V(int64_t, seq)                                                                                \
    V(int64_t, heads)                                                                              \
    V(int64_t, head_dim)                                                                           \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(attention_delta)

// Of backward, the gradients of keys and values; d_shared and starts may be NULL.
#define ZR_ARGS_attention_keys(P, V, S, R)                                                         \
    P(const void, qkv)                                                                             \
    P(const void, dout)                                                                            \
    P(const float, lse)                                                                            \
    P(const float, delta)                                                                          \
    P(void, dqkv)                                                                                  \
    P(float, d_shared)                                                                             \
    P(const int32_t, starts)                                                                       \
    ZR_ARGS_attention_shape(V)
ZR_ARGS_DECLARE(attention_keys)
#define ZR_ARGS_attention_keys_64 ZR_ARGS_attention_keys
ZR_ARGS_DECLARE(attention_keys_64)
#define ZR_ARGS_attention_keys_128 ZR_ARGS_attention_keys
ZR_ARGS_DECLARE(attention_keys_128)

// Those of queries.
#define ZR_ARGS_attention_queries ZR_ARGS_attention_keys
ZR_ARGS_DECLARE(attention_queries)
#define ZR_ARGS_attention_queries_64 ZR_ARGS_attention_keys
ZR_ARGS_DECLARE(attention_queries_64)
#define ZR_ARGS_attention_queries_128 ZR_ARGS_attention_keys
ZR_ARGS_DECLARE(attention_queries_128)

// Runs of attention_decode: `runs` of them, run r with rows begin[r] to begin[r + 1] - 1 of qkv.
enum { ZR_ATTENTION_RUNS = 128 };
#define ZR_ARGS_attention_append(P, V, S, R)                                                       \
    P(const void, qkv)                                                                             \
    P(void, out)                                                                                   \
    P(float, k)                                                                                    \
    P(float, v)                                                                                    \
    V(int64_t, heads)                                                                              \
    V(int64_t, kv_heads)                                                                           \
    V(int64_t, head_dim)                                                                           \
    V(int64_t, window)                                                                             \
    V(int64_t, capacity)                                                                           \
    V(float, scale)                                                                                \
    V(int32_t, type)                                                                               \
    V(int64_t, runs)                                                                               \
    R(int64_t, sequence, ZR_ATTENTION_RUNS)                                                        \
    R(int64_t, first, ZR_ATTENTION_RUNS)                                                           \
    R(int64_t, begin, ZR_ATTENTION_RUNS + 1)
ZR_ARGS_DECLARE(attention_append)
#define ZR_ARGS_attention_decode ZR_ARGS_attention_append
ZR_ARGS_DECLARE(attention_decode)

// table(seq, rotated): cosines, then sines, of position first + i.
#define ZR_ARGS_rotary_table(P, V, S, R)                                                           \
    P(float, table)                                                                                \
    V(int64_t, seq)                                                                                \
    V(int64_t, rotated)                                                                            \
    V(int64_t, first)                                                                              \
    V(float, factor)                                                                               \
    V(int32_t, count)                                                                              \
    R(float, frequency, 512)
ZR_ARGS_DECLARE(rotary_table)

// zr_rotary; sign: -1 rotates back. `eights`: all runs of eight elements lie on 16 bytes.
#define ZR_ARGS_rotate(P, V, S, R)                                                                 \
    P(const float, table)                                                                          \
    P(const void, x)                                                                               \
    P(void, y)                                                                                     \
    V(int64_t, rows)                                                                               \
    V(int64_t, seq)                                                                                \
    V(int64_t, rotated)                                                                            \
    V(int64_t, rest)                                                                               \
    V(int64_t, heads)                                                                              \
    V(int64_t, x_step)                                                                             \
    V(int64_t, y_step)                                                                             \
    V(int64_t, x_head)                                                                             \
    V(int64_t, y_head)                                                                             \
    V(float, sign)                                                                                 \
    V(int32_t, eights)                                                                             \
    V(int32_t, from_type)                                                                          \
    V(int32_t, to_type)
ZR_ARGS_DECLARE(rotate)

#endif
