// A transformer block as Llama and its variants have it, and its two halves. Only the units of layers/ include this.
//
//   x ─┬─ norm ─ q, k, v ─ [norms of heads] ─ rotate ─ attention ─ o ─ + ─┬─ norm ─ silu(gate) * up ─ down ─ + ─> out
//      └──────────────────────────────────────────────────────────────────┘ └──────────────────────────────────┘
//                                                                       middle
#ifndef ZR_LAYERS_LLAMA_BLOCK_H
#define ZR_LAYERS_LLAMA_BLOCK_H

#include "layers/layers.h"
#include "layers/linear.h"
#include "model/llama_model.h"

// R = batch x seq rows, C = hidden_size, F = intermediate_size, D = head_dim, Q = heads x D, K = kv_heads x D. Types: T, of parameters and
// activations (zero_shape.dtype); S, of the residual stream, its gradient and so of boundaries (zr_stream_dtype).
typedef struct zr_llama_saved { // from forward to backward: 2Q + 2K + 2F of T, C of S and heads + 2 floats a row
    float *rstd1, *rstd2;     // (R)
    void *q, *k, *v;          // (R, Q), (R, K), (R, K) T, as they left their products
    void *attended;           // (R, Q) T, before o
    float *lse;               // (batch, heads, seq)
    void *middle;             // (R, C) S, the residual stream between the halves
    void *gate, *up;          // (R, F) T
} zr_llama_saved;

// The two halves never need their buffers at once: those of the second lie over those of the first.
typedef struct zr_llama_work {
    void *normed;             // (R, C) T
    void *narrow;             // (R, C) T
    float *sum;               // (R, C) gradient of what several products read
    void *packed, *d_packed;  // (R, Q + 2K) T, first half
    void *q, *k, *v;          // (R, Q), (R, K), (R, K) T, first half: gradients; before those q is d_attended
    float *heads_q, *heads_k; // (R, Q), (R, K), first half, where heads are normed: queries and keys between norm and rotation, or their gradients
    float *rstd_q, *rstd_k;   // (R, heads), (R, kv_heads), likewise
    float *gain;              // (D) of such a norm
    float *frequency, *table; // (D / 2), (seq, D); of a step of generation (R, D)
    void *inner, *d_inner;    // (R, F) T, second half
    void *scratch;            // of norms, attention and linears, one after another
} zr_llama_work;

typedef struct zr_llama_block { // one call: sizes of every layer, and buffers
    zero_context *context;
    const zero_llama_config *config;
    zero_dtype dtype, stream; // T and S
    int64_t rows, width, inner;
    const zr_decode_step *step; // whose runs say the rows' positions; NULL: whole sequences
    zr_norm_layer norm1, norm2;
    zr_norm norm_q, norm_k;   // over heads: from T, and into fp32, since what follows rounds it again
    const zr_tensor_handle *gain_q, *gain_k; // theirs
    zr_linear q, k, v, o, gate, up, down;
    zr_attention attention;
    zr_llama_saved saved; // evaluation: aliases of work and out where something has to be held for a moment
    zr_llama_work work;
} zr_llama_block;

// llama_attention.c: the norm has been applied (work.normed); the half's result goes to work.narrow.
zero_status zr_llama_attention_forward(zr_llama_block *block);
// As above for rows of several sequences, with the keys and values of the positions before them; extends the layer's cache.
zero_status zr_llama_attention_decode(zr_llama_block *block, const zr_attention_cache *cache, void *scratch);
// x, d (R, C) S: the block's input, the gradient of middle; *dy: the gradient (R, C) T of the norm's output.
zero_status zr_llama_attention_backward(zr_llama_block *block, const void *x, const void *d, const void **dy);

// llama_mlp.c, likewise.
zero_status zr_llama_mlp_forward(zr_llama_block *block);
zero_status zr_llama_mlp_backward(zr_llama_block *block, const void *d, const void **dy);

// What is (R, C) fp32 as type T: itself, or converted into work.narrow.
const void *zr_llama_narrow(const zr_llama_block *block, const float *wide);

#endif
