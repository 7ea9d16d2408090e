// A model that generates, on an engine: the memory that this takes next to it, and the pass of a
// step through its units.
//
// Several sequences have a part each of one cache of keys and values. A step takes, of some of
// them, the tokens that the cache lacks: a prompt `chunk` tokens at a time, an answer one. Each
// unit's parameters come once a step, whatever it holds: so chunks and batches are what makes
// parameters on the host or on NVMe worth their way.
#ifndef ZR_INFER_DECODING_H
#define ZR_INFER_DECODING_H

#include "compute/attention_ops.h"
#include "infer/choose.h"
#include "layers/layers.h"
#include "memory/arena.h"
#include <zero/engine.h>

typedef struct zr_decoding_limits {
    int64_t sequences;
    int64_t capacity; // positions of each
    // tokens of one sequence that a step takes at most; at the same time every other sequence may
    // take one
    int64_t chunk;
} zr_decoding_limits;

typedef struct zr_decoding {
    zero_engine *engine;
    zr_lm_shape shape;
    zr_decoding_limits limits;
    zr_decode_cache cache;
    float *logits; // (sequences, vocabulary): of the wanted rows of the last step
    // For callers that make steps:
    int64_t rows;             // of a step, at most
    int32_t *tokens;          // (rows)
    zr_attention_run *runs;   // (sequences)
    int64_t *wanted;          // (sequences)
    int32_t *windows;         // (sequences, capacity) tokens
    zr_candidate *candidates; // (vocabulary)
    // Of a pass:
    const zr_decode_step *step;
    // (rows, width) of the stream's type, into and out of a unit, in turn
    void *stream[2];
    void *workspace, *scratch; // scratch: of products
    size_t scratch_bytes;
    int turn;
    zr_ledger ledger;
    zr_arena arena;
} zr_decoding;

// Whether that memory fits into the host's budget of the engine's configuration, next to what is
// planned: ZERO_ERR_LIMIT. Not collective.
zero_status zr_decoding_check_memory(zero_engine *engine, const zr_lm_config *config,
                                     const zr_decoding_limits *limits, zero_error *error);
// Between steps of the engine, which does nothing else until zr_decoding_close. Not collective. On
// failure there is nothing to close.
zero_status zr_decoding_open(zero_engine *engine, const zr_lm_config *config,
                             const zr_decoding_limits *limits, zr_decoding *out, zero_error *error);
void zr_decoding_close(zr_decoding *decoding);
// Collective where the engine has several ranks: all take the same steps. As zr_lm_decode.
zero_status zr_decoding_pass(zr_decoding *decoding, const zr_decode_step *step, zero_error *error);

#endif
