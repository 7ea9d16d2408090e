// The backend that computes nothing (compute.h): every function but those of scratch is empty.
#include "compute/compute.h"

#include "base/alloc.h"
#include "compute/attention_ops.h"
#include "compute/backends.h"
#include "compute/element_ops.h"
#include "compute/optimizer_ops.h"
#include "compute/row_ops.h"

struct zr_counting {
    zr_backend outer; // queue->backend points to this
    const zr_backend *inner;
};

static const zr_backend *inner_backend(const zr_queue *queue)
{
    return ((const zr_counting *)queue->backend)->inner;
}

// Returns the queue with the backend that is stood for, some of whose functions use others of it.
static zr_queue inner_queue(const zr_queue *queue)
{
    zr_queue plain = *queue;
    plain.backend = inner_backend(queue);
    return plain;
}

static size_t counting_product_scratch(zr_queue *queue, const zr_product *product)
{
    zr_queue plain = inner_queue(queue);
    return plain.backend->product->scratch(&plain, product);
}

static zero_status product_run(zr_queue *queue, const zr_product *product, const void *a,
                               const void *b, const void *operand, void *d, zero_error *error)
{
    return zr_product_check(product, error);
}

static void counting_norm_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                  const void *gamma, const void *beta, void *y, float *mean,
                                  float *rstd)
{
}

static void counting_residual_norm_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                           const void *branch, void *sum, const void *gamma,
                                           const void *beta, void *y, float *mean, float *rstd)
{
}

static void counting_norm_backward(zr_queue *queue, const zr_norm *norm, const void *dy,
                                   const void *x, const void *gamma, const float *mean,
                                   const float *rstd, const void *past, void *dx, float *dgamma,
                                   float *dbeta, bool add_parameters, void *scratch)
{
}

static size_t counting_norm_scratch(const zr_queue *queue, const zr_norm *norm)
{
    zr_queue plain = inner_queue(queue);
    return plain.backend->rows->norm_scratch(&plain, norm);
}

static void counting_rms_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                 const void *gamma, void *y, float *rstd)
{
}

static void counting_residual_rms_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                          const void *branch, void *sum, const void *gamma, void *y,
                                          float *rstd)
{
}

static void counting_rms_backward(zr_queue *queue, const zr_norm *norm, const void *dy,
                                  const void *x, const void *gamma, const float *rstd,
                                  const void *past, void *dx, float *dgamma, bool add_parameters,
                                  void *scratch)
{
}

static void counting_loss(zr_queue *queue, const zr_loss *loss, void *logits, const int32_t *target,
                          float *row_loss, bool gradient)
{
}

static void counting_loss_parts(zr_queue *queue, const zr_loss *loss, const void *logits,
                                const int32_t *target, zr_loss_part *parts)
{
}

static void counting_loss_finish(zr_queue *queue, const zr_loss *loss, int slices,
                                 const zr_loss_part *parts, int64_t stride, const int32_t *target,
                                 void *logits, float *row_loss, bool gradient)
{
}

static void counting_softmax(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                             void *x)
{
}

static size_t attention_scratch(const zr_queue *queue, const zr_attention *attention)
{
    zr_queue plain = inner_queue(queue);
    return plain.backend->attention->scratch(&plain, attention);
}

static void attention_forward(zr_queue *queue, const zr_attention *attention, const void *qkv,
                              void *out, float *lse, void *scratch)
{
}

static void attention_backward(zr_queue *queue, const zr_attention *attention, const void *qkv,
                               const void *out, const float *lse, const void *dout, void *dqkv,
                               float *d_shared, void *scratch)
{
}

static void attention_decode(zr_queue *queue, const zr_attention *attention,
                             const zr_attention_cache *cache, const zr_attention_run *runs,
                             int run_count, const void *qkv, void *out, void *scratch)
{
}

static size_t attention_decode_scratch(const zr_queue *queue, const zr_attention *attention,
                                       int64_t capacity)
{
    zr_queue plain = inner_queue(queue);
    return plain.backend->attention->decode_scratch(&plain, attention, capacity);
}

static void rotary_table(zr_queue *queue, const zr_rotary *rotary, float *table) {}

static void rotate(zr_queue *queue, const zr_rotary *rotary, int64_t heads, const float *table,
                   bool back, const void *x, int64_t x_step, void *y, int64_t y_step)
{
}

static void counting_gelu_forward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre,
                                  void *out)
{
}

static void counting_gelu_backward(zr_queue *queue, zero_dtype dtype, int64_t n, const void *pre,
                                   void *d)
{
}

static void counting_silu_gate_forward(zr_queue *queue, zero_dtype dtype, int64_t n,
                                       const void *gate, const void *up, void *out)
{
}

static void counting_silu_gate_backward(zr_queue *queue, zero_dtype dtype, int64_t n,
                                        const void *gate, const void *up, const void *d,
                                        void *d_gate, void *d_up)
{
}

static void counting_add(zr_queue *queue, zero_dtype stream, zero_dtype dtype, int64_t n,
                         const void *x, const void *branch, void *out)
{
}

