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

static zr_rotary rotary_of(const zr_llama_block *block)
{
    const zr_attention *attention = &block->attention;
    zr_rotary rotary = {.dtype = block->dtype, .batch = attention->batch, .seq = attention->seq, .head_dim = attention->head_dim, .first = block->position,
                        .frequency = block->work.frequency};
    zr_llama_frequencies(block->config, block->work.frequency, &rotary.factor);
    return rotary;
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
    zr_rotary rotary = rotary_of(block);
    if (block->config->qk_norm) {
        zr_norm_forward(block->context, &block->norm_q, q, work->q, NULL, work->rstd_q);
        zr_norm_forward(block->context, &block->norm_k, k, work->k, NULL, work->rstd_k);
        q = work->q, k = work->k;
    }
    ops->rotary_table(queue, &rotary, work->table);
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
    const zr_rotary rotary = rotary_of(block);
    ops->rotate(queue, &rotary, attention->heads, work->table, true, work->d_packed, row, work->q, queries);
    ops->rotate(queue, &rotary, attention->kv_heads, work->table, true, element_of(block, work->d_packed, queries), row, work->k, keys);
    queue->backend->elements->copy_rows(queue, block->rows, (int64_t)bytes_of(block, keys), element_of(block, work->d_packed, queries + keys),
                                        (int64_t)bytes_of(block, row), work->v, (int64_t)bytes_of(block, keys));
    if (block->config->qk_norm) {
        zr_norm_backward(block->context, &block->norm_q, work->q, saved->q, NULL, work->rstd_q, NULL, work->q, work->scratch);
        zr_norm_backward(block->context, &block->norm_k, work->k, saved->k, NULL, work->rstd_k, NULL, work->k, work->scratch);
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

zero_status zr_llama_attention_decode(zr_llama_block *block, zr_decode_cache *cache, int layer)
{
    zr_queue *queue = block->context->queue;
    const zr_llama_work *work = &block->work;
    int64_t first = layer * block->k.out * cache->capacity;
    ZERO_TRY(project_in(block));
    queue->backend->attention->decode(queue, &block->attention, work->packed, cache->k + first, cache->v + first, cache->capacity, cache->length, block->saved.attended);
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
