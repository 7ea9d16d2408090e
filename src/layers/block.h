// A transformer block as every architecture has it: two halves, each of which reads a norm of the
// residual stream and adds a branch to the stream. Only the units of layers/ include this.
//
//   x ─┬─ norm1 ─ attention ─ + ─┬─ norm2 ─ mlp ─ + ─> out
//      └──────────────────────┘ └────────────────┘
//                          middle
//
// block.c lays a block out and runs it forward, backward and in steps of generation. What the
// halves compute depends on the architecture: a table of functions, and its own part of the struct.
#ifndef ZR_LAYERS_BLOCK_H
#define ZR_LAYERS_BLOCK_H

#include "layers/gpt2_block.h"
#include "layers/layers.h"
#include "layers/linear.h"
#include "layers/llama_block.h"
#include "layers/lm_units.h"

enum { ZR_BLOCK_LINEARS = 7 }; // the most that an architecture has

// R = batch x seq rows, C the width, Q = heads x head_dim. T is the type of parameters and
// activations (zero_shape.dtype); S is the type of the residual stream, of its gradient, and so of
// boundaries (zr_stream_dtype).
struct zr_block { // one call: sizes of every layer, and buffers
    const zr_block_layers *layers;
    zero_context *context;
    zero_dtype dtype, stream; // T and S
    int64_t rows, width, inner;
    zr_norm_layer norm1, norm2;
    zr_attention attention;
    int linear_count;
    zr_linear linear[ZR_BLOCK_LINEARS]; // in the order of forward, numbered by the architecture
    size_t scratch_bytes;
    // Set in a step of generation, otherwise NULL:
    const zr_decode_step *step; // its runs tell the positions of the rows
    const zr_attention_cache *cache;
    void *decode_scratch;
    // Kept from forward to backward. Evaluation and generation keep nothing: what they need briefly
    // is in the workspace and in `out`, and the rest is NULL.
    float *mean1, *rstd1, *mean2, *rstd2; // (R); means only if the norms have them
    void *attended;                       // (R, Q) T, before the product of the output
    float *lse;                           // (batch, heads, seq)
    void *middle;                         // (R, C) S, the residual stream between the halves
    // In the workspace:
    void *normed;  // (R, C) T
    void *narrow;  // (R, C) T
    void *scratch; // used by norms, attention and linears in turn
    union {
        zr_gpt2_parts gpt2;
        zr_llama_parts llama;
    };
};

// Sets the sizes and buffers of a call, forward or backward. ZERO_ERR_INTERNAL as in
// zr_lm_threads_check.
zero_status zr_block_set(zero_context *context, zr_block *block);
// Returns a linear of the block, given the numbers of its tensors; weights lie in the
// architecture's order.
zr_linear zr_block_linear(const zr_block *block, const zr_lm_unit *hyper, int64_t in, int64_t out,
                          int weight, int bias);
// Computes attention from packed (R, Q + 2 K), laid out as in attention_ops.h, into `attended`: by
// whole sequences, or by the runs of a step, which extend the cache.
void zr_block_attend(zr_block *block, const void *packed);

#endif
