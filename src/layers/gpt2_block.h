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

// Rows R, width C, F = n_inner; type T. In all, a row keeps 4C + F values of T, C of the stream's
// type, and H + 4 floats, where H is the number of heads.
typedef struct zr_gpt2_parts {
    float dropout; // of the branches that join the residual stream; 0 in evaluation
    // Saved:
    void *qkv; // (R, 3*C) T
    void *fc;  // (R, F) T, before gelu
    // In the workspace:
    void *wide; // (R, max(F, 3*C)) T
} zr_gpt2_parts;

// gpt2_attention.c and gpt2_mlp.c: the halves, as in zr_block_layers.
zero_status zr_gpt2_attention_forward(zr_block *block, const void **branch);
zero_status zr_gpt2_attention_backward(zr_block *block, const void *x, const void *d,
                                       const void **dy);
zero_status zr_gpt2_mlp_forward(zr_block *block, const void **branch);
zero_status zr_gpt2_mlp_backward(zr_block *block, const void *d, const void **dy);

// gpt2_block.c: applies dropout in place to a branch (R, C) T that will join the residual stream.
void zr_gpt2_drop(zr_block *block, enum zr_lm_site site, void *branch);
// Returns the gradient of the branch, of type T, given that of the stream: d itself, or d converted
// and with the dropout mask applied in `into`.
const void *zr_gpt2_undrop(zr_block *block, enum zr_lm_site site, const void *d, void *into);

#endif
