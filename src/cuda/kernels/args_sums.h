// What the kernels of sums.cu get (args.h). `*_type` is a zr_kernel_type. An array begins at any
// element.
#ifndef ZR_CUDA_ARGS_SUMS_H
#define ZR_CUDA_ARGS_SUMS_H

#include "args.h"

#define ZR_KERNELS_sums(X)                                                                         \
    X(sums, square_sums)                                                                           \
    X(sums, square_sums_exact)                                                                     \
    X(sums, tree_sum)

enum {
    ZR_CHUNK_ELEMENTS = 2048,   // ZR_SQUARES_CHUNK
    ZR_EXACT_NUMBER_WORDS = 69, // ZR_EXACT_WORDS
    ZR_MOST_PARTS = 128,        // of a launch
    ZR_MOST_TREE_SOURCES = 256
};

// Elements [first, first + count) of a vector, the first of them at g; sums (chunks).
#define ZR_ARGS_square_sums(P, V, S, R)                                                            \
    P(const void, g)                                                                               \
    P(double, sums)                                                                                \
    V(int64_t, first)                                                                              \
    V(int64_t, count)                                                                              \
    V(int64_t, chunks)                                                                             \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(square_sums)

// Part p: part_count[p] elements of the vector from part_first[p] on, whose chunks are those before
// end[p] among the chunks of all parts, into accumulator sum[p] (ZR_EXACT_NUMBER_WORDS each).
#define ZR_ARGS_square_sums_exact(P, V, S, R)                                                      \
    P(const void, g)                                                                               \
    P(int64_t, sums)                                                                               \
    V(int64_t, first)                                                                              \
    V(int64_t, chunks)                                                                             \
    R(int64_t, part_first, ZR_MOST_PARTS)                                                          \
    R(int64_t, part_count, ZR_MOST_PARTS)                                                          \
    R(int64_t, end, ZR_MOST_PARTS)                                                                 \
    R(int32_t, sum, ZR_MOST_PARTS)                                                                 \
    V(int32_t, parts)                                                                              \
    V(int32_t, type)
ZR_ARGS_DECLARE(square_sums_exact)

// out[i] = earlier sums, at out, out + stride, ..., and the tree sum over sources.
#define ZR_ARGS_tree_sum(P, V, S, R)                                                               \
    S(const void, source, ZR_MOST_TREE_SOURCES)                                                    \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(int64_t, stride)                                                                             \
    V(int32_t, sources)                                                                            \
    V(int32_t, adds)                                                                               \
    V(int32_t, source_type)                                                                        \
    V(int32_t, out_type)
ZR_ARGS_DECLARE(tree_sum)

#endif
