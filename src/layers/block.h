// A transformer block as data: a table of two halves (zero/rows.h), whose rows forward runs and
// backward runs reversed (block_rows.c). Everything else follows from the rows: what is kept,
// recomputed, held by a split backward, and which values may share memory (block_memory.c); what
// tensor ranks sum and gather, and what a step of generation does (block.c). Only the units of
// layers/ include this.
//
// A block that is cut (model/lm_slices.h) computes the rows between norm and branch slice by slice.
// The branch is cut by its inputs: its slices' products are summed in fp32 (g of Megatron-LM), then
// the bias is added and the branch is rounded once. The gradient of the norm's output is summed in
// the same way (f).
#ifndef ZR_LAYERS_BLOCK_H
#define ZR_LAYERS_BLOCK_H

#include "layers/layers.h"
#include "layers/linear.h"
#include "layers/lm_units.h"
#include "layers/slices.h"
#include "model/rows_model.h"

// One call: R = batch x seq rows, C the width. T is the type of parameters and activations
// (zero_shape.dtype); S is the type of the residual stream, of its gradient, and so of boundaries
// (zr_stream_dtype). (own) means this rank's rows.
typedef struct zr_block_value { // of a row, in a slice
    void *at;                   // (R, width) T; of a HEAD_NORM see zr_heads_norm_floats
    void *d;                    // its gradient; of a HEAD_NORM fp32
} zr_block_value;

typedef struct zr_block_slice {
    int lender; // number of the slice whose keys and values these are
    bool first; // the first of all slices that share them, on any rank
    zr_block_value value[ZERO_BLOCK_HALVES][ZERO_MOST_ROWS];
    float *lse;      // (batch, heads, seq) of ATTENTION, kept; NULL in an evaluation
    float *d_shared; // (R, 2K) gradients of shared keys and values; NULL if not shared
    void *d_keys;    // (R, 2K) T, their sums
    float *d_gain[ZERO_MOST_ROWS]; // (D) of a HEAD_NORM in this slice; NULL if the block is not cut
    // Of a linear's adapter in this slice: its part of the gradient of A or B, whichever is a sum
    // over slices; NULL if the block is not cut.
    float *d_low_rank[ZERO_BLOCK_HALVES][ZERO_MOST_ROWS];
    float *d_magnitude[ZERO_BLOCK_HALVES]; // (C) the same of the branch's magnitudes
} zr_block_slice;

typedef struct zr_block {
    const zero_block_table *table;
    const zr_lm_unit *hyper;
    zero_context *context;
    unsigned parts;           // of backward (ZR_BACKWARD_...) that the call computes
    zero_dtype dtype, stream; // T and S
    int64_t rows, width;
    zr_division division;   // of the rows of the stream
    zr_attention attention; // of the first slice
    zr_norm_layer norm[ZERO_BLOCK_HALVES];
    float dropout;          // of the branches that join the residual stream; 0 in evaluation
    float low_rank_dropout; // of what adapters read; 0 in evaluation
    int kv_replicas;        // slices that share a head of keys and values
    int slice_count;
    zr_block_slice slices[ZR_MOST_LOCAL_SLICES];
    // Set in a step of generation, otherwise NULL:
    const zr_decode_step *step; // its runs give the positions of the rows
    const zr_decode_cache *cache;
    zr_documents documents; // in the workspace
    // Kept from forward to backward; evaluation keeps nothing, and has `middle` in `out`.
    zr_norm_statistics statistics[ZERO_BLOCK_HALVES]; // (own); means only if the norms have them
    void *middle; // (own, C) S, the residual stream between the halves
    // (C) of the branches' norms, if the block is cut and they have magnitudes; evaluation has them
    // in the workspace.
    float *squares[ZERO_BLOCK_HALVES];
    // In the workspace:
    const void *input; // (R, C) T, the norm's output as the first linears of a half read it
    float
        *sum[ZERO_BLOCK_HALVES]; // (R, C) gradient of what several products read, if it is not cut
    // Of rotation, with D elements of a head: (seq, D); in a step of generation, and of documents,
    // (R, D).
    float *angles;
    void *scratch;   // used by operations in turn
    void *place;     // of exchanges, if one rank computes all slices
    float *spare;    // (R, C) for each level of the sum over this rank's slices
    float *partials; // sums of gains over slices
    zr_gains gains;  // a split backward holds the sums
    // In backward of attention: the sum, over the ranks that share them, of the gradients of shared
    // keys and values; 0 elements if no ranks share any.
    zero_exchange shared;
} zr_block;

