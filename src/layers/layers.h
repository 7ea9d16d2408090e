// Layers: forward and backward side by side, called by units of our own architectures.
#ifndef ZR_LAYERS_LAYERS_H
#define ZR_LAYERS_LAYERS_H

#include "compute/compute.h"
#include "model/lm_build.h"

#define ZR_LAYER_DTYPES (1u << ZERO_F32 | 1u << ZERO_BF16 | 1u << ZERO_F16) // that every unit of ours computes with

// Type of the residual stream, and so of the boundaries between units, where parameters and activations have type `dtype`.
zero_dtype zr_stream_dtype(zero_dtype dtype);

// A model with its arithmetic; zr_lm_free. ZERO_ERR_USAGE for a configuration that contradicts itself.
zero_status zr_lm_create(const zr_lm_config *config, zero_model **out, zero_error *error);
// What a model was made of; NULL where it is not one of ours.
const zr_lm_config *zr_lm_config_of(const zero_model *model);
bool zr_lm_is_head(const zero_unit *unit); // of one of ours

// Greedy or sampled generation runs unit by unit with a cache of keys and values.
typedef struct zr_decode_cache { // of one sequence
    int64_t capacity, length;    // positions; length: those decoded so far
    float *k, *v;                // (layers, heads of keys, capacity, head_dim)
} zr_decode_cache;

// Bytes of k, and of v.
size_t zr_lm_decode_cache_bytes(const zr_lm_config *config, int64_t capacity);
// Workspace bytes and products (for the queue's scratch) of decoding one token through `unit`. saved_bytes is 0.
zero_status zr_lm_decode_sizes(const zero_unit *unit, zero_dtype dtype, int threads, zero_unit_sizes *out);

// One token through one unit; called for the units of a model in order, it takes position cache->length of the sequence:
//   the embedding reads `token` and writes out (C); a block reads in (C), extends the cache and writes out (C);
//   the head reads in (C), writes the logits of the next token to out (V) fp32, or none where out is NULL, and counts the position.
// (C) is of the stream's type. Of the context it reads unit, queue, accessor, workspace, threads and dtype of shape, and error. in and out must not overlap.
// ZERO_ERR_USAGE where the cache or the model's positions are full, ZERO_ERR_DATA for a token outside the vocabulary.
zero_status zr_lm_decode(zero_context *context, zr_decode_cache *cache, int32_t token, const void *in, void *out);

#endif
