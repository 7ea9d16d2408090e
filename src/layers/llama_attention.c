// The first half of a block: queries, keys and values; norms of the heads where there are any; rotation by position; causal attention with
// shared keys; the output's product.
// Saved are q, k and v as they left their products: what attention reads, normed, rotated and packed, is made again in backward.
#include "layers/llama_block.h"

static size_t bytes_of(const zr_llama_block *block, int64_t elements)
{
    return zero_dtype_bytes(block->dtype) * (size_t)elements;
}

static char *element_of(const zr_llama_block *block, void *array, int64_t element)
{
    return (char *)array + bytes_of(block, element);
}

static zr_rotary rotary_of(const zr_llama_block *block, zero_dtype from, zero_dtype to)
{
    const zr_attention *attention = &block->attention;
    zr_rotary rotary = {.from = from, .to = to, .batch = attention->batch, .seq = attention->seq, .head_dim = attention->head_dim,
                        .frequency = block->work.frequency};
    zr_llama_frequencies(block->config, block->work.frequency, &rotary.factor);
    return rotary;
}

// Cosines and sines of every row's position: a step's rows stand where their runs say.
static void make_table(const zr_llama_block *block, const zr_rotary *rotary)
{
    zr_queue *queue = block->context->queue;
    const zr_attention_ops *ops = queue->backend->attention;
    float *table = block->work.table;
    if (!block->step)
        ops->rotary_table(queue, rotary, table);
    for (int r = 0; block->step && r < block->step->run_count; r++) {
        const zr_attention_run *run = &block->step->runs[r];
        zr_rotary of_run = *rotary;
        of_run.first = run->first;
        of_run.seq = run->rows;
        ops->rotary_table(queue, &of_run, table);
        table += run->rows * rotary->head_dim;
    }
}

// The gain of a norm over heads, in fp32.
static const float *gain_of(const zr_llama_block *block, const zr_tensor_handle *of)
{
    zr_queue *queue = block->context->queue;
    const void *gain = zr_tensor_values(block->context, of, 0);
    if (block->dtype == ZERO_F32)
        return gain;
    queue->backend->elements->convert(queue, block->dtype, ZERO_F32, block->attention.head_dim, gain, block->work.gain);
    return block->work.gain;
}

static void norm_heads(const zr_llama_block *block, const zr_norm *norm,
                       const zr_tensor_handle *gain, const void *x, float *y, float *rstd)
{
    zr_queue *queue = block->context->queue;
    queue->backend->rows->rms_forward(queue, norm, x, gain_of(block, gain), y, rstd);
}

static void norm_heads_backward(const zr_llama_block *block, const zr_norm *norm,
                                const zr_tensor_handle *gain, const float *dy, const void *x,
                                const float *rstd, void *dx)
{
    zr_queue *queue = block->context->queue;
    int add = 0;
    float *d_gain = zr_tensor_gradient(block->context, gain, 0, &add);
    queue->backend->rows->rms_backward(queue, norm, dy, x, gain_of(block, gain), rstd, NULL, dx, d_gain, add, block->work.scratch);
}

// q, k, v -> [norms] -> packed, queries and keys rotated.
static void pack(zr_llama_block *block)
{
    zr_queue *queue = block->context->queue;
    const zr_attention *attention = &block->attention;
    const zr_attention_ops *ops = queue->backend->attention;
    const zr_llama_saved *saved = &block->saved;
    const zr_llama_work *work = &block->work;
    int64_t queries = block->q.out, keys = block->k.out, row = zr_attention_row(attention);
    const void *q = saved->q, *k = saved->k;
    bool normed = block->config->qk_norm;
    const zr_rotary rotary = rotary_of(block, normed ? ZERO_F32 : block->dtype, block->dtype);
    if (normed) {
        norm_heads(block, &block->norm_q, block->gain_q, q, work->heads_q, work->rstd_q);
        norm_heads(block, &block->norm_k, block->gain_k, k, work->heads_k, work->rstd_k);
        q = work->heads_q, k = work->heads_k;
    }
    make_table(block, &rotary);
    ops->rotate(queue, &rotary, attention->heads, work->table, false, q, queries, work->packed, row);
    ops->rotate(queue, &rotary, attention->kv_heads, work->table, false, k, keys, element_of(block, work->packed, queries), row);
    queue->backend->elements->copy_rows(queue, block->rows, (int64_t)bytes_of(block, keys), saved->v, (int64_t)bytes_of(block, keys),
                                        element_of(block, work->packed, queries + keys), (int64_t)bytes_of(block, row));
}

