// Elementwise work: activation functions, sums and conversions, dropout, the embedding and copies.
// compute.h states what holds for all operations, op.h how they are declared.
#ifndef ZR_COMPUTE_ELEMENT_OPS_H
#define ZR_COMPUTE_ELEMENT_OPS_H

#include "compute/operand.h"

typedef struct zr_elements {
    zero_dtype dtype;
    int64_t n;
} zr_elements;

// gelu_new (tanh); out may be pre.
#define ZR_OPERANDS_gelu_forward(AT)                                                               \
    AT(pre, const void *, ZR_READ, s->dtype, s->n)                                                 \
    AT(out, void *, ZR_WRITTEN, s->dtype, s->n)

// d *= gelu'(pre), in place.
#define ZR_OPERANDS_gelu_backward(AT)                                                              \
    AT(pre, const void *, ZR_READ, s->dtype, s->n)                                                 \
    AT(d, void *, ZR_BOTH, s->dtype, s->n)

// gelu by the error function: x/2 (1 + erf(x / sqrt 2)); out may be pre.
#define ZR_OPERANDS_gelu_erf_forward(AT)                                                           \
    AT(pre, const void *, ZR_READ, s->dtype, s->n)                                                 \
    AT(out, void *, ZR_WRITTEN, s->dtype, s->n)

// d_pre = d * gelu'(pre); d_pre may be d.
#define ZR_OPERANDS_gelu_erf_backward(AT)                                                          \
    AT(pre, const void *, ZR_READ, s->dtype, s->n)                                                 \
    AT(d, const void *, ZR_READ, s->dtype, s->n)                                                   \
    AT(d_pre, void *, ZR_WRITTEN, s->dtype, s->n)

// out = silu(gate) * up, where silu(x) = x / (1 + e^-x); out may be gate or up.
#define ZR_OPERANDS_silu_gate_forward(AT)                                                          \
    AT(gate, const void *, ZR_READ, s->dtype, s->n)                                                \
    AT(up, const void *, ZR_READ, s->dtype, s->n)                                                  \
    AT(out, void *, ZR_WRITTEN, s->dtype, s->n)

// The gradients of gate and up from d, the gradient of out; d_gate and d_up may each be d, gate or
// up, but not each other.
#define ZR_OPERANDS_silu_gate_backward(AT)                                                         \
    AT(gate, const void *, ZR_READ, s->dtype, s->n)                                                \
    AT(up, const void *, ZR_READ, s->dtype, s->n)                                                  \
    AT(d, const void *, ZR_READ, s->dtype, s->n)                                                   \
    AT(d_gate, void *, ZR_WRITTEN, s->dtype, s->n)                                                 \
    AT(d_up, void *, ZR_WRITTEN, s->dtype, s->n)

typedef struct zr_sum {
    zero_dtype stream, dtype; // of x and out; of the branch
    int64_t n;
} zr_sum;

// out = x + branch; out may be x.
#define ZR_OPERANDS_add(AT)                                                                        \
    AT(x, const void *, ZR_READ, s->stream, s->n)                                                  \
    AT(branch, const void *, ZR_READ, s->dtype, s->n)                                              \
    AT(out, void *, ZR_WRITTEN, s->stream, s->n)

typedef struct zr_conversion {
    zero_dtype from, to;
    int64_t n;
} zr_conversion;

// out must not overlap x.
#define ZR_OPERANDS_convert(AT)                                                                    \
    AT(x, const void *, ZR_READ, s->from, s->n)                                                    \
    AT(out, void *, ZR_WRITTEN, s->to, s->n)

typedef struct zr_scaling {
    zero_dtype to; // of out
    int64_t n;
    float by;
} zr_scaling;

// out = by * x; out may be x if `to` is ZERO_F32.
#define ZR_OPERANDS_scale(AT)                                                                      \
    AT(x, const float *, ZR_READ, ZERO_F32, s->n)                                                  \
    AT(out, void *, ZR_WRITTEN, s->to, s->n)

typedef struct zr_dropout {
    zero_dtype from, to; // of x; of out
    int64_t n;
    float p; // 0 only converts
    zr_mask mask;
    // x[0] is element `first` >= 0 of the mask, so that a part of a whole draws the whole's mask.
    int64_t first;
} zr_dropout;

// out = x/(1-p) where the element is kept, else 0. out may be x if the types are the same. values:
// NULL if p is 0.
#define ZR_OPERANDS_dropout(AT)                                                                    \
    AT(values, const zr_step_values *, ZR_HOST, ZERO_U8, sizeof(zr_step_values))                   \
    AT(x, const void *, ZR_READ, s->from, s->n)                                                    \
    AT(out, void *, ZR_WRITTEN, s->to, s->n)

// out(rows, width) = sum + bias(width). This gives what a product with ZR_EPILOGUE_BIAS stores,
// where slices have each computed a part of its sums. out may be sum if dtype is ZERO_F32.
#define ZR_OPERANDS_add_bias(AT)                                                                   \
    AT(sum, const float *, ZR_READ, ZERO_F32, s->rows * s->width)                                  \
    AT(bias, const void *, ZR_READ | ZR_AUX, s->dtype, s->width)                                   \
    AT(out, void *, ZR_WRITTEN, s->dtype, s->rows * s->width)

// out(width) = [out +] the sums of the columns, for the gradients of biases.
#define ZR_OPERANDS_column_sum(AT)                                                                 \
    AT(x, const void *, ZR_READ, s->dtype, s->rows * s->width)                                     \
    AT(out, float *, ZR_BOTH | ZR_AUX, ZERO_F32, s->width)                                         \
    AT(scratch, void *, ZR_SCRATCH, ZERO_U8, 0)

