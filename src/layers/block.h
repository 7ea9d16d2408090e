// A transformer block as every architecture has it: two halves, each of which reads a norm of the
// residual stream and adds a branch to the stream. Only the units of layers/ include this.
//
//   x ─┬─ norm1 ─ attention ─ + ─┬─ norm2 ─ mlp ─ + ─> out
//      └──────────────────────┘ └────────────────┘
//                          middle
//
// block.c lays a block out; block_run.c runs it forward, backward and in steps of generation. What
// the halves compute depends on the architecture: a table of functions, and its own part of a
// slice.
//
// A block that is cut (model/lm_slices.h) computes the halves slice by slice between the norm's
// output and the branch. The last linear of a half is cut by its inputs: its slices' products are
// summed in fp32 (g of Megatron-LM), then the bias is added and the branch is rounded once. The
// gradient of the norm's output is summed in the same way (f).
#ifndef ZR_LAYERS_BLOCK_H
#define ZR_LAYERS_BLOCK_H

#include "layers/layers.h"
#include "layers/linear.h"
#include "layers/llama_block.h"
#include "layers/lm_units.h"
#include "layers/slices.h"

enum zr_gpt2_linear { // the numbers of the linears of GPT-2's block
    ZR_GPT2_QKV,
    ZR_GPT2_PROJ,
    ZR_GPT2_FC,
    ZR_GPT2_MLP_PROJ,
    ZR_GPT2_LINEARS
};

// What GPT-2 adds to a slice of a block.
//
//   attention:  c_attn ─ attention ─ c_proj ─ dropout
//   mlp:        c_fc ─ gelu ─ c_proj ─ dropout
//
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

enum { ZR_BLOCK_LINEARS = 7 }; // the most that an architecture has
enum { ZR_BLOCK_INPUTS = 3 };  // the most linears of a half that read the norm's output

typedef struct zr_block_input { // a linear that reads the norm's output, in backward
    const zr_linear *linear;
    const void *gradient; // of its own output
    // ZR_BACKWARD_...: the parts that this slice computes. Slices that share keys and values each
    // have their gradients, but only one of them computes the share of the input's gradient.
    unsigned parts;
} zr_block_input;

// R = batch x seq rows, C the width, Q = heads x head_dim of the slice. T is the type of parameters
// and activations (zero_shape.dtype); S is the type of the residual stream, of its gradient, and so
// of boundaries (zr_stream_dtype).
typedef struct zr_block_slice { // the only one, where the block is not cut
    int number;                 // among those that this rank has
    zr_attention attention;
    zr_linear linear[ZR_BLOCK_LINEARS]; // in the order of forward, numbered by the architecture
    // Set by a half's backward: in the order in which their gradients are summed.
    int input_count;
    zr_block_input inputs[ZR_BLOCK_INPUTS];
    // Kept from forward to backward:
    void *attended; // (R, Q) T, before the product of the output
    float *lse;     // (batch, heads, seq)
    union {
        zr_gpt2_parts gpt2;
        zr_llama_parts llama;
    };
} zr_block_slice;

enum zr_block_half { ZR_ATTENTION_HALF, ZR_MLP_HALF, ZR_BLOCK_HALVES };

typedef struct zr_attention_cache { // of keys and values, of one layer and slice
    float *k, *v;                   // (sequences, kv_heads, capacity, head_dim) each
    int64_t sequences, capacity;    // positions a sequence has room for
} zr_attention_cache;

