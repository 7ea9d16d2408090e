// The table of elementwise work: activation functions, sums and conversions, dropout, the embedding
// and copies. compute.h states what holds for all tables.
#ifndef ZR_COMPUTE_ELEMENT_OPS_H
#define ZR_COMPUTE_ELEMENT_OPS_H

#include "base/errors.h"
#include <zero/tensor.h>

typedef struct zr_queue zr_queue;

typedef struct zr_element_ops {
    // Computes gelu_new (tanh); out may be pre.
    void (*gelu_forward)(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre, void *out);
    // Computes d *= gelu'(pre), in place.
    void (*gelu_backward)(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre, void *d);
    // out = silu(gate) * up, where silu(x) = x / (1 + e^-x); out may be gate or up. Backward
    // computes the gradients of both from d, the gradient of out; d_gate and d_up may each be d,
    // gate or up, but not each other.
    void (*silu_gate_forward)(zr_queue *queue, zero_dtype dtype, int64_t n, const void *gate,
                              const void *up, void *out);
    void (*silu_gate_backward)(zr_queue *queue, zero_dtype dtype, int64_t n, const void *gate,
                               const void *up, const void *d, void *d_gate, void *d_up);
    // out = x + branch; `stream` is the type of x and out, `dtype` that of branch. out may be x.
    void (*add)(zr_queue *queue, zero_dtype stream, zero_dtype dtype, int64_t n, const void *x,
                const void *branch, void *out);
    // out = x/(1-p) where the element is kept, else 0. `from` is the type of x, `to` that of out; p
    // = 0 only converts. x[0] is element `first` >= 0 of the mask, so that a part of a whole draws
    // the whole's mask. out may be x if the types are the same.
    void (*dropout)(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n, float p,
                    uint64_t key, int64_t first, const void *x, void *out);
    // out(rows, width), of `dtype`, = sum + bias(width); the bias is of dtype, too, or NULL if
    // there is none. This gives what a product with ZR_EPILOGUE_BIAS stores, where slices have each
    // computed a part of its sums. out may be sum if dtype is ZERO_F32.
    void (*add_bias)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                     const float *sum, const void *bias, void *out);
    // Converts x; out must not overlap it.
    void (*convert)(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n, const void *x,
                    void *out);
    // out(width) = [out +] the sums of the columns, for the gradients of biases. scratch:
    // column_sum_scratch bytes.
    void (*column_sum)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                       const void *x, float *out, bool add, void *scratch);
    size_t (*column_sum_scratch)(const zr_queue *queue, int64_t rows, int64_t width);
    // out(rows, width) = tokens[ids[i]] + positions[i % seq]; positions may be NULL. `dtype` is the
    // type of the tables, `stream` that of out. A row with a negative id is left unchanged, because
    // its token is in another tile of the table.
    void (*embedding_forward)(zr_queue *queue, zero_dtype dtype, zero_dtype stream, int64_t rows,
                              int64_t seq, int64_t width, const int32_t *ids, const void *tokens,
                              const void *positions, void *out);
    // x(rows, width) = (x + 0.0) + positions[(first + i) % seq], in place; positions, of `dtype`,
    // may be NULL. For rows whose tokens lie in several slices of a table: each slice looks up its
    // own (embedding_forward without positions, into zeros), x is their sum. A sum of slices has
    // no -0, and the +0.0 ensures this for one slice, too; except for these signs, the result is
    // that of embedding_forward with positions.
    void (*add_positions)(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t seq,
                          int64_t first, int64_t width, const void *positions, float *x);
    // Adds the rows of d, by id and in the order of rows, to d_tokens(vocab, width), which is
    // zeroed first unless add_tokens; rows with negative ids are left out. Adds all rows to
    // d_positions(max_seq, width) in the same way. Either may be NULL.
    void (*embedding_backward)(zr_queue *queue, zero_dtype stream, int64_t rows, int64_t seq,
                               int64_t width, const int32_t *ids, const void *d, int64_t vocab,
                               float *d_tokens, bool add_tokens, int64_t max_seq,
                               float *d_positions, bool add_positions);
    void (*copy)(zr_queue *queue, int64_t bytes, const void *from, void *to);
    // Copies `bytes` of each row, with strides in bytes: for columns of a matrix and a dense one.
    void (*copy_rows)(zr_queue *queue, int64_t rows, int64_t bytes, const void *from,
                      int64_t from_stride, void *to, int64_t to_stride);
    void (*zero)(zr_queue *queue, int64_t bytes, void *to);
} zr_element_ops;

#endif
