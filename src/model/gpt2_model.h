// The numbers of GPT-2's tensors, in the order of its design.
#ifndef ZR_MODEL_GPT2_MODEL_H
#define ZR_MODEL_GPT2_MODEL_H

#include "model/lm_table.h"

enum zr_gpt2_block_tensor {
    ZR_LN1_W,
    ZR_LN1_B,
    ZR_ATTN_W,
    ZR_ATTN_B,
    ZR_ATTN_PROJ_W,
    ZR_ATTN_PROJ_B,
    ZR_LN2_W,
    ZR_LN2_B,
    ZR_FC_W,
    ZR_FC_B,
    ZR_MLP_PROJ_W,
    ZR_MLP_PROJ_B,
    ZR_BLOCK_TENSORS
};

#endif
