// The second half of Llama's block: gate and up, silu(gate) * up, down.
// Neither the product of the two nor the norm's output is kept: per row, 2F values are kept and F +
// C are recomputed.
#include "compute/compute.h"
#include "layers/block.h"

static void apply_silu_gate(zr_block *block, zr_block_slice *slice)
{
    zr_queue *queue = block->context->queue;
    zr_llama_parts *llama = &slice->llama;
    zr_run(queue, zr_op_silu_gate_forward(
                      &(zr_elements){.dtype = block->dtype, .n = block->rows * block->inner},
                      llama->gate, llama->up, llama->product));
}

zero_status zr_llama_mlp_forward(zr_block *block, zr_block_slice *slice, const void **inner)
{
    zero_context *context = block->context;
    const zr_linear *linear = slice->linear;
    zr_llama_parts *llama = &slice->llama;
    const void *x = block->input;
    void *scratch = block->scratch;
    ZERO_TRY(zr_linear_forward(context, &linear[ZR_LLAMA_GATE], x, llama->gate, scratch));
    ZERO_TRY(zr_linear_forward(context, &linear[ZR_LLAMA_UP], x, llama->up, scratch));
    apply_silu_gate(block, slice);
    *inner = llama->product;
    return ZERO_OK;
}

zero_status zr_llama_mlp_backward(zr_block *block, zr_block_slice *slice, const void *d)
{
    zr_queue *queue = block->context->queue;
    zr_llama_parts *llama = &slice->llama;
    if (block->parts & ZR_BACKWARD_WEIGHT)
        apply_silu_gate(block, slice);
    ZERO_TRY(zr_linear_backward(block->context, &slice->linear[ZR_LLAMA_DOWN], block->parts,
                                llama->product, d, llama->d_product, block->scratch));
    if (block->parts & ZR_BACKWARD_INPUT)
        zr_run(queue, zr_op_silu_gate_backward(
                          &(zr_elements){.dtype = block->dtype, .n = block->rows * block->inner},
                          llama->gate, llama->up, llama->d_product, llama->d_gate, llama->d_up));
    zr_block_add_input(slice, ZR_LLAMA_UP, llama->d_up, ZR_BACKWARD_WHOLE);
    zr_block_add_input(slice, ZR_LLAMA_GATE, llama->d_gate, ZR_BACKWARD_WHOLE);
    return ZERO_OK;
}
