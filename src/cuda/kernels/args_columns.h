// What the kernels of columns.cu get (args.h). Matrices are (rows, width).
#ifndef ZR_CUDA_ARGS_COLUMNS_H
#define ZR_CUDA_ARGS_COLUMNS_H

#include "args.h"

#define ZR_KERNELS_columns(X)                                                                      \
    X(columns, column_parts)                                                                       \
    X(columns, norm_parts)                                                                         \
    X(columns, join_parts)                                                                         \
    X(columns, column_products)                                                                    \
    X(columns, row_squares)                                                                        \
    X(columns, column_squares)                                                                     \
    X(columns, adapted_squares)                                                                    \
    X(columns, magnitude_factors)                                                                  \
    X(columns, scale_columns)

// parts(parts, width): the sums of the columns over each part_rows rows.
#define ZR_ARGS_column_parts(P, V, S, R)                                                           \
    P(const void, x)                                                                               \
    P(float, parts)                                                                                \
    V(int64_t, rows)                                                                               \
    V(int64_t, width)                                                                              \
    V(int64_t, part_rows)                                                                          \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(column_parts)

// parts(parts, 2, width): the sums of dy (x - mean) rstd and of dy. mean: NULL if there is none.
#define ZR_ARGS_norm_parts(P, V, S, R)                                                             \
    P(const void, dy)                                                                              \
    P(const void, x)                                                                               \
    P(const float, mean)                                                                           \
    P(const float, rstd)                                                                           \
    P(float, parts)                                                                                \
    V(int64_t, rows)                                                                               \
    V(int64_t, width)                                                                              \
    V(int64_t, part_rows)                                                                          \
    V(int32_t, type)                                                                               \
    V(int32_t, stream_type)
ZR_ARGS_DECLARE(norm_parts)

// out(width) = [out +] the sum of `count` parts, which lie `stride` elements apart.
#define ZR_ARGS_join_parts(P, V, S, R)                                                             \
    P(const float, parts)                                                                          \
    P(float, out)                                                                                  \
    V(int64_t, count)                                                                              \
    V(int64_t, stride)                                                                             \
    V(int64_t, width)                                                                              \
    V(int32_t, add)                                                                                \
    V(int32_t, unused)
ZR_ARGS_DECLARE(join_parts)

// out(width) = [out +] factors times the sums of the columns of a b.
#define ZR_ARGS_column_products(P, V, S, R)                                                        \
    P(const float, factors)                                                                        \
    P(const void, a)                                                                               \
    P(const float, b)                                                                              \
    P(float, out)                                                                                  \
    V(int64_t, rows)                                                                               \
    V(int64_t, width)                                                                              \
    V(int32_t, type)                                                                               \
    V(int32_t, add)
ZR_ARGS_DECLARE(column_products)

// squares(rows), the sums of squares of each row. A block a row.
#define ZR_ARGS_row_squares(P, V, S, R)                                                            \
    P(const void, weight)                                                                          \
    P(float, squares)                                                                              \
    V(int64_t, width)                                                                              \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(row_squares)

// squares(width), those of each column.
#define ZR_ARGS_column_squares(P, V, S, R)                                                         \
    P(const void, weight)                                                                          \
    P(float, squares)                                                                              \
    V(int64_t, rows)                                                                               \
    V(int64_t, width)                                                                              \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(column_squares)

// zr_op_adapted_squares
#define ZR_ARGS_adapted_squares(P, V, S, R)                                                        \
    P(const float, across)                                                                         \
    P(const float, gram)                                                                           \
    P(const void, b)                                                                               \
    P(float, squares)                                                                              \
    V(int64_t, out)                                                                                \
    V(int64_t, rank)                                                                               \
    V(float, scale)                                                                                \
    V(int32_t, type)
ZR_ARGS_DECLARE(adapted_squares)

// zr_op_magnitude_factors
#define ZR_ARGS_magnitude_factors(P, V, S, R)                                                      \
    P(const float, squares)                                                                        \
    P(const void, magnitude)                                                                       \
    P(float, factors)                                                                              \
    P(float, inverse)                                                                              \
    V(int64_t, out)                                                                                \
    V(int32_t, type)                                                                               \
    V(int32_t, unused)
ZR_ARGS_DECLARE(magnitude_factors)

// out(rows, width) = [past +] (factors - less) x [+ bias]. A block a row.
#define ZR_ARGS_scale_columns(P, V, S, R)                                                          \
    P(const float, factors)                                                                        \
    P(const void, x)                                                                               \
    P(const float, past)                                                                           \
    P(const void, bias)                                                                            \
    P(void, out)                                                                                   \
    V(int64_t, width)                                                                              \
    V(int32_t, x_type)                                                                             \
    V(int32_t, out_type)                                                                           \
    V(float, less)                                                                                 \
    V(int32_t, unused)
ZR_ARGS_DECLARE(scale_columns)

#endif
