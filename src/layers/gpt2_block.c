// GPT-2's block: its layers, what they save, and their scratch.
// Backward recomputes the outputs of both norms, the output of gelu, the probabilities of
// attention, and the dropout masks.
#include "layers/block.h"
#include "model/gpt2_model.h"

// Returns the width of a slice's heads.
static int64_t heads_width(const zr_block_slice *slice)
{
    return slice->attention.heads * slice->attention.head_dim;
}

static void set_slice(const zr_lm_unit *hyper, const zr_block *b, zr_block_slice *slice)
{
    int64_t width = b->width, heads = heads_width(slice), inner = b->inner;
    int i = slice->number;
    zr_linear *linear = slice->linear;
    linear[ZR_GPT2_QKV] = zr_block_linear(b, hyper, i, width, 3 * heads, ZR_ATTN_W, ZR_ATTN_B);
    linear[ZR_GPT2_PROJ] =
        zr_block_linear(b, hyper, i, heads, width, ZR_ATTN_PROJ_W, ZR_ATTN_PROJ_B);
    linear[ZR_GPT2_FC] = zr_block_linear(b, hyper, i, width, inner, ZR_FC_W, ZR_FC_B);
    linear[ZR_GPT2_MLP_PROJ] =
        zr_block_linear(b, hyper, i, inner, width, ZR_MLP_PROJ_W, ZR_MLP_PROJ_B);
    linear[ZR_GPT2_MLP_PROJ].gelu = true;
}

static void set_gpt2_block(const zr_lm_unit *hyper, const zero_shape *shape, bool training,
                           zr_block *b)
{
    const zr_tensor_handle *tensor = hyper->tensor;
    int64_t own = b->division.own;
    b->dropout = training ? hyper->config.gpt2.resid_pdrop : 0;
    b->norm1 = zr_lm_norm(hyper, b->dtype, own, &tensor[ZR_LN1_W], &tensor[ZR_LN1_B]);
    b->norm2 = zr_lm_norm(hyper, b->dtype, own, &tensor[ZR_LN2_W], &tensor[ZR_LN2_B]);
    b->linear_count = ZR_GPT2_LINEARS;
    for (int i = 0; i < b->slice_count; i++)
        set_slice(hyper, b, &b->slices[i]);
}

static void carve_gpt2_saved(zr_block *block, zr_carver *carver)
{
    for (int i = 0; i < block->slice_count; i++) {
        zr_block_slice *slice = &block->slices[i];
        int64_t heads = heads_width(slice);
        slice->gpt2.qkv = zr_carve_as(carver, block->dtype, block->rows * 3 * heads);
        slice->gpt2.fc = zr_carve_as(carver, block->dtype, block->rows * block->inner);
    }
}

// In a block that is not cut, d_attended reuses the memory of the norm's output, which is not read
// any more by then.
static size_t carve_gpt2_workspace(zr_block *block, zr_carver carver)
{
    for (int i = 0; i < block->slice_count; i++) {
        zr_block_slice *slice = &block->slices[i];
        int64_t heads = heads_width(slice), wide = ZR_MAX(block->inner, 3 * heads);
        slice->gpt2.wide = zr_carve_as(&carver, block->dtype, block->rows * wide);
        slice->gpt2.d_qkv = slice->gpt2.d_fc = slice->gpt2.wide;
        slice->gpt2.d_attended = zr_block_is_cut(block)
                                     ? zr_carve_as(&carver, block->dtype, block->rows * heads)
                                     : block->normed;
    }
    if (!zr_block_is_cut(block))
        block->branch[ZR_ATTENTION_HALF] = block->slices[0].gpt2.wide;
    return carver.used;
}

