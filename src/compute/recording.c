// A backend that records: each of its functions calls the same function of the backend that it
// wraps, and notes how long it took and what it moved. zr_queue_record puts it in place of a
// queue's backend, and zr_queue_record_end takes it out again; a run that records nothing does not
// use it.
//
// Bytes are those of the operands as they are stored, read and written once: what a kernel that is
// bound by memory has to move.
#include "base/alloc.h"
#include "compute/attention_ops.h"
#include "compute/optimizer_ops.h"
#include "compute/product_ops.h"
#include "compute/recording.h"
#include "compute/row_ops.h"

static size_t recording_product_scratch(zr_queue *queue, const zr_product *product)
{
    const zr_recording *self = of(queue);
    queue->backend = self->inner;
    size_t bytes = self->inner->product->scratch(queue, product);
    queue->backend = &self->outer;
    return bytes;
}

static zero_status product_run(zr_queue *queue, const zr_product *p, const void *a, const void *b,
                               const void *operand, void *d, zero_error *error)
{
    int64_t bytes = (p->m * p->k + p->k * p->n) * size_of(p->dtype) +
                    p->m * p->n * size_of(p->out) * (p->add ? 2 : 1);
    entry entry = enter(queue);
    zero_status status = queue->backend->product->run(queue, p, a, b, operand, d, error);
    leave(&entry, ZR_ACTIVITY_product, bytes, 2 * p->m * p->n * p->k);
    return status;
}

static void recording_norm_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                   const void *gamma, const void *beta, void *y, float *mean,
                                   float *rstd)
{
    entry entry = enter(queue);
    queue->backend->rows->norm_forward(queue, norm, x, gamma, beta, y, mean, rstd);
    leave(&entry, ZR_ACTIVITY_norm,
          norm->rows * norm->width * (size_of(norm->stream) + size_of(norm->dtype)), 0);
}

static void recording_residual_norm_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                            const void *branch, void *sum, const void *gamma,
                                            const void *beta, void *y, float *mean, float *rstd)
{
    entry entry = enter(queue);
    queue->backend->rows->residual_norm_forward(queue, norm, x, branch, sum, gamma, beta, y, mean,
                                                rstd);
    leave(&entry, ZR_ACTIVITY_norm,
          norm->rows * norm->width * 2 * (size_of(norm->stream) + size_of(norm->dtype)), 0);
}

static void recording_norm_backward(zr_queue *queue, const zr_norm *norm, const void *dy,
                                    const void *x, const void *gamma, const float *mean,
                                    const float *rstd, const void *past, void *dx, float *dgamma,
                                    float *dbeta, bool add_parameters, void *scratch)
{
    int64_t streams = past ? 3 : 2;
    entry entry = enter(queue);
    queue->backend->rows->norm_backward(queue, norm, dy, x, gamma, mean, rstd, past, dx, dgamma,
                                        dbeta, add_parameters, scratch);
    leave(&entry, ZR_ACTIVITY_norm,
          norm->rows * norm->width * (streams * size_of(norm->stream) + size_of(norm->dtype)), 0);
}

static size_t recording_norm_scratch(const zr_queue *queue, const zr_norm *norm)
{
    zr_queue plain = *queue;
    plain.backend = of(queue)->inner;
    return plain.backend->rows->norm_scratch(&plain, norm);
}

static void recording_rms_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                  const void *gamma, void *y, float *rstd)
{
    entry entry = enter(queue);
    queue->backend->rows->rms_forward(queue, norm, x, gamma, y, rstd);
    leave(&entry, ZR_ACTIVITY_norm,
          norm->rows * norm->width * (size_of(norm->stream) + size_of(norm->dtype)), 0);
}

static void recording_residual_rms_forward(zr_queue *queue, const zr_norm *norm, const void *x,
                                           const void *branch, void *sum, const void *gamma,
                                           void *y, float *rstd)
{
    entry entry = enter(queue);
    queue->backend->rows->residual_rms_forward(queue, norm, x, branch, sum, gamma, y, rstd);
    leave(&entry, ZR_ACTIVITY_norm,
          norm->rows * norm->width * 2 * (size_of(norm->stream) + size_of(norm->dtype)), 0);
}

static void recording_rms_backward(zr_queue *queue, const zr_norm *norm, const void *dy,
                                   const void *x, const void *gamma, const float *rstd,
                                   const void *past, void *dx, float *dgamma, bool add_parameters,
                                   void *scratch)
{
    int64_t streams = past ? 3 : 2;
    entry entry = enter(queue);
    queue->backend->rows->rms_backward(queue, norm, dy, x, gamma, rstd, past, dx, dgamma,
                                       add_parameters, scratch);
    leave(&entry, ZR_ACTIVITY_norm,
          norm->rows * norm->width * (streams * size_of(norm->stream) + size_of(norm->dtype)), 0);
}

