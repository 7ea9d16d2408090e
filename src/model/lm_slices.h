// How a language model is cut for tensor parallelism (Megatron-LM, arXiv 1909.08053): into T equal
// slices of its heads and of the MLP's inner width, and of its vocabulary. P tensor ranks compute
// T / P neighbouring slices each.
//
//   rank 0           rank 1
//   [slice 0][1]     [slice 2][3]      T = 4, P = 2
//
// With fewer heads of keys and values than slices, neighbouring slices share one. The vocabulary is
// cut in steps of whole 16 tokens without padding: the last slice is smaller, or empty.
#ifndef ZR_MODEL_LM_SLICES_H
#define ZR_MODEL_LM_SLICES_H

#include "model/architecture.h"

#define ZR_MOST_LOCAL_SLICES 8    // that a rank computes
#define ZR_VOCABULARY_MULTIPLE 16 // tokens of every slice but the last are a multiple of this

typedef struct zr_lm_slices {
    int count;       // T; 1 if the model is whole
    int ranks, rank; // P, which divides T, and this rank's number
    // The gradients of gains are sums of T partial sums over rows, whoever computes them, so that
    // their bits do not depend on P or by_rows.
    bool exact;
    bool by_rows; // sequence parallelism: each rank has its part of the rows of the stream
} zr_lm_slices;

int zr_slices_here(const zr_lm_slices *slices);  // slices that this rank computes
int zr_slices_first(const zr_lm_slices *slices); // the first of them
// Returns the number of slices that share a head of keys and values; 1 if each has its own.
int zr_slices_kv_replicas(const zr_lm_slices *slices, const zr_lm_shape *shape);
// Returns the number of ranks that share such a head; 1 if each rank has its own.
int zr_slices_sharing_ranks(const zr_lm_slices *slices, const zr_lm_shape *shape);

typedef struct zr_slice_tokens {
    int64_t first, count; // count 0: the slice is empty
} zr_slice_tokens;
// Returns the tokens of slice `slice` of 0..T-1.
zr_slice_tokens zr_tokens_of_slice(const zr_lm_slices *slices, int64_t vocabulary, int slice);

// Returns the rows of a slice's part when `rows` rows are cut into T parts. The last parts may be
// smaller or empty.
int64_t zr_slice_row_step(const zr_lm_slices *slices, int64_t rows);

typedef struct zr_slices_message { // names for messages
    const char *model;             // as the user has named it
    const char *option;            // the option that requests slices: "--tensor 2"
} zr_slices_message;

// Checks that the model can be cut into these slices. ZERO_ERR_CONFIG, with the numbers and those
// that would fit, for heads or inner width not divisible, heads of keys that neither divide nor are
// divided, tiles, too many slices a rank. If `message` is NULL, errors name the architecture.
zero_status zr_slices_check(const zr_lm_config *config, const zr_lm_slices *slices,
                            const zr_slices_message *message, zero_error *error);

#endif
