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
const zero_block_table zr_llama_block = {.halves = {{
    .count = ATTENTION_BRANCH + 1, .rows = {
    [NORMED]   = {ZERO_ROW_NORM, .weight = ZR_LLAMA_NORM1},
    [Q]        =
        {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_QUERIES, ZR_LLAMA_Q_W, ZR_LLAMA_Q_B, ZERO_KEPT},
    [K]        = {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_KEYS, ZR_LLAMA_K_W, ZR_LLAMA_K_B, ZERO_KEPT},
    [V]        = {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_KEYS, ZR_LLAMA_V_W, ZR_LLAMA_V_B, ZERO_KEPT},
    [NORMED_Q] = {ZERO_ROW_HEAD_NORM, {Q}, ZERO_WIDE_QUERIES, ZR_LLAMA_Q_NORM},
    [NORMED_K] = {ZERO_ROW_HEAD_NORM, {K}, ZERO_WIDE_KEYS, ZR_LLAMA_K_NORM},
    [PACKED]   = {ZERO_ROW_ROTATE, {NORMED_Q, NORMED_K, V}},
    [ATTENDED] = {ZERO_ROW_ATTENTION, {PACKED}, .kept = ZERO_KEPT},
    [ATTENTION_BRANCH] =
        {ZERO_ROW_LINEAR, {ATTENDED}, ZERO_WIDE_STREAM, ZR_LLAMA_O_W, ZR_LLAMA_O_B},
}}, {
    .count = MLP_BRANCH + 1, .rows = {
    [NORMED]   = {ZERO_ROW_NORM, .weight = ZR_LLAMA_NORM2},
    [GATE]     =
        {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_INNER, ZR_LLAMA_GATE_W, ZR_LLAMA_GATE_B, ZERO_KEPT},
    [UP]       =
        {ZERO_ROW_LINEAR, {NORMED}, ZERO_WIDE_INNER, ZR_LLAMA_UP_W, ZR_LLAMA_UP_B, ZERO_KEPT},
    [PRODUCT]  = {ZERO_ROW_SILU_GATE, {GATE, UP}},
    [MLP_BRANCH] =
        {ZERO_ROW_LINEAR, {PRODUCT}, ZERO_WIDE_STREAM, ZR_LLAMA_DOWN_W, ZR_LLAMA_DOWN_B},
}}}};
// clang-format on
