// The first half of a block: queries, keys and values; causal attention; projection; dropout.
// Probabilities are never stored: backward recomputes them from qkv and the rows' log-sum-exp, and ln_1's output from x.
#include "layers/gpt2_block.h"

static zero_status project(zr_block *block)
{
    zr_queue *queue = block->context->queue;
    void *projected = block->work.wide;
    ZERO_TRY(zr_linear_forward(block->context, &block->attention_proj, block->saved.attended, projected, block->work.scratch));
    if (block->dropout > 0)
        queue->backend->elements->dropout(queue, block->dtype, block->dtype, block->rows * block->width, block->dropout,
                                          block->attention_key, projected, projected);
    return ZERO_OK;
}

zero_status zr_attention_layer_forward(zr_block *block)
{
    zr_queue *queue = block->context->queue;
    const zr_block_saved *saved = &block->saved;
    ZERO_TRY(zr_linear_forward(block->context, &block->qkv, block->work.normed, saved->qkv, block->work.scratch));
    queue->backend->attention->forward(queue, &block->attention, saved->qkv, saved->attended, saved->lse,
                                       block->work.scratch);
    return project(block);
}

zero_status zr_attention_layer_decode(zr_block *block, const zr_attention_cache *cache, const zr_decode_step *step, void *scratch)
{
    zr_queue *queue = block->context->queue;
    const zr_block_saved *saved = &block->saved;
    ZERO_TRY(zr_linear_forward(block->context, &block->qkv, block->work.normed, saved->qkv, block->work.scratch));
    queue->backend->attention->decode(queue, &block->attention, cache, step->runs, step->run_count, saved->qkv, saved->attended, scratch);
    return project(block);
}

zero_status zr_attention_layer_backward(zr_block *block, const void *x, const void *d)
{
    zr_queue *queue = block->context->queue;
    const zr_block_saved *saved = &block->saved;
    const zr_block_work *work = &block->work;
    void *d_attended = work->normed, *d_qkv = work->wide;
    const void *d_projected = zr_block_undrop(block, block->attention_key, d, work->narrow);
    ZERO_TRY(zr_linear_backward(block->context, &block->attention_proj, saved->attended, d_projected, d_attended,
                                work->scratch));
    queue->backend->attention->backward(queue, &block->attention, saved->qkv, saved->attended, saved->lse, d_attended,
                                        d_qkv, work->scratch);
    zr_norm_forward(block->context, &block->ln1, x, work->normed, NULL, NULL);
    return zr_linear_backward(block->context, &block->qkv, work->normed, d_qkv, work->narrow, work->scratch);
}
