// A model directory opened for inference: shape, tokenizer, and an engine that holds the parameters
// and nothing else that training needs.
#ifndef ZR_SETUP_LOAD_H
#define ZR_SETUP_LOAD_H

#include "config/config.h"
#include "model/architecture.h"
#include "setup/machine_facts.h"
#include "tokenizer/tokenizer.h"
#include <zero/engine.h>

typedef struct zr_loaded {
    zr_lm_config model_config; // config.json
    zr_lm_shape shape;
    zr_tokenizer *tokenizer; // NULL: none was read
    zero_model *model;
    zr_config *config; // resolved; owned by the engine from zr_load_weights on
    zero_engine *engine;
    zr_rank_threads threads;
} zr_loaded;

typedef struct zr_load_options {
    const char *directory;
    const char *adapter;     // what zr_adapter_directory has found; NULL: none
    const char *config_path; // a training's or another; NULL: all parameters on the device
    const char *dtype;       // NULL: the configuration's, or fp32
    const char *base;        // "nf4" or "int8" (libzero.base); NULL: the configuration's
    // Bytes of a rank, bytes of a machine; 0: the configuration's.
    int64_t device_memory, host_memory;
    int threads;
    const char *backend;
    zero_parallel parallel; // no pipeline; tensor ranks, whatever the configuration says; 0: 1
    // Tensors of the files that have no place in the model are left out instead of refused.
    bool ignore_unused;
    bool no_tokenizer; // the caller makes it, with what it is needed for
    zero_logger logger;
} zr_load_options;

// What zero_eval_options and zero_generate_options both have, under the same names.
#define ZR_LOAD_OPTIONS(options)                                                                   \
    .config_path = (options)->config_path, .dtype = (options)->dtype, .base = (options)->base,     \
    .device_memory = (options)->device_memory, .host_memory = (options)->host_memory,              \
    .threads = (options)->threads, .backend = (options)->backend,                                  \
    .ignore_unused = (options)->ignore_unused, .logger = (options)->logger

// Reads config.json, the tokenizer and the configuration. Not collective.
zero_status zr_load_shape(const zero_comm *comm, const zr_load_options *options, zr_loaded *out,
                          zero_error *error);
// Makes the model again as one of documents, before its weights are loaded.
zero_status zr_loaded_see_documents(zr_loaded *loaded, zero_error *error);
// The same, as one that computes the loss of a preference.
zero_status zr_loaded_prefer(zr_loaded *loaded, const zr_preference *preference, zero_error *error);
// Refuses a tokenizer, called `name`, with more tokens than the model has.
zero_status zr_load_check_tokens(const char *name, const zr_tokenizer *tokenizer,
                                 int64_t vocabulary, zero_error *error);
// Makes the engine, for zero_evaluate with at most batch x seq tokens, and loads its weights,
// divided over the ranks as at stage 3. Collective.
zero_status zr_load_weights(zero_comm *comm, const zr_load_options *options, int64_t batch,
                            int64_t seq, zr_loaded *loaded, zero_error *error);
void zr_loaded_free(zr_loaded *loaded); // A zeroed structure is allowed.

#endif
