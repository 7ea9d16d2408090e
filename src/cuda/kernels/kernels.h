// All kernels, by the file that has them: X(file, kernel). Their structures are declared by file.
#ifndef ZR_CUDA_KERNELS_H
#define ZR_CUDA_KERNELS_H

#include "args_attention.h"
#include "args_blocks.h"
#include "args_columns.h"
#include "args_elements.h"
#include "args_products.h"
#include "args_rows.h"
#include "args_states.h"
#include "args_sums.h"

// The files FILE.cu, each an image of its own.
#define ZR_CUDA_FILES(X)                                                                           \
    X(elements)                                                                                    \
    X(rows)                                                                                        \
    X(columns)                                                                                     \
    X(states)                                                                                      \
    X(sums)                                                                                        \
    X(blocks)                                                                                      \
    X(attention)                                                                                   \
    X(attention_mma)                                                                               \
    X(attention_backward)                                                                          \
    X(products)

// clang-format off
#define ZR_CUDA_KERNELS(X)                                                                         \
    ZR_KERNELS_elements(X)                                                                         \
    ZR_KERNELS_rows(X)                                                                             \
    ZR_KERNELS_columns(X)                                                                          \
    ZR_KERNELS_states(X)                                                                           \
    ZR_KERNELS_sums(X)                                                                             \
    ZR_KERNELS_blocks(X)                                                                           \
    ZR_KERNELS_attention(X)                                                                        \
    ZR_KERNELS_attention_mma(X)                                                                    \
    ZR_KERNELS_attention_backward(X)                                                               \
    ZR_KERNELS_products(X)
// clang-format on

#endif
