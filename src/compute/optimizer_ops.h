// The table of work on the shards of training: optimizer updates, and the sums that make up
// norms. Formulas and test vectors are those of DeepSpeed and PyTorch. compute.h states what
// holds for all tables.
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

// One elementwise update. Its state vectors: adam m, v; sgd buf; adagrad s; lion m.
typedef struct zr_update {
    zr_update_kind kind;
    // weight_decay is that of this range (0 for tensors without decay).
    double lr, beta1, beta2, epsilon, weight_decay;
    double momentum, dampening;
    bool nesterov, first;            // with `first`, SGD's buffer is set, not averaged
    double correction1, correction2; // 1 - beta^t; 1: the averages are not corrected
    float gradient_scale;            // unscale x clip: the gradient is read as g * gradient_scale
} zr_update;

// The same n elements of everything that an update reads and writes.
typedef struct zr_range_states {
    float *master;          // the weights that are updated, fp32
    float *state0, *state1; // as many as the kind needs
    float *direction;       // LAMB's, between its two walks
    const void *gradient;
    zero_dtype gradient_dtype;
    // The new 16-bit copy, written at the same time; NULL: units read the master weights.
    void *parameters;
    zero_dtype parameters_dtype;
} zr_range_states;

typedef struct zr_optimizer_ops {
    void (*update)(zr_queue *queue, const zr_update *update, int64_t n, const zr_range_states *at);
    // Sums squares in double, in one fixed order for each part. Part k is g[first[k] ..
    // first[k]+count[k]), at most 2048 elements; first is a multiple of 64. sums (parts).
    void (*square_sums)(zr_queue *queue, zero_dtype dtype, const void *g, int64_t parts,
                        const int64_t *first, const int32_t *count, double *sums);
    // LAMB: updates the moments and sets direction = (m/correction1)/(sqrt(v/correction2)+eps) +
    // wd*master. It does not touch at->parameters.
    void (*lamb_direction)(zr_queue *queue, const zr_update *update, int64_t n,
                           const zr_range_states *at);
    // master -= step * direction, and the master's 16-bit copy; nothing else of `at` is read.
    void (*subtract_scaled)(zr_queue *queue, int64_t n, float step, const zr_range_states *at);
} zr_optimizer_ops;

#endif
