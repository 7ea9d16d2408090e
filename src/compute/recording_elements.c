// The table of elementwise work of the backend that records.
#include "compute/recording.h"

static void recording_elements_gelu_forward(zr_queue *queue, zero_dtype dtype, int64_t n,
                                            const void *pre, void *out)
{
    entry entry = enter(queue);
    queue->backend->elements->gelu_forward(queue, dtype, n, pre, out);
    leave(&entry, ZR_ACTIVITY_gelu, 2 * n * size_of(dtype), 0);
}

static void recording_elements_gelu_backward(zr_queue *queue, zero_dtype dtype, int64_t n,
                                             const void *pre, void *d)
{
    entry entry = enter(queue);
    queue->backend->elements->gelu_backward(queue, dtype, n, pre, d);
    leave(&entry, ZR_ACTIVITY_gelu, 3 * n * size_of(dtype), 0);
}

static void recording_elements_silu_gate_forward(zr_queue *queue, zero_dtype dtype, int64_t n,
                                                 const void *gate, const void *up, void *out)
{
    entry entry = enter(queue);
    queue->backend->elements->silu_gate_forward(queue, dtype, n, gate, up, out);
    leave(&entry, ZR_ACTIVITY_element, 3 * n * size_of(dtype), 0);
}

static void recording_elements_silu_gate_backward(zr_queue *queue, zero_dtype dtype, int64_t n,
                                                  const void *gate, const void *up, const void *d,
                                                  void *d_gate, void *d_up)
{
    entry entry = enter(queue);
    queue->backend->elements->silu_gate_backward(queue, dtype, n, gate, up, d, d_gate, d_up);
    leave(&entry, ZR_ACTIVITY_element, 5 * n * size_of(dtype), 0);
}

static void recording_elements_add(zr_queue *queue, zero_dtype stream, zero_dtype dtype, int64_t n,
                                   const void *x, const void *branch, void *out)
{
    entry entry = enter(queue);
    queue->backend->elements->add(queue, stream, dtype, n, x, branch, out);
    leave(&entry, ZR_ACTIVITY_element, n * (2 * size_of(stream) + size_of(dtype)), 0);
}

static void recording_elements_dropout(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n,
                                       float p, uint64_t key, int64_t first, const void *x,
                                       void *out)
{
    entry entry = enter(queue);
    queue->backend->elements->dropout(queue, from, to, n, p, key, first, x, out);
    leave(&entry, ZR_ACTIVITY_element, n * (size_of(from) + size_of(to)), 0);
}

static void recording_elements_add_bias(zr_queue *queue, zero_dtype dtype, int64_t rows,
                                        int64_t width, const float *sum, const void *bias,
                                        void *out)
{
    entry entry = enter(queue);
    queue->backend->elements->add_bias(queue, dtype, rows, width, sum, bias, out);
    leave(&entry, ZR_ACTIVITY_element, rows * width * (size_of(ZERO_F32) + size_of(dtype)), 0);
}

static void recording_elements_convert(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n,
                                       const void *x, void *out)
{
    entry entry = enter(queue);
    queue->backend->elements->convert(queue, from, to, n, x, out);
    leave(&entry, ZR_ACTIVITY_element, n * (size_of(from) + size_of(to)), 0);
}

static void recording_elements_column_sum(zr_queue *queue, zero_dtype dtype, int64_t rows,
                                          int64_t width, const void *x, float *out, bool add_to,
                                          void *scratch)
{
    entry entry = enter(queue);
    queue->backend->elements->column_sum(queue, dtype, rows, width, x, out, add_to, scratch);
    leave(&entry, ZR_ACTIVITY_column_sum, rows * width * size_of(dtype), 0);
}

static size_t recording_elements_column_sum_scratch(const zr_queue *queue, int64_t rows,
                                                    int64_t width)
{
    zr_queue plain = *queue;
    plain.backend = of(queue)->inner;
    return plain.backend->elements->column_sum_scratch(&plain, rows, width);
}

