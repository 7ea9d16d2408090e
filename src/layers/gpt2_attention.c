// The first half of GPT-2's block: queries, keys and values; causal attention; projection.
// Probabilities are never stored: backward recomputes them from qkv and each row's log-sum-exp.
#include "layers/block.h"

zero_status zr_gpt2_attention_forward(zr_block *block, zr_block_slice *slice, const void **inner)
{
    const zr_linear *qkv = &slice->linear[ZR_GPT2_QKV];
    ZERO_TRY(zr_linear_forward(block->context, qkv, block->input, slice->gpt2.qkv, block->scratch));
    zr_block_attend(block, slice, slice->gpt2.qkv);
    *inner = slice->attended;
    return ZERO_OK;
}

zero_status zr_gpt2_attention_backward(zr_block *block, zr_block_slice *slice, const void *d)
{
    zr_queue *queue = block->context->queue;
    void *d_attended = slice->gpt2.d_attended, *d_qkv = slice->gpt2.d_qkv;
    ZERO_TRY(zr_linear_backward(block->context, &slice->linear[ZR_GPT2_PROJ], block->parts,
                                slice->attended, d, d_attended, block->scratch));
    if (block->parts & ZR_BACKWARD_INPUT)
        queue->backend->attention->backward(queue, &slice->attention, slice->gpt2.qkv,
                                            slice->attended, slice->lse, d_attended, d_qkv, NULL,
                                            block->scratch);
    zr_block_add_input(slice, &(zr_block_input){.linear = &slice->linear[ZR_GPT2_QKV],
                                                .gradient = d_qkv,
                                                .parts = ZR_BACKWARD_WHOLE});
    return ZERO_OK;
}
