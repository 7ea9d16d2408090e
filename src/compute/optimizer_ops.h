// Work on the shards of training: optimizer updates, and the sums that make up norms. Formulas and
// test vectors are those of DeepSpeed and PyTorch. compute.h states what holds for all operations,
// op.h how they are declared.
#ifndef ZR_COMPUTE_OPTIMIZER_OPS_H
#define ZR_COMPUTE_OPTIMIZER_OPS_H

#include "compute/operand.h"

typedef enum zr_update_kind {
    ZR_UPDATE_ADAMW,
    ZR_UPDATE_ADAM_L2,
    ZR_UPDATE_SGD,
    ZR_UPDATE_ADAGRAD,
    ZR_UPDATE_LION,
    ZR_UPDATE_KINDS
} zr_update_kind;

// One elementwise update of n elements. Its state vectors: adam m, v; sgd buf; adagrad s; lion m.
typedef struct zr_update {
    zr_update_kind kind;
    zero_dtype gradient, parameters; // the types of these
    int64_t n;
    double epsilon, momentum, dampening;
    double weight_decay; // of this range (0 for tensors without decay)
    bool nesterov;
} zr_update;

// The same n elements of everything that an update reads and writes; NULL for what it does not.
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

// What an update reads that changes from step to step.
typedef struct zr_update_values {
    double lr, beta1, beta2;
    double correction1, correction2; // 1 - beta^t; 1: the averages are not corrected
    float gradient_scale;            // unscale x clip: the gradient is read as g * gradient_scale
    bool first;                      // SGD's buffer is set, not averaged
} zr_update_values;

// The operands are those of zr_range_states; zr_op_update_of (op.h) takes them from there.
#define ZR_OPERANDS_update(AT)                                                                     \
    AT(values, const zr_update_values *, ZR_READ | ZR_AUX, ZERO_U8, sizeof(zr_update_values))      \
    AT(master, float *, ZR_BOTH, ZERO_F32, s->n)                                                   \
    AT(state0, float *, ZR_BOTH, ZERO_F32, s->n)                                                   \
    AT(state1, float *, ZR_BOTH, ZERO_F32, s->n)                                                   \
    AT(gradient, const void *, ZR_READ, s->gradient, s->n)                                         \
    AT(parameters, void *, ZR_WRITTEN, s->parameters, s->n)

// LAMB: updates the moments and sets direction = (m/correction1)/(sqrt(v/correction2)+eps) +
// wd*master.
#define ZR_OPERANDS_lamb_direction(AT)                                                             \
    AT(values, const zr_update_values *, ZR_READ | ZR_AUX, ZERO_U8, sizeof(zr_update_values))      \
    AT(master, const float *, ZR_READ, ZERO_F32, s->n)                                             \
    AT(state0, float *, ZR_BOTH, ZERO_F32, s->n)                                                   \
    AT(state1, float *, ZR_BOTH, ZERO_F32, s->n)                                                   \
    AT(gradient, const void *, ZR_READ, s->gradient, s->n)                                         \
    AT(direction, float *, ZR_WRITTEN, ZERO_F32, s->n)

// master -= *step * direction, and the master's 16-bit copy.
#define ZR_OPERANDS_subtract_scaled(AT)                                                            \
    AT(step, const float *, ZR_READ | ZR_AUX, ZERO_F32, 1)                                         \
    AT(master, float *, ZR_BOTH, ZERO_F32, s->n)                                                   \
    AT(direction, const float *, ZR_READ, ZERO_F32, s->n)                                          \
    AT(parameters, void *, ZR_WRITTEN, s->parameters, s->n)

typedef struct zr_weighted {
    zero_dtype dtype; // of x and out
    int64_t n;
    float of_sum, of_x;
} zr_weighted;

// Muon's iteration: out = of_sum * sum + of_x * x; out may be x.
#define ZR_OPERANDS_weighted_sum(AT)                                                               \
    AT(sum, const float *, ZR_READ, ZERO_F32, s->n)                                                \
    AT(x, const void *, ZR_READ, s->dtype, s->n)                                                   \
    AT(out, void *, ZR_WRITTEN, s->dtype, s->n)

// Elements [first, first + count) of a vector that is cut into chunks of ZR_SQUARES_CHUNK.
typedef struct zr_squares {
    zero_dtype dtype;
    int64_t first, count;
} zr_squares;

enum { ZR_SQUARES_CHUNK = 2048 };
// Returns the number of chunks in which some of the elements lie.
static inline int64_t zr_squares_parts(const zr_squares *s)
{
    int64_t before = s->first / ZR_SQUARES_CHUNK;
    return s->count ? (s->first + s->count - 1) / ZR_SQUARES_CHUNK + 1 - before : 0;
}
// Returns the first of the elements that lies in part k, or their end, counted from s->first.
static inline int64_t zr_squares_part(const zr_squares *s, int64_t k)
{
    int64_t at = (s->first / ZR_SQUARES_CHUNK + k) * ZR_SQUARES_CHUNK - s->first;
    return at < 0 ? 0 : at < s->count ? at : s->count;
}

// Sums the squares of each chunk's elements in double, in one fixed order. sums (parts).
#define ZR_OPERANDS_square_sums(AT)                                                                \
    AT(g, const void *, ZR_READ, s->dtype, s->count)                                               \
    AT(sums, double *, ZR_WRITTEN | ZR_AUX, ZERO_F64, zr_squares_parts(s))

#define ZR_OPTIMIZER_OPS(OP)                                                                       \
    OP(update, update, optimizer, 0, 0)                                                            \
    OP(lamb_direction, update, optimizer, 0, 0)                                                    \
    OP(subtract_scaled, update, optimizer, 0, 0)                                                   \
    OP(weighted_sum, weighted, optimizer, 0, 0)                                                    \
    OP(square_sums, squares, square_sum, 0, 0)

#endif
