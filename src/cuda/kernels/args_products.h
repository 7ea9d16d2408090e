// What the kernels of products.cu get (args.h).
#ifndef ZR_CUDA_ARGS_PRODUCTS_H
#define ZR_CUDA_ARGS_PRODUCTS_H

#include "args.h"

#define ZR_KERNELS_products(X) X(products, product_bias) X(products, product_slope)

// d(rows, columns) = bias(columns) in each row, n elements in all
#define ZR_ARGS_product_bias(P, V, S, R)                                                           \
    P(const void, bias)                                                                            \
    P(void, d)                                                                                     \
    V(int64_t, n)                                                                                  \
    V(int64_t, columns)                                                                            \
    V(int32_t, bias_type)                                                                          \
    V(int32_t, d_type)
ZR_ARGS_DECLARE(product_bias)

// d *= gelu'(pre)
#define ZR_ARGS_product_slope(P, V, S, R)                                                          \
    P(const void, pre)                                                                             \
    P(void, d)                                                                                     \
    V(int64_t, n)                                                                                  \
    V(int32_t, pre_type)                                                                           \
    V(int32_t, d_type)
ZR_ARGS_DECLARE(product_slope)

#endif
