// The second half of a block: gate and up, silu(gate) * up, down.
// What the product of the two was is never stored, and the norm's output neither: 2F values a row are kept, F + C recomputed.
#include "layers/llama_block.h"

static void multiply(zr_llama_block *block, void *inner)
{
    zr_queue *queue = block->context->queue;
    queue->backend->elements->silu_gate_forward(queue, block->dtype, block->rows * block->inner, block->saved.gate, block->saved.up, inner);
}

zero_status zr_llama_mlp_forward(zr_llama_block *block)
{
    const zr_llama_work *work = &block->work;
    ZERO_TRY(zr_linear_forward(block->context, &block->gate, work->normed, block->saved.gate, work->scratch));
    ZERO_TRY(zr_linear_forward(block->context, &block->up, work->normed, block->saved.up, work->scratch));
    multiply(block, work->inner);
    return zr_linear_forward(block->context, &block->down, work->inner, work->narrow, work->scratch);
}

zero_status zr_llama_mlp_backward(zr_llama_block *block, const void *d, const void **dy)
{
    zr_queue *queue = block->context->queue;
    const zr_llama_saved *saved = &block->saved;
    const zr_llama_work *work = &block->work;
    void *d_gate = work->d_inner, *d_up = work->inner;
    multiply(block, work->inner);
    ZERO_TRY(zr_linear_backward(block->context, &block->down, work->inner, zr_llama_narrow(block, d), work->d_inner, work->scratch));
    queue->backend->elements->silu_gate_backward(queue, block->dtype, block->rows * block->inner, saved->gate, saved->up, work->d_inner, d_gate, d_up);
    zr_norm_forward(block->context, &block->norm2, saved->middle, work->normed, NULL, NULL);
    ZERO_TRY(zr_linear_backward_sum(block->context, &block->up, work->normed, d_up, work->sum, false, work->scratch));
    ZERO_TRY(zr_linear_backward_sum(block->context, &block->gate, work->normed, d_gate, work->sum, true, work->scratch));
    *dy = zr_llama_narrow(block, work->sum);
    return ZERO_OK;
}
