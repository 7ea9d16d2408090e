// The parameters of an engine as files. Included by <zero/engine.h>.
#ifndef ZERO_WEIGHTS_H
#define ZERO_WEIGHTS_H

#include <zero/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

// Write all parameters as one safetensors file, or read them from such a file or from Hugging Face
// shards in a directory. Each rank reads its own ranges. Reading fails with ZERO_ERR_DATA for a
// tensor that is missing, that has another shape, or that the model has no place for;
// zero_load_weights_with can allow the last. Buffers of old exports, and the head of a tied
// language model, are ignored. Collective, between steps only; reading is not allowed while a
// checkpoint is being written.
ZERO_API zero_status zero_save_weights(zero_engine *engine, const char *path, zero_error *error);
ZERO_API zero_status zero_load_weights(zero_engine *engine, const char *directory,
                                       zero_error *error);

// Writes the average of the weights (libzero.ema_decay) as zero_save_weights writes the weights.
// ZERO_ERR_USAGE: the engine keeps none, or has made no update. Collective, between steps only.
ZERO_API zero_status zero_save_average(zero_engine *engine, const char *path, zero_error *error);

typedef struct zero_load_options {
    size_t struct_size;
    // 1 if tensors that the model has no place for cause a warning, not an error.
    int ignore_unused;
    zero_logger logger; // gets the warning, on rank 0
} zero_load_options;
// Like zero_load_weights, with options, which may be NULL.
ZERO_API zero_status zero_load_weights_with(zero_engine *engine, const char *directory,
                                            const zero_load_options *options, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
