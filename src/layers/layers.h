// The library's models with their arithmetic, and steps of generation through their units.
#ifndef ZR_LAYERS_LAYERS_H
#define ZR_LAYERS_LAYERS_H

#include "compute/compute.h"
#include "model/lm_build.h"

// The types that every unit of the library can compute with.
#define ZR_LAYER_DTYPES (1u << ZERO_F32 | 1u << ZERO_BF16 | 1u << ZERO_F16 | ZERO_UNIT_DEVICE)

// Returns the type of the residual stream, and so of the boundaries between units, if parameters
// and activations have type `dtype`.
zero_dtype zr_stream_dtype(zero_dtype dtype);

// Creates a model with its arithmetic; free it with zr_lm_free. Returns ZERO_ERR_USAGE for a
// configuration that contradicts itself.
zero_status zr_lm_create(const zr_lm_config *config, zero_model **out, zero_error *error);
// The same with some tensors frozen (lm_build.h), whole or tiled.
zero_status zr_lm_create_frozen(const zr_lm_config *config, const zr_lm_frozen *frozen,
                                zero_model **out, zero_error *error);
// Returns the configuration that a model was made from; NULL if the library did not make it.
const zr_lm_config *zr_lm_config_of(const zero_model *model);
bool zr_lm_is_head(const zero_unit *unit); // of a unit of a model that the library made

// Generation runs unit by unit, with a cache of keys and values: a step takes some positions of
// some sequences through all units.
typedef struct zr_decode_cache { // for several sequences
    int64_t sequences, capacity; // capacity: positions of each sequence
    float *k, *v; // (layers, slices, sequences, kv_heads of a slice, capacity, head_dim)
} zr_decode_cache;

typedef struct zr_decode_step {
    const zr_attention_run *runs; // (run_count) no two of the same sequence
    int run_count;
    int64_t rows;          // R, of all runs together
    const int32_t *tokens; // (R) run after run
    // (wanted_count) The rows whose next token's logits are computed, ascending.
    const int64_t *wanted;
    int64_t wanted_count;
    const int32_t *ids; // the tokens where the queue reads them; NULL: `tokens`
} zr_decode_step;

typedef struct zr_decode_limits {     // of the steps of a generation
    const struct zr_backend *backend; // of the queue that runs them
    zero_dtype dtype;
    int threads;
    int64_t rows, wanted, capacity;
} zr_decode_limits;

// Returns the bytes of k, which are also those of v, for a model or the part of one that a rank
// has.
size_t zr_lm_decode_cache_bytes(const zero_model *model, int64_t sequences, int64_t capacity);
// Gives the workspace bytes, the products (for the queue's scratch) and the exchange_bytes of the
// largest step through `unit`. saved_bytes is 0, and exchanges are not listed, because they differ
// between steps.
zero_status zr_lm_decode_sizes(const zero_unit *unit, const zr_decode_limits *limits,
                               zero_unit_sizes *out);
// Lists in out->exchanges the exchanges with other tensor ranks that a step of `rows` rows makes in
// `unit`, when `wanted` rows need logits; nothing else of *out is set.
void zr_lm_decode_exchanges(const zero_unit *unit, int64_t rows, int64_t wanted,
                            zero_unit_sizes *out);

// Takes a step through one unit. Call it for the units of a model in order:
//   the embedding reads the tokens and writes out (R, C); a block reads in (R, C), extends the
//   cache and writes out (R, C);
//   the head reads in (R, C) and writes the logits of the wanted rows to out (wanted, V) fp32.
// (R, C) is of the stream's type; `in` and `out` must not overlap. Of the context it reads unit,
// queue, accessor, workspace, error, and threads and dtype of shape.
// In fp32 on the cpu backend a row's bits depend only on its own sequence, and on whether its run
// has one row or several.
// Returns ZERO_ERR_USAGE if a run ends past the cache or the model's positions, and ZERO_ERR_DATA
// for a token outside the vocabulary.
zero_status zr_lm_decode(zero_context *context, const zr_decode_cache *cache,
                         const zr_decode_step *step, const void *in, void *out);

#endif