struct zr_block { // one call: sizes of every layer, and buffers
    const zr_block_layers *layers;
    zero_context *context;
    unsigned parts;           // of backward (ZR_BACKWARD_...) that the call computes
    zero_dtype dtype, stream; // T and S
    int64_t rows, width;
    int64_t inner;        // of the MLP, of a slice
    zr_division division; // of the rows of the stream
    zr_norm_layer norm1, norm2;
    int kv_replicas; // slices that share a head of keys and values
    int slice_count;
    zr_block_slice slices[ZR_MOST_LOCAL_SLICES];
    int linear_count;
    const zr_tensor_handle *out_bias[ZR_BLOCK_HALVES]; // of the halves' last linears
    float dropout; // of the branches that join the residual stream; 0 in evaluation
    size_t scratch_bytes;
    // Set in a step of generation, otherwise NULL:
    const zr_decode_step *step;       // its runs give the positions of the rows
    const zr_attention_cache *caches; // (slice_count)
    void *decode_scratch;
    // Kept from forward to backward. Evaluation and generation keep nothing: they use the workspace
    // and `out` instead, and the rest is NULL. (own) means this rank's rows.
    zr_norm_statistics statistics1, statistics2; // (own); means only if the norms have them
    void *middle; // (own, C) S, the residual stream between the halves
    // In the workspace:
    void *normed;                  // (R, C) T
    void *narrow;                  // (R, C) T
    const void *input;             // (R, C) T, what the first linears of a half read
    void *branch[ZR_BLOCK_HALVES]; // (own, C) T, before they join the stream
    float *sum;      // (R, C) gradient of what several products read, if the block is not cut
    void *scratch;   // used by norms, attention and linears in turn
    void *place;     // of exchanges, if one rank computes all slices
    float *spare;    // (R, C) for each level of the sum over this rank's slices
    float *partials; // sums of gains over slices
    zr_gains gains;  // a split backward holds the sums
    // In backward: (R, C) T, the gradients of branches before dropout, unless they are that of the
    // stream; in the workspace, or held.
    void *d_branch[ZR_BLOCK_HALVES];
    // In backward of attention: the sum, over the ranks that share them, of the gradients of shared
    // keys and values; 0 elements if no ranks share any.
    zero_exchange shared;
};

bool zr_block_is_cut(const zr_block *block);
// Sets the sizes and buffers of a call, forward or backward. parts: of backward; forward is as
// ZR_BACKWARD_WHOLE. ZERO_ERR_INTERNAL as in zr_lm_threads_check, and if a split backward has no
// held buffer because its sizes announce none.
zero_status zr_block_set(zero_context *context, unsigned parts, zr_block *block);
// Lays out the block for as many rows as a generation step has. Returns the bytes of workspace; if
// it is NULL it only counts.
size_t zr_block_decode_lay_out(const zero_unit *unit, const zr_decode_limits *limits,
                               void *workspace, zr_block *block);
// Gives buffers to the tensors that training saves, for a call that saves nothing.
void zr_block_alias(zr_block *block, void *out);
// Computes a half's branch (block->branch) from the norm's output, which lies where the norm wrote
// it (block->normed, or this rank's share of the place).
zero_status zr_block_half_forward(zr_block *block, enum zr_block_half which);
typedef struct zr_block_norm { // the norm that a half reads, and its statistics
    const zr_norm_layer *layer;
    const void *x; // (own, C) S
    zr_norm_statistics statistics;
} zr_block_norm;
// Computes the gradients of a half's tensors, and *dy (own, C) T, that of the norm's output; or one
// part of this (block->parts). d (own, C) S: that of the stream which the branch has joined.
zero_status zr_block_half_gradients(zr_block *block, enum zr_block_half which,
                                    const zr_block_norm *norm, const void *d, const void **dy);
// Returns the last linear of a half, for its bias: a slice of one that is cut has no bias itself.
zr_linear zr_block_out(const zr_block *block, enum zr_block_half which);
// Returns a linear of a slice of the block, given the numbers of its tensors; weights lie in the
// architecture's order.
zr_linear zr_block_linear(const zr_block *block, const zr_lm_unit *hyper, int slice, int64_t in,
                          int64_t out, int weight, int bias);
// Computes attention from packed (R, Q + 2 K), laid out as in attention_ops.h, into `attended`: by
// whole sequences, or by the runs of a step, which extend the cache.
void zr_block_attend(zr_block *block, zr_block_slice *slice, const void *packed);
// Adds a linear to those whose gradients make up that of the norm's output.
// linear: its number in the slice; parts: ZR_BACKWARD_...
void zr_block_add_input(zr_block_slice *slice, int linear, const void *gradient, unsigned parts);

#endif