static void counting_dropout(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n, float p,
                             uint64_t key, int64_t first, const void *x, void *out)
{
}

static void counting_add_bias(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                              const float *sum, const void *bias, void *out)
{
}

static void counting_convert(zr_queue *queue, zero_dtype from, zero_dtype to, int64_t n,
                             const void *x, void *out)
{
}

static void counting_column_sum(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                                const void *x, float *out, bool add_to, void *scratch)
{
}

static size_t counting_column_sum_scratch(const zr_queue *queue, int64_t rows, int64_t width)
{
    zr_queue plain = inner_queue(queue);
    return plain.backend->elements->column_sum_scratch(&plain, rows, width);
}

static void counting_embedding_forward(zr_queue *queue, zero_dtype dtype, zero_dtype stream,
                                       int64_t rows, int64_t seq, int64_t width, const int32_t *ids,
                                       const void *tokens, const void *positions, void *out)
{
}

static void counting_add_positions(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t seq,
                                   int64_t first, int64_t width, const void *positions, float *x)
{
}

static void counting_embedding_backward(zr_queue *queue, zero_dtype stream, int64_t rows,
                                        int64_t seq, int64_t width, const int32_t *ids,
                                        const void *d, int64_t vocab, float *d_tokens,
                                        bool add_tokens, int64_t max_seq, float *d_positions,
                                        bool add_positions)
{
}

static void counting_copy(zr_queue *queue, int64_t bytes, const void *from, void *to) {}

static void counting_copy_rows(zr_queue *queue, int64_t rows, int64_t bytes, const void *from,
                               int64_t from_stride, void *to, int64_t to_stride)
{
}

static void counting_zero(zr_queue *queue, int64_t bytes, void *to) {}

static void counting_update(zr_queue *queue, const zr_update *update, int64_t n,
                            const zr_range_states *at)
{
}

static void counting_square_sums(zr_queue *queue, zero_dtype dtype, const void *g, int64_t parts,
                                 const int64_t *first, const int32_t *count, double *sums)
{
}

static void counting_lamb_direction(zr_queue *queue, const zr_update *update, int64_t n,
                                    const zr_range_states *at)
{
}

static void counting_subtract_scaled(zr_queue *queue, int64_t n, float step,
                                     const zr_range_states *at)
{
}

static const zr_product_ops product_ops = {.scratch = counting_product_scratch, .run = product_run};

static const zr_row_ops row_ops = {
    .norm_forward = counting_norm_forward,
    .residual_norm_forward = counting_residual_norm_forward,
    .norm_backward = counting_norm_backward,
    .norm_scratch = counting_norm_scratch,
    .rms_forward = counting_rms_forward,
    .residual_rms_forward = counting_residual_rms_forward,
    .rms_backward = counting_rms_backward,
    .loss = counting_loss,
    .loss_parts = counting_loss_parts,
    .loss_finish = counting_loss_finish,
    .softmax = counting_softmax,
};

static const zr_attention_ops attention_ops = {
    .scratch = attention_scratch,
    .forward = attention_forward,
    .backward = attention_backward,
    .decode = attention_decode,
    .decode_scratch = attention_decode_scratch,
    .rotary_table = rotary_table,
    .rotate = rotate,
};

static const zr_element_ops element_ops = {
    .gelu_forward = counting_gelu_forward,
    .gelu_backward = counting_gelu_backward,
    .silu_gate_forward = counting_silu_gate_forward,
    .silu_gate_backward = counting_silu_gate_backward,
    .add = counting_add,
    .dropout = counting_dropout,
    .add_bias = counting_add_bias,
    .convert = counting_convert,
    .column_sum = counting_column_sum,
    .column_sum_scratch = counting_column_sum_scratch,
    .embedding_forward = counting_embedding_forward,
    .add_positions = counting_add_positions,
    .embedding_backward = counting_embedding_backward,
    .copy = counting_copy,
    .copy_rows = counting_copy_rows,
    .zero = counting_zero,
};

static const zr_optimizer_ops optimizer_ops = {
    .update = counting_update,
    .square_sums = counting_square_sums,
    .lamb_direction = counting_lamb_direction,
    .subtract_scaled = counting_subtract_scaled,
};

zero_status zr_queue_count(zr_queue *queue, zr_counting **out, zero_error *error)
{
    zr_counting *counting = zr_alloc(sizeof *counting, error);
    *out = counting;
    if (!counting)
        return ZERO_ERR_MEMORY;
    counting->inner = queue->backend;
    counting->outer = *queue->backend;
    counting->outer.product = &product_ops;
    counting->outer.rows = &row_ops;
    counting->outer.attention = &attention_ops;
    counting->outer.elements = &element_ops;
    counting->outer.optimizer = &optimizer_ops;
    queue->backend = &counting->outer;
    return ZERO_OK;
}

void zr_queue_count_end(zr_queue *queue, zr_counting *counting)
{
    if (!counting)
        return;
    queue->backend = counting->inner;
    zr_free(counting);
}
