// The second half of GPT-2's block: up, gelu, down.
// The output of gelu is never stored: the products that read it apply gelu to fc themselves, in
// forward and in backward. The norm's output is recomputed. Together this saves F + C values per
// row.
#include "layers/block.h"

zero_status zr_gpt2_mlp_forward(zr_block *block, zr_block_slice *slice, const void **inner)
{
    *inner = slice->gpt2.fc;
    return zr_linear_forward(block->context, &slice->linear[ZR_GPT2_FC], block->input,
                             slice->gpt2.fc, block->scratch);
}

zero_status zr_gpt2_mlp_backward(zr_block *block, zr_block_slice *slice, const void *d)
{
    void *d_fc = slice->gpt2.d_fc;
    ZERO_TRY(zr_linear_backward(block->context, &slice->linear[ZR_GPT2_MLP_PROJ], block->parts,
                                slice->gpt2.fc, d, d_fc, block->scratch));
    zr_block_add_input(slice, &(zr_block_input){.linear = &slice->linear[ZR_GPT2_FC],
                                                .gradient = d_fc,
                                                .parts = ZR_BACKWARD_WHOLE});
    return ZERO_OK;
}