// The gradient of what was packed -> of q, k, v as they left their products. The table is the one that pack has made.
static void unpack_gradient(zr_llama_block *block)
{
    zr_queue *queue = block->context->queue;
    const zr_attention *attention = &block->attention;
    const zr_attention_ops *ops = queue->backend->attention;
    const zr_llama_saved *saved = &block->saved;
    const zr_llama_work *work = &block->work;
    int64_t queries = block->q.out, keys = block->k.out, row = zr_attention_row(attention);
    bool normed = block->config->qk_norm;
    const zr_rotary rotary = rotary_of(block, block->dtype, normed ? ZERO_F32 : block->dtype);
    ops->rotate(queue, &rotary, attention->heads, work->table, true, work->d_packed, row, normed ? work->heads_q : work->q, queries);
    ops->rotate(queue, &rotary, attention->kv_heads, work->table, true, element_of(block, work->d_packed, queries), row, normed ? work->heads_k : work->k, keys);
    queue->backend->elements->copy_rows(queue, block->rows, (int64_t)bytes_of(block, keys), element_of(block, work->d_packed, queries + keys),
                                        (int64_t)bytes_of(block, row), work->v, (int64_t)bytes_of(block, keys));
    if (normed) {
        norm_heads_backward(block, &block->norm_q, block->gain_q, work->heads_q, saved->q, work->rstd_q, work->q);
        norm_heads_backward(block, &block->norm_k, block->gain_k, work->heads_k, saved->k, work->rstd_k, work->k);
    }
}

static zero_status project_in(zr_llama_block *block)
{
    const zr_llama_saved *saved = &block->saved;
    const zr_llama_work *work = &block->work;
    ZERO_TRY(zr_linear_forward(block->context, &block->q, work->normed, saved->q, work->scratch));
    ZERO_TRY(zr_linear_forward(block->context, &block->k, work->normed, saved->k, work->scratch));
    ZERO_TRY(zr_linear_forward(block->context, &block->v, work->normed, saved->v, work->scratch));
    pack(block);
    return ZERO_OK;
}

zero_status zr_llama_attention_forward(zr_llama_block *block)
{
    zr_queue *queue = block->context->queue;
    const zr_llama_work *work = &block->work;
    ZERO_TRY(project_in(block));
    queue->backend->attention->forward(queue, &block->attention, work->packed, block->saved.attended, block->saved.lse, work->scratch);
    return zr_linear_forward(block->context, &block->o, block->saved.attended, work->narrow, work->scratch);
}

zero_status zr_llama_attention_decode(zr_llama_block *block, const zr_attention_cache *cache, void *scratch)
{
    zr_queue *queue = block->context->queue;
    const zr_llama_work *work = &block->work;
    ZERO_TRY(project_in(block));
    queue->backend->attention->decode(queue, &block->attention, cache, block->step->runs, block->step->run_count, work->packed, block->saved.attended, scratch);
    return zr_linear_forward(block->context, &block->o, block->saved.attended, work->narrow, work->scratch);
}

zero_status zr_llama_attention_backward(zr_llama_block *block, const void *x, const void *d, const void **dy)
{
    zr_queue *queue = block->context->queue;
    const zr_llama_saved *saved = &block->saved;
    const zr_llama_work *work = &block->work;
    void *d_attended = work->q; // there until the gradients of q, k and v are
    pack(block);
    ZERO_TRY(zr_linear_backward(block->context, &block->o, saved->attended, zr_llama_narrow(block, d), d_attended, work->scratch));
    queue->backend->attention->backward(queue, &block->attention, work->packed, saved->attended, saved->lse, d_attended, work->d_packed, work->scratch);
    unpack_gradient(block);
    zr_norm_forward(block->context, &block->norm1, x, work->normed, NULL, NULL);
    ZERO_TRY(zr_linear_backward_sum(block->context, &block->v, work->normed, work->v, work->sum, false, work->scratch));
    ZERO_TRY(zr_linear_backward_sum(block->context, &block->k, work->normed, work->k, work->sum, true, work->scratch));
    ZERO_TRY(zr_linear_backward_sum(block->context, &block->q, work->normed, work->q, work->sum, true, work->scratch));
    *dy = zr_llama_narrow(block, work->sum);
    return ZERO_OK;
}
