// The first half of GPT-2's block: queries, keys and values; causal attention; projection; dropout.
// Probabilities are never stored: backward recomputes them from qkv and each row's log-sum-exp.
#include "layers/block.h"

zero_status zr_gpt2_attention_forward(zr_block *block, const void **branch)
{
    zero_context *context = block->context;
    const zr_linear *qkv = &block->linear[ZR_GPT2_QKV], *proj = &block->linear[ZR_GPT2_PROJ];
    void *projected = block->gpt2.wide;
    ZERO_TRY(zr_linear_forward(context, qkv, block->normed, block->gpt2.qkv, block->scratch));
    zr_block_attend(block, block->gpt2.qkv);
    ZERO_TRY(zr_linear_forward(context, proj, block->attended, projected, block->scratch));
    zr_gpt2_drop(block, ZR_SITE_ATTENTION_RESIDUAL, projected);
    *branch = projected;
    return ZERO_OK;
}

zero_status zr_gpt2_attention_backward(zr_block *block, const void *x, const void *d,
                                       const void **dy)
{
    zero_context *context = block->context;
    zr_queue *queue = context->queue;
    const zr_linear *qkv = &block->linear[ZR_GPT2_QKV], *proj = &block->linear[ZR_GPT2_PROJ];
    void *d_attended = block->normed, *d_qkv = block->gpt2.wide;
    const void *d_projected = zr_gpt2_undrop(block, ZR_SITE_ATTENTION_RESIDUAL, d, block->narrow);
    ZERO_TRY(zr_linear_backward(context, proj, block->attended, d_projected, d_attended,
                                block->scratch));
    queue->backend->attention->backward(queue, &block->attention, block->gpt2.qkv, block->attended,
                                        block->lse, d_attended, d_qkv, NULL, block->scratch);
    zr_norm_forward(context, &block->norm1, x, block->normed, NULL, NULL);
    *dy = block->narrow;
    return zr_linear_backward(context, qkv, block->normed, d_qkv, block->narrow, block->scratch);
}
