// Layers: forward and backward side by side, called by units of our own architectures.
#ifndef ZR_LAYERS_LAYERS_H
#define ZR_LAYERS_LAYERS_H

#include "compute/attention_ops.h"
#include "compute/compute.h"
#include "model/lm_build.h"

// that every unit of ours computes with
#define ZR_LAYER_DTYPES (1u << ZERO_F32 | 1u << ZERO_BF16 | 1u << ZERO_F16)

// Type of the residual stream, and so of the boundaries between units, where parameters and
// activations have type `dtype`.
zero_dtype zr_stream_dtype(zero_dtype dtype);

// A model with its arithmetic; zr_lm_free. ZERO_ERR_USAGE for a configuration that contradicts
// itself.
zero_status zr_lm_create(const zr_lm_config *config, zero_model **out, zero_error *error);
// The same with some tensors frozen (lm_build.h), whole or in tiles.
zero_status zr_lm_create_frozen(const zr_lm_config *config, const zr_lm_frozen *frozen,
                                zero_model **out, zero_error *error);
// What a model was made of; NULL where it is not one of ours.
const zr_lm_config *zr_lm_config_of(const zero_model *model);
bool zr_lm_is_head(const zero_unit *unit); // of one of ours

// Generation runs unit by unit with a cache of keys and values: a step takes some positions of some
// sequences through all units.
typedef struct zr_decode_cache { // of several sequences
    int64_t sequences, capacity; // capacity: positions of each
    float *k, *v;                // (layers, sequences, heads of keys, capacity, head_dim)
} zr_decode_cache;

typedef struct zr_decode_step {
    const zr_attention_run *runs; // (run_count) no two of one sequence
    int run_count;
    int64_t rows;          // of all runs, R
    const int32_t *tokens; // (R) run after run
    // (wanted_count) rows whose next token's logits are computed, ascending
    const int64_t *wanted;
    int64_t wanted_count;
} zr_decode_step;

typedef struct zr_decode_limits { // of the steps of a generation
    zero_dtype dtype;
    int threads;
    int64_t rows, wanted, capacity;
} zr_decode_limits;

// Bytes of k, and of v.
size_t zr_lm_decode_cache_bytes(const zr_lm_config *config, int64_t sequences, int64_t capacity);
// Workspace bytes and products (for the queue's scratch) of the largest step through `unit`.
// saved_bytes is 0.
zero_status zr_lm_decode_sizes(const zero_unit *unit, const zr_decode_limits *limits,
                               zero_unit_sizes *out);

// A step through one unit; called for the units of a model in order:
//   the embedding reads the tokens and writes out (R, C); a block reads in (R, C), extends the
//   cache and writes out (R, C);
//   the head reads in (R, C) and writes the logits of the wanted rows to out (wanted, V) fp32.
// (R, C) is of the stream's type. Of the context it reads unit, queue, accessor, workspace, threads
// and dtype of shape, and error. in and out must not overlap.
// In fp32 on the cpu backend a row's bits depend on its own sequence alone, and on whether its run
// has one row or several.
// ZERO_ERR_USAGE where a run ends past the cache or the model's positions, ZERO_ERR_DATA for a
// token outside the vocabulary.
zero_status zr_lm_decode(zero_context *context, const zr_decode_cache *cache,
                         const zr_decode_step *step, const void *in, void *out);

#endif
