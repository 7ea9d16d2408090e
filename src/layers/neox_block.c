// GPT-NeoX's block: both halves read the block's input.
//
//   attention:  query_key_value ─ rotate ─ attention ─ dense ─ dropout
//   mlp:        dense_h_to_4h ─ gelu ─ dense_4h_to_h ─ dropout
//
// Kept are the products that the rows read, and the output of attention.
#include "layers/block.h"
#include "model/neox_model.h"

enum { NORMED, QKV, PACKED, ATTENDED, ATTENTION_BRANCH, FC = 1, ACTIVE, MLP_BRANCH };

// clang-format off
#define LINEAR(in, width, number) ZR_ROW_LINEAR, {in}, ZR_WIDE_##width, number, number + 1
const zr_block_table zr_neox_block = {.parallel = true, .halves = {{
    .site = ZR_SITE_ATTENTION_RESIDUAL, .count = ATTENTION_BRANCH + 1, .rows = {
    [NORMED]   = {ZR_ROW_NORM, .weight = ZR_NEOX_NORM1, .bias = ZR_NEOX_NORM1 + 1},
    [QKV]      = {LINEAR(NORMED, PACKED, ZR_NEOX_QKV), ZR_KEPT},
    [PACKED]   = {ZR_ROW_ROTATE_HEADS, {QKV}},
    [ATTENDED] = {ZR_ROW_ATTENTION, {PACKED}, .flags = ZR_KEPT},
    [ATTENTION_BRANCH] = {LINEAR(ATTENDED, STREAM, ZR_NEOX_DENSE)},
}}, {
    .site = ZR_SITE_MLP_RESIDUAL, .count = MLP_BRANCH + 1, .rows = {
    [NORMED]   = {ZR_ROW_NORM, .weight = ZR_NEOX_NORM2, .bias = ZR_NEOX_NORM2 + 1},
    [FC]       = {LINEAR(NORMED, INNER, ZR_NEOX_FC), ZR_KEPT},
    [ACTIVE]   = {ZR_ROW_GELU_ERF, {FC}},
    [MLP_BRANCH] = {LINEAR(ACTIVE, STREAM, ZR_NEOX_PROJ)},
}}}};
// clang-format on
