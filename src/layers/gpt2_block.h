// A transformer block as GPT-2 has it, and its two halves. Only the units of layers/ include this.
//
//   x ─┬─ ln_1 ─ c_attn ─ attention ─ c_proj ─ dropout ─ + ─┬─ ln_2 ─ c_fc ─ gelu ─ c_proj ─ dropout ─ + ─> out
//      └────────────────────────────────────────────────┘ └─────────────────────────────────────────┘
//                                                     middle
#ifndef ZR_LAYERS_GPT2_BLOCK_H
#define ZR_LAYERS_GPT2_BLOCK_H

#include "layers/layers.h"
#include "layers/linear.h"
#include "model/gpt2_model.h"

// R = batch x seq rows, C = n_embd, F = n_inner, H heads. Types: T, of parameters and activations (zero_shape.dtype); S, of the
// residual stream, its gradient and so of boundaries (zr_stream_dtype).
typedef struct zr_block_saved { // from forward to backward: 4C + F of T, C of S and H + 4 floats a row
    float *ln1_mean, *ln1_rstd; // (R)
    void *qkv;                  // (R, 3*C) T
    void *attended;             // (R, C) T, before c_proj
    float *lse;                 // (batch, H, seq)
    void *middle;               // (R, C) S, the residual stream between the halves
    float *ln2_mean, *ln2_rstd; // (R)
    void *fc;                   // (R, F) T, before gelu
} zr_block_saved;

typedef struct zr_block_work {
    void *wide;    // (R, max(F, 3*C)) T
    void *normed;  // (R, C) T
    void *narrow;  // (R, C) T
    void *scratch; // of norms, attention and column sums, one after another
} zr_block_work;

typedef struct zr_block { // one call: sizes of every layer, and buffers
    zero_context *context;
    zero_dtype dtype, stream; // T and S
    int64_t rows, width, inner;
    float dropout;           // of what joins the residual stream; 0 in evaluation
    uint64_t attention_key, mlp_key; // of that dropout
    zr_norm_layer ln1, ln2;
    zr_linear qkv, attention_proj, fc, mlp_proj;
    zr_attention attention;
    zr_block_saved saved; // evaluation: aliases of work and out where something has to be held for a moment
    zr_block_work work;
} zr_block;

// gpt2_block.c: sizes and buffers of a call; returns the bytes of workspace (and *saved_bytes). Buffers NULL: only counts.
size_t zr_block_lay_out(const zero_unit *unit, const zero_shape *shape, bool training, void *saved, void *workspace, zr_block *block, size_t *saved_bytes);

// gpt2_attention.c: ln_1 has been applied (work.normed); the half's result, dropout applied, goes to the first (R, C) of work.wide.
zero_status zr_attention_layer_forward(zr_block *block);
// As above for rows of several sequences, with the keys and values of the positions before them; extends the layer's cache.
zero_status zr_attention_layer_decode(zr_block *block, const zr_attention_cache *cache, const zr_decode_step *step, void *scratch);
// x, d (R, C) S: the block's input, the gradient of middle; ends with the gradient of ln_1's output in work.narrow.
zero_status zr_attention_layer_backward(zr_block *block, const void *x, const void *d);

// gpt2_mlp.c: ln_2 has been applied (work.normed); the half's result, dropout applied, goes to work.narrow.
zero_status zr_mlp_forward(zr_block *block);
// d (R, C) S: gradient of the block's output; ends with the gradient of ln_2's output in work.narrow.
zero_status zr_mlp_backward(zr_block *block, const void *d);

// Gradient, of type T, of what joined the residual stream: d itself, or d converted and under the dropout's mask in `into`.
const void *zr_block_undrop(zr_block *block, uint64_t key, const void *d, void *into);

#endif