static void recording_elements_embedding_forward(zr_queue *queue, zero_dtype dtype,
                                                 zero_dtype stream, int64_t rows, int64_t seq,
                                                 int64_t width, const int32_t *ids,
                                                 const void *tokens, const void *positions,
                                                 void *out)
{
    entry entry = enter(queue);
    queue->backend->elements->embedding_forward(queue, dtype, stream, rows, seq, width, ids, tokens,
                                                positions, out);
    leave(&entry, ZR_ACTIVITY_embedding, rows * width * (2 * size_of(dtype) + size_of(stream)), 0);
}

static void recording_elements_add_positions(zr_queue *queue, zero_dtype dtype, int64_t rows,
                                             int64_t seq, int64_t first, int64_t width,
                                             const void *positions, float *x)
{
    int64_t element = 2 * size_of(ZERO_F32) + (positions ? size_of(dtype) : 0);
    entry entry = enter(queue);
    queue->backend->elements->add_positions(queue, dtype, rows, seq, first, width, positions, x);
    leave(&entry, ZR_ACTIVITY_embedding, rows * width * element, 0);
}

static void recording_elements_embedding_backward(zr_queue *queue, zero_dtype stream, int64_t rows,
                                                  int64_t seq, int64_t width, const int32_t *ids,
                                                  const void *d, int64_t vocab, float *d_tokens,
                                                  bool add_tokens, int64_t max_seq,
                                                  float *d_positions, bool add_positions)
{
    int64_t tables = (add_tokens ? 0 : vocab) + (add_positions ? 0 : max_seq);
    entry entry = enter(queue);
    queue->backend->elements->embedding_backward(queue, stream, rows, seq, width, ids, d, vocab,
                                                 d_tokens, add_tokens, max_seq, d_positions,
                                                 add_positions);
    leave(&entry, ZR_ACTIVITY_embedding,
          width * (rows * (size_of(stream) + 4 * (int64_t)sizeof(float)) +
                   tables * (int64_t)sizeof(float)),
          0);
}

static void recording_elements_copy(zr_queue *queue, int64_t bytes, const void *from, void *to)
{
    entry entry = enter(queue);
    queue->backend->elements->copy(queue, bytes, from, to);
    leave(&entry, ZR_ACTIVITY_element, 2 * bytes, 0);
}

static void recording_elements_copy_rows(zr_queue *queue, int64_t rows, int64_t bytes,
                                         const void *from, int64_t from_stride, void *to,
                                         int64_t to_stride)
{
    entry entry = enter(queue);
    queue->backend->elements->copy_rows(queue, rows, bytes, from, from_stride, to, to_stride);
    leave(&entry, ZR_ACTIVITY_element, 2 * rows * bytes, 0);
}

static void recording_elements_zero(zr_queue *queue, int64_t bytes, void *to)
{
    entry entry = enter(queue);
    queue->backend->elements->zero(queue, bytes, to);
    leave(&entry, ZR_ACTIVITY_element, bytes, 0);
}

const zr_element_ops zr_recording_element_ops = {
    .gelu_forward = recording_elements_gelu_forward,
    .gelu_backward = recording_elements_gelu_backward,
    .silu_gate_forward = recording_elements_silu_gate_forward,
    .silu_gate_backward = recording_elements_silu_gate_backward,
    .add = recording_elements_add,
    .dropout = recording_elements_dropout,
    .add_bias = recording_elements_add_bias,
    .convert = recording_elements_convert,
    .column_sum = recording_elements_column_sum,
    .column_sum_scratch = recording_elements_column_sum_scratch,
    .embedding_forward = recording_elements_embedding_forward,
    .add_positions = recording_elements_add_positions,
    .embedding_backward = recording_elements_embedding_backward,
    .copy = recording_elements_copy,
    .copy_rows = recording_elements_copy_rows,
    .zero = recording_elements_zero,
};
