// An engine's parameters as files. Included by <zero/engine.h>.
#ifndef ZERO_WEIGHTS_H
#define ZERO_WEIGHTS_H

#include <zero/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

// Writes or reads all parameters as one safetensors file, or, reading, Hugging Face shards next to
// it. Each rank reads its own ranges.
// Reading: ZERO_ERR_DATA for a tensor that is missing, that has another shape, or that the model
// has no place for (buffers of old exports, and the head of a tied language model, are passed over;
// zero_load_weights_with takes such a file). Collective, between steps only; reading not while a
// checkpoint is being written.
ZERO_API zero_status zero_save_weights(zero_engine *engine, const char *path, zero_error *error);
ZERO_API zero_status zero_load_weights(zero_engine *engine, const char *directory,
                                       zero_error *error);

typedef struct zero_load_options {
    size_t struct_size;
    // tensors that the model has no place for are left out with a warning, not refused
    int ignore_unused;
    zero_logger logger; // of the warning, on rank 0
} zero_load_options;
// zero_load_weights with options; NULL: as without.
ZERO_API zero_status zero_load_weights_with(zero_engine *engine, const char *directory,
                                            const zero_load_options *options, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
