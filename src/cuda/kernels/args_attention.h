// What the kernels of attention.cu get (args.h).
#ifndef ZR_CUDA_ARGS_ATTENTION_H
#define ZR_CUDA_ARGS_ATTENTION_H

#include "args.h"

#define ZR_KERNELS_attention(X) X(attention, rotary_table)

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

#endif