static void recording_loss(zr_queue *queue, const zr_loss *loss, void *logits,
                           const int32_t *target, float *row_loss, bool gradient)
{
    entry entry = enter(queue);
    queue->backend->rows->loss(queue, loss, logits, target, row_loss, gradient);
    leave(&entry, ZR_ACTIVITY_loss,
          loss->rows * loss->vocab * size_of(loss->dtype) * (gradient ? 2 : 1), 0);
}

static void recording_loss_parts(zr_queue *queue, const zr_loss *loss, const void *logits,
                                 const int32_t *target, zr_loss_part *parts)
{
    entry entry = enter(queue);
    queue->backend->rows->loss_parts(queue, loss, logits, target, parts);
    leave(&entry, ZR_ACTIVITY_loss,
          loss->rows * (loss->vocab * size_of(loss->dtype) + (int64_t)sizeof *parts), 0);
}

static void recording_loss_finish(zr_queue *queue, const zr_loss *loss, int slices,
                                  const zr_loss_part *parts, int64_t stride, const int32_t *target,
                                  void *logits, float *row_loss, bool gradient)
{
    int64_t row = gradient ? 2 * loss->vocab * size_of(loss->dtype) : 0;
    entry entry = enter(queue);
    queue->backend->rows->loss_finish(queue, loss, slices, parts, stride, target, logits, row_loss,
                                      gradient);
    leave(&entry, ZR_ACTIVITY_loss, loss->rows * (row + slices * (int64_t)sizeof *parts), 0);
}

static void recording_softmax(zr_queue *queue, zero_dtype dtype, int64_t rows, int64_t width,
                              void *x)
{
    entry entry = enter(queue);
    queue->backend->rows->softmax(queue, dtype, rows, width, x);
    leave(&entry, ZR_ACTIVITY_loss, 2 * rows * width * size_of(dtype), 0);
}

static size_t attention_scratch(const zr_queue *queue, const zr_attention *attention)
{
    zr_queue plain = *queue;
    plain.backend = of(queue)->inner;
    return plain.backend->attention->scratch(&plain, attention);
}

// Bytes of qkv and of (batch, seq, heads*head_dim), and the flops of one product of all rows with
// all keys up to the diagonal.
static int64_t attention_bytes_in(const zr_attention *a)
{
    return a->batch * a->seq * zr_attention_row(a) * size_of(a->dtype);
}

static int64_t attention_bytes_out(const zr_attention *a)
{
    return a->batch * a->seq * a->heads * a->head_dim * size_of(a->dtype);
}

static int64_t attention_flops(const zr_attention *a)
{
    return a->batch * a->heads * a->head_dim * a->seq * (a->seq + 1);
}

static size_t attention_decode_scratch(const zr_queue *queue, const zr_attention *attention,
                                       int64_t capacity)
{
    zr_queue plain = *queue;
    plain.backend = of(queue)->inner;
    return plain.backend->attention->decode_scratch(&plain, attention, capacity);
}

static void attention_forward(zr_queue *queue, const zr_attention *attention, const void *qkv,
                              void *out, float *lse, void *scratch)
{
    entry entry = enter(queue);
    queue->backend->attention->forward(queue, attention, qkv, out, lse, scratch);
    leave(&entry, ZR_ACTIVITY_attention,
          attention_bytes_in(attention) + attention_bytes_out(attention),
          2 * attention_flops(attention));
}

static void attention_backward(zr_queue *queue, const zr_attention *attention, const void *qkv,
                               const void *out, const float *lse, const void *dout, void *dqkv,
                               float *d_shared, void *scratch)
{
    entry entry = enter(queue);
    queue->backend->attention->backward(queue, attention, qkv, out, lse, dout, dqkv, d_shared,
                                        scratch);
    leave(&entry, ZR_ACTIVITY_attention,
          2 * (attention_bytes_in(attention) + attention_bytes_out(attention)),
          5 * attention_flops(attention));
}

static void attention_decode(zr_queue *queue, const zr_attention *attention,
                             const zr_attention_cache *cache, const zr_attention_run *runs,
                             int run_count, const void *qkv, void *out, void *scratch)
{
    entry entry = enter(queue);
    int64_t positions = 0, pairs = 0; // of a row and a position that it sees
    queue->backend->attention->decode(queue, attention, cache, runs, run_count, qkv, out, scratch);
    for (int r = 0; r < run_count; r++) {
        positions += runs[r].first + runs[r].rows;
        pairs += runs[r].rows * runs[r].first + runs[r].rows * (runs[r].rows + 1) / 2;
    }
    leave(&entry, ZR_ACTIVITY_attention,
          2 * positions * attention->kv_heads * attention->head_dim * (int64_t)sizeof(float),
          4 * pairs * attention->heads * attention->head_dim);
}

