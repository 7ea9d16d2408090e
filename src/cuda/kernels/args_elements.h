// What the kernels of elements.cu get (args.h). `*_type` is a zr_kernel_type; n counts elements.
#ifndef ZR_CUDA_ARGS_ELEMENTS_H
#define ZR_CUDA_ARGS_ELEMENTS_H

#include "args.h"

#define ZR_KERNELS_elements(X) X(elements, add)

// out = x + branch
#define ZR_ARGS_add(P, V, S, R)                                                                    \
    P(const void, x)                                                                               \
    P(const void, branch)                                                                          \
    P(void, out)                                                                                   \
    V(int64_t, n)                                                                                  \
    V(int32_t, stream_type)                                                                        \
    V(int32_t, branch_type)
ZR_ARGS_DECLARE(add)

#endif
