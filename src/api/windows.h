// Mean loss over windows of a text: batches of windows are shared out over the ranks and summed exactly, so that the
// result does not depend on how many ranks there are.
#ifndef ZR_API_WINDOWS_H
#define ZR_API_WINDOWS_H

#include "data/dataset.h"
#include <zero/engine.h>

typedef struct zr_windows_result {
    double loss;     // nats a token
    int64_t windows; // that were read
    int64_t tokens;  // of their targets, those that count
} zr_windows_result;

// Collective. Batches of at most `batch` windows (the engine's micro-batch or less); at most `most` of those batches, spread
// evenly over the text, 0: all. Between steps only.
zero_status zr_windows_loss(zero_engine *engine, const zr_dataset *dataset, int64_t batch, int64_t most, zr_windows_result *out, zero_error *error);

#endif
