// The table of what passes over the shards of training: optimizer updates, and the sums that norms
// are made of.
// Formulas and test vectors: DeepSpeed's and PyTorch's. compute.h says what holds for all tables.
#ifndef ZR_COMPUTE_OPTIMIZER_OPS_H
#define ZR_COMPUTE_OPTIMIZER_OPS_H

#include "base/errors.h"
#include <zero/tensor.h>

typedef struct zr_queue zr_queue;

typedef enum zr_update_kind {
    ZR_UPDATE_ADAMW,
    ZR_UPDATE_ADAM_L2,
    ZR_UPDATE_SGD,
    ZR_UPDATE_ADAGRAD,
    ZR_UPDATE_LION,
    ZR_UPDATE_KINDS
} zr_update_kind;

// one elementwise update by formulas.md; state vectors: adam m, v; sgd buf; adagrad s; lion m
typedef struct zr_update {
    zr_update_kind kind;
    double lr, beta1, beta2, epsilon, weight_decay; // this range's decay (0 for tensors without)
    double momentum, dampening;
    bool nesterov, first;            // first: SGD's buffer is set, not averaged
    double correction1, correction2; // 1 - beta^t
    float gradient_scale;            // unscale x clip: the gradient is read as g * gradient_scale
} zr_update;

// the same n elements of everything that an update reads and writes
typedef struct zr_range_states {
    float *master;          // the weights that are updated, fp32
    float *state0, *state1; // as many as the kind has
    float *direction;       // LAMB's, between its two passes
    const void *gradient;
    zero_dtype gradient_dtype;
    // their new 16-bit copy, written in the same pass; NULL: the master is what units read
    void *parameters;
    zero_dtype parameters_dtype;
} zr_range_states;

typedef struct zr_optimizer_ops {
    void (*update)(zr_queue *queue, const zr_update *update, int64_t n, const zr_range_states *at);
    // Squares summed in double, in one fixed order for each part: part k is g[first[k] ..
    // first[k]+count[k]), at most 2048 elements, first a multiple of 64. sums (parts).
    void (*square_sums)(zr_queue *queue, zero_dtype dtype, const void *g, int64_t parts,
                        const int64_t *first, const int32_t *count, double *sums);
    // LAMB: moments, and direction = (m/correction1)/(sqrt(v/correction2)+eps) + wd*master;
    // at->parameters is not touched.
    void (*lamb_direction)(zr_queue *queue, const zr_update *update, int64_t n,
                           const zr_range_states *at);
    // master -= step * direction, and its 16-bit copy; nothing else of `at` is read.
    void (*subtract_scaled)(zr_queue *queue, int64_t n, float step, const zr_range_states *at);
} zr_optimizer_ops;

#endif
