// A transformer block as every architecture has it: two halves, each of which reads a norm of the
// residual stream and adds a branch to it. Only the units of layers/ include this.
//
//   x ─┬─ norm1 ─ attention ─ + ─┬─ norm2 ─ mlp ─ + ─> out
//      └──────────────────────┘ └────────────────┘
//                          middle
//
// block.c lays a block out, runs it forward, backward and by steps of generation. What the halves
// compute is the architecture's: a table of functions, and its own part of the struct.
#ifndef ZR_LAYERS_BLOCK_H
#define ZR_LAYERS_BLOCK_H

#include "layers/gpt2_block.h"
#include "layers/layers.h"
#include "layers/linear.h"
#include "layers/llama_block.h"
#include "layers/lm_units.h"

enum { ZR_BLOCK_LINEARS = 7 }; // of an architecture, at most

// R = batch x seq rows, C the width, Q = heads x head_dim. Types: T, of parameters and activations
// (zero_shape.dtype); S, of the residual stream, its gradient and so of boundaries
// (zr_stream_dtype).
struct zr_block { // one call: sizes of every layer, and buffers
    const zr_block_layers *layers;
    zero_context *context;
    zero_dtype dtype, stream; // T and S
    int64_t rows, width, inner;
    zr_norm_layer norm1, norm2;
    zr_attention attention;
    int linear_count;
    zr_linear linear[ZR_BLOCK_LINEARS]; // in the order of forward, as the architecture numbers them
    size_t scratch_bytes;
    // Of a step of generation, else NULL:
    const zr_decode_step *step; // whose runs say the rows' positions
    const zr_attention_cache *cache;
    void *decode_scratch;
    // From forward to backward. Evaluation and generation keep nothing: what has to be held for a
    // moment lies in the workspace and in `out`, the rest is NULL.
    float *mean1, *rstd1, *mean2, *rstd2; // (R), means where norms have any
    void *attended;                       // (R, Q) T, before the product of the output
    float *lse;                           // (batch, heads, seq)
    void *middle;                         // (R, C) S, the residual stream between the halves
    // Workspace:
    void *normed;  // (R, C) T
    void *narrow;  // (R, C) T
    void *scratch; // of norms, attention and linears, one after another
    union {
        zr_gpt2_parts gpt2;
        zr_llama_parts llama;
    };
};

// Sizes and buffers of a call, forward or backward. ZERO_ERR_INTERNAL as zr_lm_threads_check.
zero_status zr_block_set(zero_context *context, zr_block *block);
// A linear of the block by the numbers of its tensors, with the architecture's order of weights.
zr_linear zr_block_linear(const zr_block *block, const zr_lm_unit *hyper, int64_t in, int64_t out,
                          int weight, int bias);
// packed (R, Q + 2 K), as attention_ops.h has it -> attended, by whole sequences or by a step's
// runs, which extend the cache.
void zr_block_attend(zr_block *block, const void *packed);

#endif
