// A transformer block as GPT-2 has it, and its two halves. Only the units of layers/ include this.
//
//   x ─┬─ ln_1 ─ c_attn ─ attention ─ c_proj ─ dropout ─ + ─┬─ ln_2 ─ c_fc ─ gelu ─ c_proj ─ dropout ─ + ─> out
//      └────────────────────────────────────────────────┘ └─────────────────────────────────────────┘
//                                                     middle
#ifndef ZR_LAYERS_BLOCK_H
#define ZR_LAYERS_BLOCK_H

#include "layers/layers.h"
#include "layers/linear.h"

// R = batch x seq rows, C = n_embd, F = n_inner, H heads.
typedef struct zr_block_saved { // from forward to backward: 5C + F + H + 4 floats a row
    float *ln1_mean, *ln1_rstd; // (R)
    float *qkv;                 // (R, 3*C)
    float *attended;            // (R, C) before c_proj
    float *lse;                 // (batch, H, seq)
    float *middle;              // (R, C) the residual stream between the halves
    float *ln2_mean, *ln2_rstd; // (R)
    float *fc;                  // (R, F) before gelu
} zr_block_saved;

typedef struct zr_block_work {
    float *wide;   // (R, max(F, 3*C))
    float *normed; // (R, C)
    float *narrow; // (R, C)
    void *scratch; // of norms, attention and column sums, one after another
} zr_block_work;

typedef struct zr_block { // one call: sizes of every layer, and buffers
    zero_context *context;
    int64_t rows, width, inner;
    float dropout;           // of what joins the residual stream; 0 in evaluation
    uint64_t attention_key, mlp_key; // of that dropout
    zr_layer_norm ln1, ln2;
    zr_linear qkv, attention_proj, fc, mlp_proj;
    zr_attention attention;
    zr_block_saved saved; // evaluation: aliases of work and out where something has to be held for a moment
    zr_block_work work;
} zr_block;

// attention.c: ln_1 has been applied (work.normed); projected (R, C) gets the half's result, dropout applied.
zero_status zr_attention_layer_forward(zr_block *block, float *projected);
// As above for one position, with the keys and values of the positions before it; extends the cache.
zero_status zr_attention_layer_decode(zr_block *block, zr_decode_cache *cache, int layer, float *projected);
// d (R, C): gradient of middle; ends with the gradient of ln_1's output in work.narrow.
zero_status zr_attention_layer_backward(zr_block *block, const float *x, const float *d);

// mlp.c: ln_2 has been applied (work.normed); the half's result, dropout applied, goes to work.narrow.
zero_status zr_mlp_forward(zr_block *block);
// d (R, C): gradient of the block's output; ends with the gradient of ln_2's output in work.narrow.
zero_status zr_mlp_backward(zr_block *block, const float *d);

// Gradient of what joined the residual stream: d itself, or d under the dropout's mask in `into`.
const float *zr_block_undrop(zr_block *block, uint64_t key, const float *d, float *into);

#endif