static void rotary_table(zr_queue *queue, const zr_rotary *rotary, float *table)
{
    entry entry = enter(queue);
    queue->backend->attention->rotary_table(queue, rotary, table);
    leave(&entry, ZR_ACTIVITY_element, rotary->seq * rotary->head_dim * (int64_t)sizeof(float), 0);
}

static void rotate(zr_queue *queue, const zr_rotary *rotary, int64_t heads, const float *table,
                   bool back, const void *x, int64_t x_step, void *y, int64_t y_step)
{
    entry entry = enter(queue);
    queue->backend->attention->rotate(queue, rotary, heads, table, back, x, x_step, y, y_step);
    leave(&entry, ZR_ACTIVITY_element,
          rotary->batch * rotary->seq * heads * rotary->head_dim *
              (size_of(rotary->from) + size_of(rotary->to)),
          0);
}

// Returns bytes: master and states are read and written, the gradient is read, the 16-bit copy is
// written.
static int64_t update_bytes(int64_t n, const zr_range_states *at)
{
    int64_t states = 1 + (at->state0 != NULL) + (at->state1 != NULL);
    return n * (states * 2 * (int64_t)sizeof(float) + size_of(at->gradient_dtype) +
                (at->parameters ? size_of(at->parameters_dtype) : 0));
}

static void recording_update(zr_queue *queue, const zr_update *update, int64_t n,
                             const zr_range_states *at)
{
    entry entry = enter(queue);
    queue->backend->optimizer->update(queue, update, n, at);
    leave(&entry, ZR_ACTIVITY_optimizer, update_bytes(n, at), 0);
}

static void recording_square_sums(zr_queue *queue, zero_dtype dtype, const void *g, int64_t parts,
                                  const int64_t *first, const int32_t *count, double *sums)
{
    int64_t elements = 0;
    for (int64_t i = 0; i < parts; i++)
        elements += count[i];
    entry entry = enter(queue);
    queue->backend->optimizer->square_sums(queue, dtype, g, parts, first, count, sums);
    leave(&entry, ZR_ACTIVITY_square_sum, elements * size_of(dtype), 0);
}

static void recording_lamb_direction(zr_queue *queue, const zr_update *update, int64_t n,
                                     const zr_range_states *at)
{
    entry entry = enter(queue);
    queue->backend->optimizer->lamb_direction(queue, update, n, at);
    leave(&entry, ZR_ACTIVITY_optimizer,
          n * (6 * (int64_t)sizeof(float) + size_of(at->gradient_dtype)), 0);
}

static void recording_subtract_scaled(zr_queue *queue, int64_t n, float step,
                                      const zr_range_states *at)
{
    entry entry = enter(queue);
    queue->backend->optimizer->subtract_scaled(queue, n, step, at);
    leave(&entry, ZR_ACTIVITY_optimizer,
          n * (3 * (int64_t)sizeof(float) + (at->parameters ? size_of(at->parameters_dtype) : 0)),
          0);
}

static const zr_product_ops product_ops = {.scratch = recording_product_scratch,
                                           .run = product_run};

static const zr_row_ops row_ops = {
    .norm_forward = recording_norm_forward,
    .residual_norm_forward = recording_residual_norm_forward,
    .norm_backward = recording_norm_backward,
    .norm_scratch = recording_norm_scratch,
    .rms_forward = recording_rms_forward,
    .residual_rms_forward = recording_residual_rms_forward,
    .rms_backward = recording_rms_backward,
    .loss = recording_loss,
    .loss_parts = recording_loss_parts,
    .loss_finish = recording_loss_finish,
    .softmax = recording_softmax,
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

static const zr_optimizer_ops optimizer_ops = {
    .update = recording_update,
    .square_sums = recording_square_sums,
    .lamb_direction = recording_lamb_direction,
    .subtract_scaled = recording_subtract_scaled,
};

zero_status zr_queue_record(zr_queue *queue, zr_recorder *recorder, zr_recording **out,
                            zero_error *error)
{
    zr_recording *recording = zr_alloc(sizeof *recording, error);
    *out = recording;
    if (!recording)
        return ZERO_ERR_MEMORY;
    recording->inner = queue->backend;
    recording->recorder = recorder;
    recording->outer = *queue->backend;
    recording->outer.product = &product_ops;
    recording->outer.rows = &row_ops;
    recording->outer.attention = &attention_ops;
    recording->outer.elements = &zr_recording_element_ops;
    recording->outer.optimizer = &optimizer_ops;
    queue->backend = &recording->outer;
    return ZERO_OK;
}

void zr_queue_record_end(zr_queue *queue, zr_recording *recording)
{
    if (!recording)
        return;
    queue->backend = recording->inner;
    zr_free(recording);
}
