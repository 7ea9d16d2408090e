// The second half of a block: up, gelu, down, dropout.
// What gelu returned is never stored: the products that read it apply gelu to fc on their way, in forward and in backward; and
// ln_2's output is recomputed: F + C values a row less to keep.
#include "layers/gpt2_block.h"

zero_status zr_mlp_forward(zr_block *block)
{
    zr_queue *queue = block->context->queue;
    const zr_block_work *work = &block->work;
    ZERO_TRY(zr_linear_forward(block->context, &block->fc, work->normed, block->saved.fc, work->scratch));
    ZERO_TRY(zr_linear_forward(block->context, &block->mlp_proj, block->saved.fc, work->narrow, work->scratch));
    if (block->dropout > 0)
        queue->backend->elements->dropout(queue, block->dtype, block->dtype, block->rows * block->width, block->dropout,
                                          block->mlp_key, work->narrow, work->narrow);
    return ZERO_OK;
}

zero_status zr_mlp_backward(zr_block *block, const void *d)
{
    const zr_block_work *work = &block->work;
    const void *d_projected = zr_block_undrop(block, block->mlp_key, d, work->narrow);
    ZERO_TRY(zr_linear_backward(block->context, &block->mlp_proj, block->saved.fc, d_projected, work->wide, work->scratch));
    zr_norm_forward(block->context, &block->ln2, block->saved.middle, work->normed, NULL, NULL);
    return zr_linear_backward(block->context, &block->fc, work->normed, work->wide, work->narrow, work->scratch);
}

const void *zr_block_undrop(zr_block *block, uint64_t key, const void *d, void *into)
{
    zr_queue *queue = block->context->queue;
    if (!(block->dropout > 0) && block->stream == block->dtype)
        return d;
    queue->backend->elements->dropout(queue, block->stream, block->dtype, block->rows * block->width, block->dropout, key, d, into);
    return into;
}
