// The second half of Llama's block: gate and up, silu(gate) * up, down.
// Neither the product of the two nor the norm's output is kept: per row, 2F values are kept and F +
// C are recomputed.
#include "compute/element_ops.h"
#include "layers/block.h"

static void multiply(zr_block *block)
{
    zr_queue *queue = block->context->queue;
    zr_llama_parts *llama = &block->llama;
    queue->backend->elements->silu_gate_forward(queue, block->dtype, block->rows * block->inner,
                                                llama->gate, llama->up, llama->product);
}

zero_status zr_llama_mlp_forward(zr_block *block, const void **branch)
{
    zero_context *context = block->context;
    const zr_linear *linear = block->linear;
    zr_llama_parts *llama = &block->llama;
    void *scratch = block->scratch;
    ZERO_TRY(
        zr_linear_forward(context, &linear[ZR_LLAMA_GATE], block->normed, llama->gate, scratch));
    ZERO_TRY(zr_linear_forward(context, &linear[ZR_LLAMA_UP], block->normed, llama->up, scratch));
    multiply(block);
    *branch = block->narrow;
    return zr_linear_forward(context, &linear[ZR_LLAMA_DOWN], llama->product, block->narrow,
                             scratch);
}

zero_status zr_llama_mlp_backward(zr_block *block, const void *d, const void **dy)
{
    zero_context *context = block->context;
    zr_queue *queue = context->queue;
    const zr_linear *linear = block->linear;
    zr_llama_parts *llama = &block->llama;
    void *scratch = block->scratch, *d_gate = llama->d_product, *d_up = llama->product;
    multiply(block);
    ZERO_TRY(zr_linear_backward(context, &linear[ZR_LLAMA_DOWN], llama->product,
                                zr_llama_narrow(block, d), llama->d_product, scratch));
    queue->backend->elements->silu_gate_backward(queue, block->dtype, block->rows * block->inner,
                                                 llama->gate, llama->up, llama->d_product, d_gate,
                                                 d_up);
    zr_norm_forward(context, &block->norm2, block->middle, block->normed, NULL, NULL);
    ZERO_TRY(zr_linear_backward_sum(context, &linear[ZR_LLAMA_UP], block->normed, d_up, llama->sum,
                                    false, scratch));
    ZERO_TRY(zr_linear_backward_sum(context, &linear[ZR_LLAMA_GATE], block->normed, d_gate,
                                    llama->sum, true, scratch));
    *dy = zr_llama_narrow(block, llama->sum);
    return ZERO_OK;
}
