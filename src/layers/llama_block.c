// The block of Llama, Mistral, Qwen2 and Qwen3.
//
//   attention:  q, k, v ─ [norms of heads] ─ rotate ─ attention ─ o
//   mlp:        silu(gate) * up ─ down
//
// Queries, keys and values are kept as their products wrote them; backward recomputes what
// attention reads: normed, rotated and packed. Neither silu(gate) * up nor the norms' outputs are
// kept. A row of activations keeps 2Q + 2K + 2F values of T.
#include "layers/block.h"
#include "model/llama_model.h"

enum { NORMED, Q, K, V, NORMED_Q, NORMED_K, PACKED, ATTENDED, ATTENTION_BRANCH };
enum { GATE = 1, UP, PRODUCT, MLP_BRANCH };

// clang-format off
#define KEPT_KEYS (ZR_KEPT | ZR_OF_KEYS)

const zr_block_table zr_llama_block = {.halves = {{
    .site = ZR_SITE_ATTENTION_RESIDUAL, .count = ATTENTION_BRANCH + 1, .rows = {
    [NORMED]   = {ZR_ROW_NORM, .weight = ZR_LLAMA_NORM1},
    [Q]        = {ZR_ROW_LINEAR, {NORMED}, ZR_WIDE_QUERIES, ZR_LLAMA_Q_W, ZR_LLAMA_Q_B, ZR_KEPT},
    [K]        = {ZR_ROW_LINEAR, {NORMED}, ZR_WIDE_KEYS, ZR_LLAMA_K_W, ZR_LLAMA_K_B, KEPT_KEYS},
    [V]        = {ZR_ROW_LINEAR, {NORMED}, ZR_WIDE_KEYS, ZR_LLAMA_V_W, ZR_LLAMA_V_B, KEPT_KEYS},
    [NORMED_Q] = {ZR_ROW_HEAD_NORM, {Q}, .weight = ZR_LLAMA_Q_NORM},
    [NORMED_K] = {ZR_ROW_HEAD_NORM, {K}, .weight = ZR_LLAMA_K_NORM, .flags = ZR_OF_KEYS},
    [PACKED]   = {ZR_ROW_ROTATE, {NORMED_Q, NORMED_K, V}},
    [ATTENDED] = {ZR_ROW_ATTENTION, {PACKED}, .flags = ZR_KEPT},
    [ATTENTION_BRANCH] =
        {ZR_ROW_LINEAR, {ATTENDED}, ZR_WIDE_STREAM, ZR_LLAMA_O_W, ZR_LLAMA_O_B},
}}, {
    .site = ZR_SITE_MLP_RESIDUAL, .count = MLP_BRANCH + 1, .rows = {
    [NORMED]   = {ZR_ROW_NORM, .weight = ZR_LLAMA_NORM2},
    [GATE]     =
        {ZR_ROW_LINEAR, {NORMED}, ZR_WIDE_INNER, ZR_LLAMA_GATE_W, ZR_LLAMA_GATE_B, ZR_KEPT},
    [UP]       = {ZR_ROW_LINEAR, {NORMED}, ZR_WIDE_INNER, ZR_LLAMA_UP_W, ZR_LLAMA_UP_B, ZR_KEPT},
    [PRODUCT]  = {ZR_ROW_SILU_GATE, {GATE, UP}},
    [MLP_BRANCH] =
        {ZR_ROW_LINEAR, {PRODUCT}, ZR_WIDE_STREAM, ZR_LLAMA_DOWN_W, ZR_LLAMA_DOWN_B},
}}}};
// clang-format on
