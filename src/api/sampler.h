// Text from a model, token by token: decoding with a cache of keys and values, sampling, whole UTF-8 characters out.
#ifndef ZR_API_SAMPLER_H
#define ZR_API_SAMPLER_H

#include "data/tokenizer.h"
#include "model/architecture.h"
#include <zero/engine.h>

typedef struct zr_sampling {
    const char *prompt;  // NULL or "": a new line
    int64_t tokens;      // to generate
    double temperature;  // 0: the likeliest token
    int top_k;           // 0: off
    double top_p;        // 1: off
    uint64_t seed;
} zr_sampling;

typedef int (*zr_emit)(void *user, const char *text, size_t length); // whole UTF-8 characters; non-zero stops

// Collective where the engine has several ranks (all draw the same tokens). Between steps only.
zero_status zr_sample(zero_engine *engine, const zr_lm_config *config, const zr_tokenizer *tokenizer, const zr_sampling *how, zr_emit emit, void *user,
                      zero_error *error);
// Whether what generation reserves beside the engine fits into the host's budget of its configuration. Not collective.
zero_status zr_sample_check_memory(zero_engine *engine, const zr_lm_config *config, zero_error *error);
// zr_sample into a buffer, for samples during training.
zero_status zr_sample_text(zero_engine *engine, const zr_lm_config *config, const zr_tokenizer *tokenizer, const zr_sampling *how, zr_buffer *out,
                           zero_error *error);

#endif
