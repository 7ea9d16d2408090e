// A small model with known arithmetic, a chain of layers, and its training with any versions of the
// weights written out: what asynchronous pipelines are compared with.
//
//   x -> layer 0 -> ... -> layer 4 -> loss = mean over rows of |y - target|^2 / 2
//   layer: s = W x + b;  y = s + s s / 10
#ifndef TEST_ENGINE_CHAIN_H
#define TEST_ENGINE_CHAIN_H

#include <zero/engine.h>

enum {
    CHAIN_LAYERS = 5,
    CHAIN_WIDTH = 8,
    CHAIN_BATCH = 2,
    CHAIN_STEPS = 6,
    CHAIN_VALUES = CHAIN_BATCH * CHAIN_WIDTH,  // of a boundary
    CHAIN_WEIGHTS = CHAIN_WIDTH * CHAIN_WIDTH, // of W
    CHAIN_LAYER = CHAIN_WEIGHTS + CHAIN_WIDTH, // of W, then b
    CHAIN_ELEMS = CHAIN_LAYERS * CHAIN_LAYER
};

typedef struct chain_samples { // a micro-batch
    float x[CHAIN_VALUES], target[CHAIN_VALUES];
} chain_samples;

// Fills in micro-batch g of a step.
void chain_batch(int64_t step, int64_t g, chain_samples *out);
zero_tensors chain_tensors(chain_samples *samples);
const zero_model *chain_model(void);

// What the emulation has to know of a run: not how stages take turns, only which weights a
// micro-batch meets.
typedef struct chain_run {
    int data, accumulation;     // data ranks, micro-batches of a step on each
    int stage_of[CHAIN_LAYERS]; // pipeline stage of each layer
    double clipping;            // 0: none
    // Returns how many updates the weights have had that a stage computes micro-batch k of a step
    // with, forward and backward.
    int (*updates_of)(const struct chain_run *run, int stage, int step, int k);
    int stages, window; // for updates_of: of the pipeline; steps of a window
    const float *start; // (CHAIN_ELEMS) before the first step
    const double *lr;   // (CHAIN_STEPS) of the updates
} chain_run;

typedef struct chain_result {
    double loss[CHAIN_STEPS], norm[CHAIN_STEPS];
    float weights[CHAIN_ELEMS]; // after the last update
} chain_result;

// Trains by AdamW as the harness configures it. Every version of the weights is kept.
void chain_emulate(const chain_run *run, chain_result *out);

#endif
