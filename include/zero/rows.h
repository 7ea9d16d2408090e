// Language models of your own whose blocks are tables. A block is two halves, attention and MLP;
// each reads a norm of the residual stream and adds a branch to it:
//
//   x ─┬─ norm ─ attention ─ + ─┬─ norm ─ mlp ─ + ─> out
//      └────────────────────────┘ └─────────────┘
//
// A half is a list of rows. A row is a value: the operation that computes it, the rows whose values
// it reads, its tensors, and whether it is kept for backward. Forward runs the rows, backward runs
// them reversed. The plan of memory, every ZeRO stage, tiles, tensor ranks, pipelines and split
// backwards follow from the rows. The library's own architectures are such tables
// (src/model/gpt2_model.c); examples/rows.c is a program with one.
#ifndef ZERO_ROWS_H
#define ZERO_ROWS_H

#include <zero/llama.h>
#include <zero/model.h>

#ifdef __cplusplus
extern "C" {
#endif

// Sizes of tensors, and of what rows compute.
typedef enum zero_wide {
    ZERO_WIDE_NONE,
    ZERO_WIDE_STREAM,  // C, the width of the stream
    ZERO_WIDE_QUERIES, // Q = heads x head_dim
    ZERO_WIDE_KEYS,    // K = heads of keys and values x head_dim
    ZERO_WIDE_PACKED,  // Q + 2K
    ZERO_WIDE_INNER,   // F, of the MLP
    ZERO_WIDE_HEAD     // head_dim
} zero_wide;

typedef enum zero_tensor_flag {
    ZERO_GAIN = 1,  // begins as 1; other vectors begin as 0
    ZERO_DEPTH = 2, // its deviation is divided by sqrt(2 layers), because branches add up
    // Its outputs are the queries, then the keys, then the values, and tensor ranks cut each for
    // itself. Otherwise they are cut together: the heads lie one after another.
    ZERO_THREE_PARTS = 4
} zero_tensor_flag;

typedef struct zero_tensor_row { // a tensor of a block
    const char *name;            // in files, after the layer's prefix
    zero_wide out, in;           // a weight of a linear; a vector has no `in`
    unsigned flags;              // zero_tensor_flag
    unsigned only_with;          // 0; of the library's architectures: what may be absent
} zero_tensor_row;

typedef enum zero_row_kind {
    ZERO_ROW_NORM,        // row 0, of the stream. weight: the gain
    ZERO_ROW_LINEAR,      // in W + b
    ZERO_ROW_GELU_LINEAR, // gelu(in) W + b, by the hyperbolic tangent; weights that lie (in, out)
    ZERO_ROW_HEAD_NORM,   // RMSNorm of each head. weight: the gain, ZERO_WIDE_HEAD
    // Queries and keys rotated, and values, packed as attention reads them; from three rows, or
    // from one of ZERO_WIDE_PACKED in which each head's query, key and value follow each other.
    ZERO_ROW_ROTATE,
    ZERO_ROW_ROTATE_HEADS,
    ZERO_ROW_ATTENTION, // causal self-attention of what is packed: queries, keys, values
    ZERO_ROW_GELU_ERF,  // gelu(in), by the error function
    ZERO_ROW_SILU_GATE, // silu(in[0]) * in[1]
    ZERO_ROW_KINDS
} zero_row_kind;

enum { ZERO_MOST_ROWS = 12, ZERO_ROW_INPUTS = 3, ZERO_KEPT = 1 };

typedef struct zero_block_row {
    zero_row_kind kind;
    int in[ZERO_ROW_INPUTS]; // earlier rows of this half whose values it reads
    zero_wide width;         // of a LINEAR or HEAD_NORM
    int weight, bias;        // the numbers of its tensors; of a linear without bias: ZERO_NO_TENSOR
    // ZERO_KEPT: backward reads what forward wrote; 0: backward computes it again. Linears are kept
    // but the branch, and so is attention; GELU and gates may be; norms and rotation never are.
    int kept;
} zero_block_row;

#define ZERO_NO_TENSOR 19 // more than any table of tensors has

enum { ZERO_ATTENTION_HALF, ZERO_MLP_HALF, ZERO_BLOCK_HALVES };

typedef struct zero_half_table {
    int count; // the last row is the branch: a linear of ZERO_WIDE_STREAM
    zero_block_row rows[ZERO_MOST_ROWS];
} zero_half_table;

typedef struct zero_block_table {
    int parallel; // 1: both halves read the block's input
    zero_half_table halves[ZERO_BLOCK_HALVES];
} zero_block_table;

typedef struct zero_rows_config {
    size_t struct_size;
    const char *name; // of the model; it must outlive the model
    int64_t vocab_size, n_positions, width, inner, n_layer;
    int64_t n_head, n_kv_head; // of queries; of keys and values (0: as many)
    int64_t head_dim;          // 0: width / n_head
    float norm_epsilon, initializer_range;
    float embedding_dropout, attention_dropout, residual_dropout;
    int rms_norm;          // 1: RMSNorm, without biases; 0: LayerNorm
    int learned_positions; // 1: a table of positions is added to the embedding
    int outputs_first;     // 1: weights lie as (out, in), as torch's Linear; 0: as (in, out)
    int tied;              // 1: the head uses the table of tokens
    double rotated;        // the fraction of a head that is rotated, if rows rotate
    zero_rope rope;
    // (tensor_count) The tensors of a block, each of which one row uses; and its rows. They must
    // outlive the model.
    const zero_tensor_row *tensors;
    int tensor_count;
    const zero_block_table *block;
} zero_rows_config;

// Creates the model. In files its tensors are "embedding.weight", "positions.weight",
// "blocks.N.NAME", "norm.weight", "norm.bias" and "head.weight". Returns ZERO_ERR_USAGE, with the
// half and the row, for sizes and tables that contradict each other. Free it with
// zero_rows_destroy.
ZERO_API zero_status zero_rows_create(const zero_rows_config *config, zero_model **out,
                                      zero_error *error);
ZERO_API void zero_rows_destroy(zero_model *model);

#ifdef __cplusplus
}
#endif
#endif
