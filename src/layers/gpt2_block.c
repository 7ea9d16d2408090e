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
const zero_block_table zr_gpt2_block = {.halves = {{
    .count = ATTENTION_BRANCH + 1, .rows = {
    [NORMED]     = {ZERO_ROW_NORM, .weight = ZR_LN1_W, .bias = ZR_LN1_B},
    [QKV]        = {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_PACKED, ZR_ATTN_W, ZR_ATTN_B, ZERO_KEPT},
    [ATTENDED]   = {ZERO_ROW_ATTENTION, {QKV}, .kept = ZERO_KEPT},
    [ATTENTION_BRANCH] =
        {ZERO_ROW_LINEAR, {ATTENDED}, ZERO_WIDE_STREAM, ZR_ATTN_PROJ_W, ZR_ATTN_PROJ_B},
}}, {
    .count = MLP_BRANCH + 1, .rows = {
    [NORMED]     = {ZERO_ROW_NORM, .weight = ZR_LN2_W, .bias = ZR_LN2_B},
    [FC]         = {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_INNER, ZR_FC_W, ZR_FC_B, ZERO_KEPT},
    [MLP_BRANCH] = {ZERO_ROW_GELU_LINEAR, {FC}, ZERO_WIDE_STREAM, ZR_MLP_PROJ_W, ZR_MLP_PROJ_B},
}}}};
// clang-format on
