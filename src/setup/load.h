// A model directory opened for inference: shape, tokenizer, and an engine that holds parameters and
// nothing else of training.
#ifndef ZR_SETUP_LOAD_H
#define ZR_SETUP_LOAD_H

#include "config/config.h"
#include "model/architecture.h"
#include "setup/threads.h"
#include "tokenizer/tokenizer_core.h"
#include <zero/engine.h>

typedef struct zr_loaded {
    zr_lm_config model_config; // config.json
    zr_lm_shape shape;
    zr_tokenizer *tokenizer;
    zero_model *model;
    zr_config *config; // resolved; the engine's from zr_load_weights on
    zero_engine *engine;
    zr_threads threads;
} zr_loaded;

typedef struct zr_load_options {
    const char *directory;
    const char *config_path;            // of a training or not; NULL: all parameters on the device
    const char *dtype;                  // NULL: the configuration's, or fp32
    int64_t device_memory, host_memory; // bytes of a rank, of a machine; 0: the configuration's
    int threads;
    const char *backend;
    // tensors of the files that the model has no place for are left out, not refused
    bool ignore_unused;
    zero_logger logger;
} zr_load_options;

// Not collective: config.json, the tokenizer and the configuration.
zero_status zr_load_shape(const zero_comm *comm, const zr_load_options *options, zr_loaded *out,
                          zero_error *error);
// Collective: the engine, for zero_evaluate with at most batch x seq tokens, and its weights,
// divided over the ranks as at stage 3.
zero_status zr_load_weights(zero_comm *comm, const zr_load_options *options, int64_t batch,
                            int64_t seq, zr_loaded *loaded, zero_error *error);
void zr_loaded_free(zr_loaded *loaded); // zeroed ones are fine

#endif
