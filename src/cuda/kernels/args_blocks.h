// What the kernels of blocks.cu get (args.h): zr_blocks (compute/block_ops.h). bits: of a code, 8
// or 4; `type` is a zr_kernel_type, of the elements.
#ifndef ZR_CUDA_ARGS_BLOCKS_H
#define ZR_CUDA_ARGS_BLOCKS_H

#include "args.h"

#define ZR_KERNELS_blocks(X)                                                                       \
    X(blocks, blocks_encode)                                                                       \
    X(blocks, blocks_decode)                                                                       \
    X(blocks, blocks_round)

// keep, take: of the carry, which may be NULL.
#define ZR_ARGS_blocks_encode(P, V, S, R)                                                          \
    P(const void, source)                                                                          \
    P(float, carry)                                                                                \
    P(uint32_t, encoded)                                                                           \
    V(int64_t, n)                                                                                  \
    V(int32_t, bits)                                                                               \
    V(int32_t, type)                                                                               \
    V(float, keep)                                                                                 \
    V(float, take)
ZR_ARGS_DECLARE(blocks_encode)

// adds: to what lies in out; else the elements take its place.
#define ZR_ARGS_blocks_decode(P, V, S, R)                                                          \
    P(const uint32_t, encoded)                                                                     \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(int32_t, bits)                                                                               \
    V(int32_t, type)                                                                               \
    V(int32_t, adds)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(blocks_decode)

#define ZR_ARGS_blocks_round(P, V, S, R)                                                           \
    P(const float, source)                                                                         \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(int32_t, bits)                                                                               \
    V(int32_t, type)
ZR_ARGS_DECLARE(blocks_round)

#endif
