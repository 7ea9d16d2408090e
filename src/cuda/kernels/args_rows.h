// What the kernels of rows.cu get (args.h).
#ifndef ZR_CUDA_ARGS_ROWS_H
#define ZR_CUDA_ARGS_ROWS_H

#include "args.h"

#define ZR_KERNELS_rows(X) X(rows, local_ids)

// out[i] = ids[i] counted from `first` of a range; -1 outside of it, and `none` where ids[i] < 0.
#define ZR_ARGS_local_ids(P, V, S, R)                                                              \
    P(const int32_t, ids)                                                                          \
    P(int32_t, out)                                                                                \
    V(int64_t, n)                                                                                  \
    V(int64_t, first)                                                                              \
    V(int64_t, count)                                                                              \
    V(int32_t, none)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(local_ids)

#endif
