// The second half of a block: up, gelu, down, dropout.
// What gelu returned and ln_2's output are recomputed in backward: F + C floats a row less to keep, for two cheap passes.
#include "layers/block.h"

zero_status zr_mlp_forward(zr_block *block)
{
    zr_queue *queue = block->context->queue;
    const zr_block_work *work = &block->work;
    const zr_element_ops *elements = queue->backend->elements;
    ZERO_TRY(zr_linear_forward(block->context, &block->fc, work->normed, block->saved.fc));
    elements->gelu_forward(queue, ZERO_F32, block->rows * block->inner, block->saved.fc, work->wide);
    ZERO_TRY(zr_linear_forward(block->context, &block->mlp_proj, work->wide, work->narrow));
    if (block->dropout > 0)
        elements->dropout(queue, ZERO_F32, block->rows * block->width, block->dropout, block->mlp_key, work->narrow,
                          work->narrow);
    return ZERO_OK;
}

zero_status zr_mlp_backward(zr_block *block, const float *d)
{
    zr_queue *queue = block->context->queue;
    const zr_block_work *work = &block->work;
    const zr_element_ops *elements = queue->backend->elements;
    const float *d_projected = zr_block_undrop(block, block->mlp_key, d, work->narrow);
    elements->gelu_forward(queue, ZERO_F32, block->rows * block->inner, block->saved.fc, work->wide);
    ZERO_TRY(zr_linear_backward(block->context, &block->mlp_proj, work->wide, d_projected, work->wide, work->scratch));
    elements->gelu_backward(queue, ZERO_F32, block->rows * block->inner, block->saved.fc, work->wide);
    zr_layer_norm_forward(block->context, &block->ln2, block->saved.middle, work->normed, NULL, NULL);
    return zr_linear_backward(block->context, &block->fc, work->normed, work->wide, work->narrow, work->scratch);
}

const float *zr_block_undrop(zr_block *block, uint64_t key, const float *d, float *into)
{
    zr_queue *queue = block->context->queue;
    if (!(block->dropout > 0))
        return d;
    queue->backend->elements->dropout(queue, ZERO_F32, block->rows * block->width, block->dropout, key, d, into);
    return into;
}
