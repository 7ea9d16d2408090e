// The second half of GPT-2's block: up, gelu, down, dropout.
// The output of gelu is never stored: the products that read it apply gelu to fc themselves, in
// forward and in backward. The norm's output is recomputed. Together this saves F + C values per
// row.
#include "layers/block.h"

zero_status zr_gpt2_mlp_forward(zr_block *block, const void **branch)
{
    zero_context *context = block->context;
    const zr_linear *fc = &block->linear[ZR_GPT2_FC], *proj = &block->linear[ZR_GPT2_MLP_PROJ];
    ZERO_TRY(zr_linear_forward(context, fc, block->normed, block->gpt2.fc, block->scratch));
    ZERO_TRY(zr_linear_forward(context, proj, block->gpt2.fc, block->narrow, block->scratch));
    zr_gpt2_drop(block, ZR_SITE_MLP_RESIDUAL, block->narrow);
    *branch = block->narrow;
    return ZERO_OK;
}

zero_status zr_gpt2_mlp_backward(zr_block *block, const void *d, const void **dy)
{
    zero_context *context = block->context;
    const zr_linear *fc = &block->linear[ZR_GPT2_FC], *proj = &block->linear[ZR_GPT2_MLP_PROJ];
    void *d_fc = block->gpt2.wide;
    const void *d_projected = zr_gpt2_undrop(block, ZR_SITE_MLP_RESIDUAL, d, block->narrow);
    ZERO_TRY(zr_linear_backward(context, proj, block->gpt2.fc, d_projected, d_fc, block->scratch));
    zr_norm_forward(context, &block->norm2, block->middle, block->normed, NULL, NULL);
    *dy = block->narrow;
    return zr_linear_backward(context, fc, block->normed, d_fc, block->narrow, block->scratch);
}