typedef struct zr_embedding { // of rows of ids
    zero_dtype dtype, stream; // of the tables; of out and d
    int64_t rows, width;
    int64_t seq;                    // row i has position i % seq
    int64_t first;                  // of add_positions: row i has position (first + i) % seq
    int64_t vocab;                  // rows of the table of tokens
    int64_t positions;              // of backward: rows of the table of positions
    bool add_tokens, add_positions; // backward adds to the gradients of the tables
} zr_embedding;

// out(rows, width) = tokens[ids[i]] + positions[i % seq]. A row with a negative id is left
// unchanged, because its token is in another tile of the table.
#define ZR_OPERANDS_embedding_forward(AT)                                                          \
    AT(ids, const int32_t *, ZR_READ | ZR_AUX, ZERO_I32, s->rows)                                  \
    AT(tokens, const void *, ZR_READ | ZR_AUX, s->dtype, s->vocab * s->width)                      \
    AT(positions, const void *, ZR_READ | ZR_AUX, s->dtype, ZR_MIN(s->seq, s->rows) * s->width)    \
    AT(out, void *, ZR_WRITTEN, s->stream, s->rows * s->width)

// x(rows, width) = (x + 0.0) + positions[(first + i) % seq], in place. For rows whose tokens lie in
// several slices of a table: each slice looks up its own (embedding_forward without positions, into
// zeros), x is their sum. A sum of slices has no -0, and the +0.0 ensures this for one slice, too;
// except for these signs, the result is that of embedding_forward with positions.
#define ZR_OPERANDS_add_positions(AT)                                                              \
    AT(positions, const void *, ZR_READ | ZR_AUX, s->dtype, s->seq * s->width)                     \
    AT(x, float *, ZR_BOTH, ZERO_F32, s->rows * s->width)

// Adds the rows of d, by id and in the order of rows, to d_tokens(vocab, width), which is zeroed
// first unless add_tokens; rows with negative ids are left out. Adds all rows to d_positions(
// positions, width) in the same way.
#define ZR_OPERANDS_embedding_backward(AT)                                                         \
    AT(ids, const int32_t *, ZR_READ | ZR_AUX, ZERO_I32, s->rows)                                  \
    AT(d, const void *, ZR_READ, s->stream, s->rows * s->width)                                    \
    AT(d_tokens, float *, ZR_BOTH | ZR_AUX, ZERO_F32, s->vocab * s->width)                         \
    AT(d_positions, float *, ZR_BOTH | ZR_AUX, ZERO_F32, s->positions * s->width)

typedef struct zr_bytes {
    int64_t bytes;
    uint8_t value; // of each byte, after fill
    // Of a copy: what it writes is read by others, and later, so it need not stay in the cache.
    bool streams;
} zr_bytes;

#define ZR_OPERANDS_copy(AT)                                                                       \
    AT(from, const void *, ZR_READ, ZERO_U8, s->bytes)                                             \
    AT(to, void *, ZR_WRITTEN, ZERO_U8, s->bytes)

#define ZR_OPERANDS_fill(AT) AT(to, void *, ZR_WRITTEN, ZERO_U8, s->bytes)

typedef struct zr_strided { // `bytes` of each row, and the bytes between rows
    int64_t rows, bytes, from_stride, to_stride;
} zr_strided;

// Between columns of a matrix and a dense one.
#define ZR_OPERANDS_copy_rows(AT)                                                                  \
    AT(from, const void *, ZR_READ | ZR_AUX, ZERO_U8,                                              \
       s->rows ? (s->rows - 1) * s->from_stride + s->bytes : 0)                                    \
    AT(to, void *, ZR_WRITTEN | ZR_AUX, ZERO_U8,                                                   \
       s->rows ? (s->rows - 1) * s->to_stride + s->bytes : 0)

// The embedding's tables are read, and written, by rows: that many bytes move.
#define ZR_ELEMENT_OPS(OP)                                                                         \
    OP(gelu_forward, elements, gelu, 0, 0)                                                         \
    OP(gelu_backward, elements, gelu, 0, 0)                                                        \
    OP(gelu_erf_forward, elements, element, 0, 0)                                                  \
    OP(gelu_erf_backward, elements, element, 0, 0)                                                 \
    OP(silu_gate_forward, elements, element, 0, 0)                                                 \
    OP(silu_gate_backward, elements, element, 0, 0)                                                \
    OP(add, sum, element, 0, 0)                                                                    \
    OP(convert, conversion, element, 0, 0)                                                         \
    OP(scale, scaling, element, 0, 0)                                                              \
    OP(dropout, dropout, element, 0, 0)                                                            \
    OP(add_bias, matrix, element, 0, 0)                                                            \
    OP(column_sum, matrix, column_sum, 0, 0)                                                       \
    OP(embedding_forward, embedding, embedding, 0, s->rows * s->width * 2 * size_of(s->dtype))     \
    OP(add_positions, embedding, embedding, 0,                                                     \
       op->at.add_positions.positions ? s->rows * s->width *size_of(s->dtype) : 0)                 \
    OP(embedding_backward, embedding, embedding, 0,                                                \
       s->width *size_of(ZERO_F32) *                                                               \
           (4 * s->rows + (s->add_tokens ? 0 : s->vocab) + (s->add_positions ? 0 : s->positions))) \
    OP(copy, bytes, element, 0, 0)                                                                 \
    OP(copy_rows, strided, element, 0, 2 * s->rows * s->bytes)                                     \
    OP(fill, bytes, element, 0, 0)

#endif
