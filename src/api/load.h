// A model directory opened for inference: shape, tokenizer, and an engine that holds parameters and nothing else of training.
#ifndef ZR_API_LOAD_H
#define ZR_API_LOAD_H

#include "api/threads.h"
#include "data/tokenizer.h"
#include "model/gpt2.h"
#include <zero/engine.h>

typedef struct zr_loaded {
    zero_gpt2_config shape;
    zr_tokenizer *tokenizer;
    zero_model *model;
    zero_engine *engine;
    zr_threads threads;
} zr_loaded;

typedef struct zr_load_options {
    const char *directory;
    int64_t batch, seq; // of zero_evaluate, at most; seq 0: the model's context
    int threads;
    const char *backend;
    const char *dtype;  // NULL: fp32
    zero_logger logger;
} zr_load_options;

// Not collective: config.json and the tokenizer.
zero_status zr_load_shape(const char *directory, zr_loaded *out, zero_error *error);
// Collective: the engine and its weights, divided over the ranks as at stage 3.
zero_status zr_load_weights(zero_comm *comm, const zr_load_options *options, zr_loaded *loaded, zero_error *error);
void zr_loaded_free(zr_loaded *loaded); // zeroed ones are fine

#endif
