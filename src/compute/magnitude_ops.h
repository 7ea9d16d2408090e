// Work on the rows of weights and on the columns of what these compute, for adapters with
// magnitudes (layers/magnitude.h). compute.h states what holds for all operations, op.h how they
// are declared.
#ifndef ZR_COMPUTE_MAGNITUDE_OPS_H
#define ZR_COMPUTE_MAGNITUDE_OPS_H

#include "base/quantised.h"
#include "compute/operand.h"

typedef struct zr_weight_rows { // of a weight: the weights of each output
    zero_dtype dtype;           // of a plain weight
    int64_t out, in;
    bool outputs_first;      // the weight lies as (out, in), otherwise as (in, out)
    zr_weight_format format; // in codes: only with outputs_first
} zr_weight_rows;

// squares(out) = the sum of squares of each output's weights. scales: of codes, otherwise NULL.
#define ZR_OPERANDS_weight_squares(AT)                                                             \
    AT(weight, const void *, ZR_READ, s->format ? ZERO_U8 : s->dtype,                              \
       s->out *(s->format ? zr_weight_code_bytes(s->format, s->in) : s->in))                       \
    AT(scales, const float *, ZR_READ, ZERO_F32,                                                   \
       s->format ? s->out *zr_weight_row_scales(s->format, s->in) : 0)                             \
    AT(squares, float *, ZR_WRITTEN, ZERO_F32, s->out)

typedef struct zr_magnitude {
    zero_dtype dtype; // of B and of the magnitudes
    int64_t out, rank;
    float scale; // s
} zr_magnitude;

// squares(out), of the rows of W, become those of W + s B A; or, of some columns of W and A, their
// part of these. across(rank, out) = A W^T; gram(rank, rank) = A A^T.
#define ZR_OPERANDS_adapted_squares(AT)                                                            \
    AT(across, const float *, ZR_READ, ZERO_F32, s->rank * s->out)                                 \
    AT(gram, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->rank * s->rank)                         \
    AT(b, const void *, ZR_READ, s->dtype, s->out * s->rank)                                       \
    AT(squares, float *, ZR_BOTH, ZERO_F32, s->out)

// inverse(out) = 1 / the root of squares, factors(out) = magnitude times that; both are 0 where the
// square is, or rounding has made it less.
#define ZR_OPERANDS_magnitude_factors(AT)                                                          \
    AT(squares, const float *, ZR_READ, ZERO_F32, s->out)                                          \
    AT(magnitude, const void *, ZR_READ, s->dtype, s->out)                                         \
    AT(factors, float *, ZR_WRITTEN, ZERO_F32, s->out)                                             \
    AT(inverse, float *, ZR_WRITTEN, ZERO_F32, s->out)

typedef struct zr_column_scaling {
    zero_dtype from, to; // of x; of bias and out
    int64_t rows, width;
    float less; // what is taken from each factor
} zr_column_scaling;

// out(rows, width) = [past +] (factors - less) x [+ bias], with a factor for each column. past and
// bias: NULL if there is none. out may be past if it is fp32, and x if the types are the same.
#define ZR_OPERANDS_scale_columns(AT)                                                              \
    AT(factors, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->width)                               \
    AT(x, const void *, ZR_READ, s->from, s->rows * s->width)                                      \
    AT(past, const float *, ZR_READ, ZERO_F32, s->rows * s->width)                                 \
    AT(bias, const void *, ZR_READ | ZR_AUX, s->to, s->width)                                      \
    AT(out, void *, ZR_WRITTEN, s->to, s->rows * s->width)

// out(width) = [out +] factors times the sums of the columns of a b, element by element.
#define ZR_OPERANDS_column_products(AT)                                                            \
    AT(factors, const float *, ZR_READ | ZR_AUX, ZERO_F32, s->width)                               \
    AT(a, const void *, ZR_READ, s->dtype, s->rows * s->width)                                     \
    AT(b, const float *, ZR_READ, ZERO_F32, s->rows * s->width)                                    \
    AT(out, float *, ZR_BOTH | ZR_AUX, ZERO_F32, s->width)

#define ZR_MAGNITUDE_OPS(OP)                                                                       \
    OP(weight_squares, weight_rows, element, 0, 0)                                                 \
    OP(adapted_squares, magnitude, element, 0, 0)                                                  \
    OP(magnitude_factors, magnitude, element, 0, 0)                                                \
    OP(scale_columns, column_scaling, element, 0, 0)                                               \
    OP(column_products, matrix, column_sum, 0, 0)

#endif
