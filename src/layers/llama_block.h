// What the block of Llama and its variants has besides what every block has (block.h).
//
//   attention:  q, k, v ─ [norms of heads] ─ rotate ─ attention ─ o
//   mlp:        silu(gate) * up ─ down
#ifndef ZR_LAYERS_LLAMA_BLOCK_H
#define ZR_LAYERS_LLAMA_BLOCK_H

#include "base/errors.h"
#include "layers/lm_units.h"

enum zr_llama_linear { // numbers them
    ZR_LLAMA_Q,
    ZR_LLAMA_K,
    ZR_LLAMA_V,
    ZR_LLAMA_O,
    ZR_LLAMA_GATE,
    ZR_LLAMA_UP,
    ZR_LLAMA_DOWN,
    ZR_LLAMA_LINEARS
};

// Rows R, width C, F = intermediate_size, D = head_dim, Q = heads x D, K = kv_heads x D; type T.
// Kept a row, all together: 2Q + 2K + 2F of T, C of the stream's type and heads + 2 floats.
typedef struct zr_llama_parts {
    const zero_llama_config *config;
    zr_norm norm_q, norm_k; // over heads: from T, and into fp32, since what follows rounds it again
    const zr_tensor_handle *gain_q, *gain_k; // theirs
    // Saved:
    void *q, *k, *v; // (R, Q), (R, K), (R, K) T, as they left their products
    void *gate, *up; // (R, F) T
    // Workspace:
    float *sum;               // (R, C) gradient of what several products read
    float *frequency, *table; // (D / 2), (seq, D); of a step of generation (R, D)
    // Workspace of the first half. The halves never need theirs at once: that of the second lies
    // over it.
    void *packed, *d_packed;  // (R, Q + 2K) T
    void *d_q, *d_k, *d_v;    // (R, Q), (R, K), (R, K) T; before those d_q is d_attended
    float *heads_q, *heads_k; // (R, Q), (R, K), where heads are normed: between norm and rotation
    float *rstd_q, *rstd_k;   // (R, heads), (R, kv_heads), likewise
    float *gain;              // (D) of such a norm
    // Workspace of the second half:
    void *product, *d_product; // (R, F) T
} zr_llama_parts;

// llama_attention.c and llama_mlp.c: the halves, as zr_block_layers has them.
zero_status zr_llama_attention_forward(zr_block *block, const void **branch);
zero_status zr_llama_attention_backward(zr_block *block, const void *x, const void *d,
                                        const void **dy);
zero_status zr_llama_mlp_forward(zr_block *block, const void **branch);
zero_status zr_llama_mlp_backward(zr_block *block, const void *d, const void **dy);

// llama_block.c. What is (R, C) fp32 as type T: itself, or converted into block->narrow.
const void *zr_llama_narrow(const zr_block *block, const float *wide);

#endif
