// A model that generates, on an engine: how a token is chosen, the memory that generating needs in
// addition, and how a step goes through the units.
//
// One cache of keys and values has a part for each of several sequences. A step takes tokens of
// some sequences that the cache lacks: `chunk` tokens of a prompt, or one token of an answer. Each
// unit's parameters are fetched once per step, however many tokens it takes. So chunks and batches
// are what makes it worthwhile to fetch parameters from the host or from NVMe.
#ifndef ZR_INFER_DECODING_H
#define ZR_INFER_DECODING_H

#include "base/errors.h"
#include "compute/compute.h"
#include "engine/tensor_exchange.h"
#include "layers/layers.h"
#include "memory/arena.h"
#include <zero/engine.h>

typedef struct zr_candidate { // a token to choose from
    float logit;
    int32_t id;
} zr_candidate;

// sampling.c, pure. Chooses the next token by temperature, among the top_k likeliest, and among the
// likeliest that together have probability top_p. logits: (count); `room` (count) is scratch;
// `random` is in [0, 1). Ties go to the smaller id.
int32_t zr_choose_token(const float *logits, int32_t count, double temperature, int top_k,
                        double top_p, double random, zr_candidate *room);

typedef struct zr_decoding_limits {
    int64_t sequences;
    int64_t capacity; // positions of each sequence
    // The most tokens of one sequence that a step takes; every other sequence may take one in the
    // same step.
    int64_t chunk;
} zr_decoding_limits;

typedef struct zr_decoding {
    zero_engine *engine;
    zr_lm_shape shape;
    zr_decoding_limits limits;
    zr_decode_cache cache;
    float *logits; // (sequences, vocabulary): of the wanted rows of the last step
    // For callers that make steps, whose arrays are these:
    int64_t rows;             // the most of a step
    int32_t *tokens;          // (rows)
    zr_attention_run *runs;   // (sequences)
    int64_t *wanted;          // (sequences)
    int32_t *windows;         // (sequences, capacity) tokens
    zr_candidate *candidates; // (vocabulary)
    // During a step:
    const zr_decode_step *step;
    // (rows, width) of the stream's type: a unit reads one and writes the other, in alternation.
    void *stream[2];
    void *workspace, *scratch; // scratch: for products
    size_t scratch_bytes;
    int turn;
    // Where the queue of a far device reads the tokens (else NULL), and where it writes the logits.
    int32_t *ids;
    float *written;
    zr_tensor_exchange exchange; // with the ranks that have the other slices of the model
    zr_ledger ledger;            // of this memory, apart from the engine's
    zr_arena arena;
    zr_arena device; // of a far device: what units read and write; pinned memory is in `arena`
} zr_decoding;

// Checks that this memory fits into the budgets of the engine's configuration, that of the host and
// that of a far device, in addition to what is planned; otherwise ZERO_ERR_LIMIT. Not collective.
zero_status zr_decoding_check_memory(zero_engine *engine, const zr_lm_config *config,
                                     const zr_decoding_limits *limits, zero_error *error);
// Allocates the memory. Call it between steps of the engine, which must do nothing else until
// zr_decoding_close; *out must not move until then. Collective over the groups of tensor ranks.
// After a failure there is nothing to close.
zero_status zr_decoding_open(zero_engine *engine, const zr_lm_config *config,
                             const zr_decoding_limits *limits, zr_decoding *out, zero_error *error);
void zr_decoding_close(zr_decoding *decoding);
// Takes a step through the model, as zr_lm_decode does through a unit. Collective if the engine has
// several ranks, which must all take the same steps. ZERO_ERR_INTERNAL: tensor ranks exchanged
// something other than what is planned for such a step, or more memory is held than planned.
zero_status zr_decoding_take_step(zr_decoding *decoding, const zr_decode_step *step,
                                  zero_error *error);

#endif