bool zr_block_is_cut(const zr_block *block);
static inline const zero_block_row *zr_block_rows(const zr_block *block, int half)
{
    return block->table->halves[half].rows;
}
static inline int zr_block_last_row(const zr_block *block, int half)
{
    return block->table->halves[half].count - 1;
}

bool zr_row_is_linear(const zero_block_row *row);
bool zr_row_is_input(const zero_block_row *row); // reads the norm's output
bool zr_row_rotates(const zero_block_row *row);
// Returns whether a row's value may take the place of the first value that it reads.
bool zr_row_is_elementwise(const zero_block_row *row);
int zr_block_inputs(const zr_block *block, int half); // the number of input rows of a half

// block_layout.c
typedef enum zr_block_use { ZR_BLOCK_TRAINS, ZR_BLOCK_EVALUATES, ZR_BLOCK_GOES_BACK } zr_block_use;
typedef struct zr_block_layout { // of the buffers of a call
    zr_block_use use;
    const zr_backend *backend;                       // while counting: NULL: one of the host
    bool whole;                                      // every rank has all rows of the stream
    unsigned parts;                                  // as in zr_block
    void *saved, *workspace, *held;                  // NULL while only counting
    size_t saved_bytes, workspace_bytes, held_bytes; // found, if counting: enough for every use
} zr_block_layout;
// Sets sizes and buffers of a call.
void zr_block_lay_out(const zero_unit *unit, const zero_shape *shape, zr_block_layout *layout,
                      zr_block *block);
size_t zr_block_place_bytes(const zr_block *block);
// Returns the elements of a row's value, in a row of activations.
int64_t zr_row_elements(const zr_block *block, const zero_block_row *row);
bool zr_row_exists(const zr_block *block, const zero_block_row *row);
// Returns the row whose value stands for that of `row`, which may be absent.
int zr_value_row(const zr_block *block, int half, int row);
// Returns a linear of a slice. That of a cut branch has no bias, which is added to the sum of the
// slices instead; zr_block_branch_linear has it.
zr_linear zr_block_linear(const zr_block *block, int half, int row, int slice);
zr_linear zr_block_branch_linear(const zr_block *block, int half);

// block_memory.c
// Places the values of rows, for one use; returns the bytes. base: NULL to count only.
int64_t zr_block_place_values(zr_block *block, zr_block_use use, char *base);

// block_rows.c
// The norm of a HEAD_NORM, and the floats of its value: (R, width), then rstd (R, heads), then the
// gain (D) in fp32, each aligned.
zr_norm zr_heads_norm(const zr_block *block, const zero_block_row *row);
int64_t zr_heads_norm_floats(const zr_block *block, const zero_block_row *row);
// Compute a row's value in all slices of this rank, but that of a NORM or a branch.
zero_status zr_row_forward(zr_block *block, int half, int row);
// Computes the gradients of the rows that a row reads, from that of its value, and those of its
// tensors; or one part of this (block->parts). An input row is only computed by
// zr_block_input_backward.
zero_status zr_row_backward(zr_block *block, int half, int row);
// Computes the values again that backward needs and forward did not keep.
zero_status zr_block_recompute(zr_block *block, int half);
// Sums the gradient of the norm's output over the input rows of a slice, last first, into dx (R, C)
// fp32; and computes those of their tensors.
zero_status zr_block_input_backward(zr_block *block, int half, int slice, float *dx);

#endif
