// GPT-2's block.
//
//   attention:  c_attn ─ attention ─ c_proj ─ dropout
//   mlp:        c_fc ─ gelu ─ c_proj ─ dropout
//
// The probabilities of attention are never stored: backward recomputes them from qkv and each row's
// log-sum-exp. Neither is the output of gelu: the products that read it apply gelu to fc
// themselves. A row of activations keeps 4C + F values of T.
#include "layers/block.h"
#include "model/gpt2_model.h"

enum { NORMED, QKV, ATTENDED, ATTENTION_BRANCH, FC = 1, MLP_BRANCH };

// clang-format off
const zr_block_table zr_gpt2_block = {.halves = {{
    .site = ZR_SITE_ATTENTION_RESIDUAL, .count = ATTENTION_BRANCH + 1, .rows = {
    [NORMED]     = {ZR_ROW_NORM, .weight = ZR_LN1_W, .bias = ZR_LN1_B},
    [QKV]        = {ZR_ROW_LINEAR, {NORMED}, ZR_WIDE_PACKED, ZR_ATTN_W, ZR_ATTN_B, ZR_KEPT},
    [ATTENDED]   = {ZR_ROW_ATTENTION, {QKV}, .flags = ZR_KEPT},
    [ATTENTION_BRANCH] =
        {ZR_ROW_LINEAR, {ATTENDED}, ZR_WIDE_STREAM, ZR_ATTN_PROJ_W, ZR_ATTN_PROJ_B},
}}, {
    .site = ZR_SITE_MLP_RESIDUAL, .count = MLP_BRANCH + 1, .rows = {
    [NORMED]     = {ZR_ROW_NORM, .weight = ZR_LN2_W, .bias = ZR_LN2_B},
    [FC]         = {ZR_ROW_LINEAR, {NORMED}, ZR_WIDE_INNER, ZR_FC_W, ZR_FC_B, ZR_KEPT},
    [MLP_BRANCH] = {ZR_ROW_GELU_LINEAR, {FC}, ZR_WIDE_STREAM, ZR_MLP_PROJ_W, ZR_MLP_PROJ_B},
}}}};
// clang-format on
