// What the block of Llama and its variants adds to what every block has (block.h).
//
//   attention:  q, k, v ─ [norms of heads] ─ rotate ─ attention ─ o
//   mlp:        silu(gate) * up ─ down
#ifndef ZR_LAYERS_LLAMA_BLOCK_H
#define ZR_LAYERS_LLAMA_BLOCK_H

#include "base/errors.h"
#include "layers/lm_units.h"

enum zr_llama_linear { // the numbers of its linears
    ZR_LLAMA_Q,
    ZR_LLAMA_K,
    ZR_LLAMA_V,
    ZR_LLAMA_O,
    ZR_LLAMA_GATE,
    ZR_LLAMA_UP,
    ZR_LLAMA_DOWN,
    ZR_LLAMA_LINEARS
};

// Of a slice: rows R, width C, F the inner width, D = head_dim, Q = heads x D, K = kv_heads x D;
// type T. In all, a row keeps 2Q + 2K + 2F values of T, and heads + 2 floats; and C of the stream's
// type. If slices share a head of keys and values, the first of them on each rank computes these
// for the others. It also computes their gradients, once all slices have added theirs.
typedef struct zr_llama_parts {
    const zero_llama_config *config;
    zr_norm norm_q, norm_k; // over heads: from T into fp32, because the rotation rounds again
    const zr_tensor_handle *gain_q, *gain_k; // their gains
    int lender;                              // number of the slice whose keys and values these are
    bool first;                              // the first of all slices that share them, on any rank
    // Saved:
    void *q, *k, *v; // (R, Q), (R, K), (R, K) T, as their products wrote them
    void *gate, *up; // (R, F) T
    // In the workspace, for all slices:
    float *frequency, *table; // (D / 2), (seq, D); in a step of generation (R, D)
    // In the workspace of the first half. The two halves share their memory, because they never
    // need it at the same time.
    void *packed, *d_packed; // (R, Q + 2K) T
    // (R, Q), (R, K), (R, K) T, or held; d_q first has the gradient of `attended`.
    void *d_q, *d_k, *d_v;
    float *heads_q, *heads_k;   // (R, Q), (R, K), if heads are normed: between norm and rotation
    float *rstd_q, *rstd_k;     // (R, heads), (R, kv_heads), if heads are normed
    float *gain;                // (D) of such a norm
    float *d_gain_q, *d_gain_k; // (D) its gradient in this slice; NULL if the block is not cut
    float *d_shared; // (R, 2K) gradients of shared keys and values; NULL if they are not shared
    void *d_keys;    // (R, 2K) T, their sums
    // In the workspace of the second half:
    void *product, *d_product; // (R, F) T
    void *d_gate, *d_up;       // gradients of gate and up: in the memory of gate and up, or held
} zr_llama_parts;

// llama_attention.c and llama_mlp.c: the halves, as in zr_half_layers.
zero_status zr_llama_attention_forward_slice(zr_block *block, zr_block_slice *slice,
                                             const void **inner);
zero_status zr_llama_attention_backward_slice(zr_block *block, zr_block_slice *slice,
                                              const void *d);
zero_status zr_llama_attention_finish(zr_block *block);
zero_status zr_llama_mlp_forward(zr_block *block, zr_block_slice *slice, const void **inner);
zero_status zr_llama_mlp_backward(zr_block *block, zr_block_slice *slice, const void *d);

#endif