static void hold_gpt2_gradients(zr_block *block, zr_carver *held)
{
    for (int i = 0; i < block->slice_count; i++) {
        const zr_linear *linear = block->slices[i].linear;
        zr_gpt2_parts *gpt2 = &block->slices[i].gpt2;
        gpt2->d_qkv = zr_linear_hold(&linear[ZR_GPT2_QKV], held, gpt2->wide);
        gpt2->d_fc = zr_linear_hold(&linear[ZR_GPT2_FC], held, gpt2->wide);
    }
}

static void alias_saved_to_workspace(zr_block *block)
{
    for (int i = 0; i < block->slice_count; i++) {
        zr_block_slice *slice = &block->slices[i];
        slice->attended = zr_block_is_cut(block) ? slice->gpt2.d_attended : block->narrow;
        slice->gpt2.qkv = slice->gpt2.fc = slice->gpt2.wide;
    }
}

// The first half: queries, keys and values; causal attention; projection. Probabilities are never
// stored: backward recomputes them from qkv and each row's log-sum-exp.
static zero_status gpt2_attention_forward(zr_block *block, zr_block_slice *slice,
                                          const void **inner)
{
    const zr_linear *qkv = &slice->linear[ZR_GPT2_QKV];
    ZERO_TRY(zr_linear_forward(block->context, qkv, block->input, slice->gpt2.qkv, block->scratch));
    zr_block_attend(block, slice, slice->gpt2.qkv);
    *inner = slice->attended;
    return ZERO_OK;
}

static zero_status gpt2_attention_backward(zr_block *block, zr_block_slice *slice, const void *d)
{
    zr_queue *queue = block->context->queue;
    void *d_attended = slice->gpt2.d_attended, *d_qkv = slice->gpt2.d_qkv;
    ZERO_TRY(zr_linear_backward(block->context, &slice->linear[ZR_GPT2_PROJ], block->parts,
                                slice->attended, d, d_attended, block->scratch));
    if (block->parts & ZR_BACKWARD_INPUT)
        zr_run(queue, zr_op_attention_backward(&slice->attention, slice->gpt2.qkv, slice->attended,
                                               slice->lse, d_attended, d_qkv, NULL,
                                               block->context->values, block->scratch));
    zr_block_add_input(slice, ZR_GPT2_QKV, d_qkv, ZR_BACKWARD_WHOLE);
    return ZERO_OK;
}

// The second half: up, gelu, down. The output of gelu is never stored: the products that read it
// apply gelu to fc themselves, in forward and in backward. The norm's output is recomputed.
// Together this saves F + C values per row.
static zero_status gpt2_mlp_forward(zr_block *block, zr_block_slice *slice, const void **inner)
{
    *inner = slice->gpt2.fc;
    return zr_linear_forward(block->context, &slice->linear[ZR_GPT2_FC], block->input,
                             slice->gpt2.fc, block->scratch);
}

static zero_status gpt2_mlp_backward(zr_block *block, zr_block_slice *slice, const void *d)
{
    void *d_fc = slice->gpt2.d_fc;
    ZERO_TRY(zr_linear_backward(block->context, &slice->linear[ZR_GPT2_MLP_PROJ], block->parts,
                                slice->gpt2.fc, d, d_fc, block->scratch));
    zr_block_add_input(slice, ZR_GPT2_FC, d_fc, ZR_BACKWARD_WHOLE);
    return ZERO_OK;
}

const zr_block_layers zr_gpt2_block_layers = {
    .set = set_gpt2_block,
    .save = carve_gpt2_saved,
    .work = carve_gpt2_workspace,
    .hold = hold_gpt2_gradients,
    .alias = alias_saved_to_workspace,
    .halves =
        {
            {
                .out = ZR_GPT2_PROJ,
                .site = ZR_SITE_ATTENTION_RESIDUAL,
                .forward = gpt2_attention_forward,
                .backward = gpt2_attention_backward,
            },
            {
                .out = ZR_GPT2_MLP_PROJ,
                .site = ZR_SITE_MLP_RESIDUAL,
                .forward = gpt2_mlp_forward,
                .backward = gpt2_mlp_backward,
            },
        },
};
