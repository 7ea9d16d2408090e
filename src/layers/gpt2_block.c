// GPT-2's block: its layers, what they save, their scratch, and its dropout.
// Backward recomputes the outputs of both norms, the output of gelu, the probabilities of
// attention, and the dropout masks.
#include "layers/block.h"
#include "compute/element_ops.h"
#include "model/gpt2_model.h"

static void set(const zr_lm_unit *hyper, const zero_shape *shape, bool training, zr_block *b)
{
    const zr_tensor_handle *tensor = hyper->tensor;
    int64_t width = b->width, inner = b->inner;
    b->gpt2.dropout = training ? hyper->config.gpt2.resid_pdrop : 0;
    b->norm1 = zr_lm_norm(hyper, b->dtype, b->rows, &tensor[ZR_LN1_W], &tensor[ZR_LN1_B]);
    b->norm2 = zr_lm_norm(hyper, b->dtype, b->rows, &tensor[ZR_LN2_W], &tensor[ZR_LN2_B]);
    b->linear_count = ZR_GPT2_LINEARS;
    b->linear[ZR_GPT2_QKV] = zr_block_linear(b, hyper, width, 3 * width, ZR_ATTN_W, ZR_ATTN_B);
    b->linear[ZR_GPT2_PROJ] =
        zr_block_linear(b, hyper, width, width, ZR_ATTN_PROJ_W, ZR_ATTN_PROJ_B);
    b->linear[ZR_GPT2_FC] = zr_block_linear(b, hyper, width, inner, ZR_FC_W, ZR_FC_B);
    b->linear[ZR_GPT2_MLP_PROJ] =
        zr_block_linear(b, hyper, inner, width, ZR_MLP_PROJ_W, ZR_MLP_PROJ_B);
    b->linear[ZR_GPT2_MLP_PROJ].gelu = true;
}

static void save(zr_block *block, zr_carver *carver)
{
    block->gpt2.qkv = zr_carve_as(carver, block->dtype, block->rows * 3 * block->width);
    block->gpt2.fc = zr_carve_as(carver, block->dtype, block->rows * block->inner);
}

static size_t work(zr_block *block, zr_carver carver)
{
    int64_t wide = ZR_MAX(block->inner, 3 * block->width);
    block->gpt2.wide = zr_carve_as(&carver, block->dtype, block->rows * wide);
    return carver.used;
}

static void alias(zr_block *block)
{
    block->attended = block->narrow;
    block->gpt2.qkv = block->gpt2.fc = block->gpt2.wide;
}

void zr_gpt2_drop(zr_block *block, enum zr_lm_site site, void *branch)
{
    zr_queue *queue = block->context->queue;
    float p = block->gpt2.dropout;
    if (p > 0)
        queue->backend->elements->dropout(queue, block->dtype, block->dtype,
                                          block->rows * block->width, p,
                                          zr_context_key(block->context, site), 0, branch, branch);
}

const void *zr_gpt2_undrop(zr_block *block, enum zr_lm_site site, const void *d, void *into)
{
    zr_queue *queue = block->context->queue;
    float p = block->gpt2.dropout;
    if (!(p > 0) && block->stream == block->dtype)
        return d;
    queue->backend->elements->dropout(queue, block->stream, block->dtype,
                                      block->rows * block->width, p,
                                      zr_context_key(block->context, site), 0, d, into);
    return into;
}

const zr_block_layers zr_gpt2_block_layers = {
    .set = set,
    .save = save,
    .work = work,
    .alias = alias,
    .attention_forward = zr_gpt2_attention_forward,
    .attention_backward = zr_gpt2_attention_backward,
    .mlp_forward = zr_gpt2_mlp_forward,
    .mlp_backward = zr_gpt2_mlp_backward,
};
