// What GPT-2's block adds to what every block has (block.h).
//
//   attention:  c_attn ─ attention ─ c_proj ─ dropout
//   mlp:        c_fc ─ gelu ─ c_proj ─ dropout
#ifndef ZR_LAYERS_GPT2_BLOCK_H
#define ZR_LAYERS_GPT2_BLOCK_H

#include "base/errors.h"
#include "layers/lm_units.h"

enum zr_gpt2_linear { // the numbers of its linears
    ZR_GPT2_QKV,
    ZR_GPT2_PROJ,
    ZR_GPT2_FC,
    ZR_GPT2_MLP_PROJ,
    ZR_GPT2_LINEARS
};

// Of a slice: rows R, width C = heads x head_dim, F = the inner width; type T. In all, a row keeps
// 4C + F values of T, and H + 4 floats, where H is the number of heads; and C of the stream's type.
typedef struct zr_gpt2_parts {
    // Saved:
    void *qkv; // (R, 3*C) T
    void *fc;  // (R, F) T, before gelu
    // In the workspace:
    void *wide;         // (R, max(F, 3*C)) T
    void *d_attended;   // (R, C) T
    void *d_qkv, *d_fc; // gradients of qkv and fc: both are `wide`, or are held
} zr_gpt2_parts;

// gpt2_attention.c and gpt2_mlp.c: the halves, as in zr_half_layers.
zero_status zr_gpt2_attention_forward(zr_block *block, zr_block_slice *slice, const void **inner);
zero_status zr_gpt2_attention_backward(zr_block *block, zr_block_slice *slice, const void *d);
zero_status zr_gpt2_mlp_forward(zr_block *block, zr_block_slice *slice, const void **inner);
zero_status zr_gpt2_mlp_backward(zr_block *block, zr_block_slice *slice, const void *d);

#endif
