// Layers: forward and backward side by side, called by units of our own architectures.
#ifndef ZR_LAYERS_LAYERS_H
#define ZR_LAYERS_LAYERS_H

#include "compute/compute.h"
#include "model/gpt2.h"

extern const zr_gpt2_ops zr_gpt2_unit_ops; // the arithmetic of GPT-2's units

#define ZR_LAYER_DTYPES (1u << ZERO_F32 | 1u << ZERO_BF16 | 1u << ZERO_F16) // that every unit of ours computes with

// Type of the residual stream, and so of the boundaries between units, where parameters and activations have type `dtype`.
zero_dtype zr_stream_dtype(zero_dtype dtype);

// Greedy or sampled generation runs unit by unit with a cache of keys and values.
typedef struct zr_decode_cache { // of one sequence
    int64_t capacity, length;    // positions; length: those decoded so far
    float *k, *v;                // (layers, heads, capacity, head_dim)
} zr_decode_cache;

// Bytes of k, and of v.
size_t zr_gpt2_decode_cache_bytes(const zero_gpt2_config *config, int64_t capacity);
// Workspace bytes and products (for the queue's scratch) of decoding one token through `unit`. saved_bytes is 0.
zero_status zr_gpt2_decode_sizes(const zero_unit *unit, zero_dtype dtype, int threads, zero_unit_sizes *out);

// One token through one unit; called for the units of a model in order, it takes position cache->length of the sequence:
//   the embedding reads `token` and writes out (C); a block reads in (C), extends the cache and writes out (C);
//   the head reads in (C), writes the logits of the next token to out (V) fp32, or none where out is NULL, and counts the position.
// (C) is of the stream's type. Of the context it reads unit, queue, accessor, workspace, threads and dtype of shape, and error. in and out must not overlap.
// ZERO_ERR_USAGE where the cache or the model's positions are full, ZERO_ERR_DATA for a token outside the vocabulary.
zero_status zr_gpt2_decode(zero_context *context, zr_decode_cache *cache, int32_t token, const void *in, void *out);

#endif
