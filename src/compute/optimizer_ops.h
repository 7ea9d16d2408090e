// Work on the shards of training: optimizer updates, and the sums that make up norms. Formulas and
// test vectors are those of DeepSpeed and PyTorch. compute.h states what holds for all operations,
// op.h how they are declared.
#ifndef ZR_COMPUTE_OPTIMIZER_OPS_H
#define ZR_COMPUTE_OPTIMIZER_OPS_H

#include "base/numbers.h"
#include "base/quantised.h"
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
    zero_dtype states;               // fp32, bf16, or ZERO_U8 (Adam's alone)
    int64_t n;
    double epsilon, momentum, dampening;
    double weight_decay; // of this range (0 for tensors without decay)
    bool nesterov;
    double average_decay; // of the average of the weights
} zr_update;

// The same n elements of everything that an update reads and writes; NULL for what it does not.
typedef struct zr_range_states {
    float *master;         // the weights that are updated, fp32
    void *state0, *state1; // as many as the kind needs
    zero_dtype states_dtype;
    // With ZERO_U8: a scale for each ZR_STATE_BLOCK elements, counted from the first one here.
    float *scales0, *scales1;
    float *average;   // of the weights
    float *direction; // LAMB's, between its two walks
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

// Returns how many scales each state of an update has; the last block may be shorter.
static inline int64_t zr_update_scales(const zr_update *s)
{
    return s->states == ZERO_U8 ? (s->n + ZR_STATE_BLOCK - 1) / ZR_STATE_BLOCK : 0;
}

// The operands are those of zr_range_states; zr_op_update_of (op.h) takes them from there.
#define ZR_OPERANDS_update(AT)                                                                     \
    AT(values, const zr_update_values *, ZR_HOST, ZERO_U8, sizeof(zr_update_values))               \
    AT(master, float *, ZR_BOTH, ZERO_F32, s->n)                                                   \
    AT(state0, void *, ZR_BOTH, s->states, s->n)                                                   \
    AT(state1, void *, ZR_BOTH, s->states, s->n)                                                   \
    AT(scales0, float *, ZR_BOTH, ZERO_F32, zr_update_scales(s))                                   \
    AT(scales1, float *, ZR_BOTH, ZERO_F32, zr_update_scales(s))                                   \
    AT(gradient, const void *, ZR_READ, s->gradient, s->n)                                         \
    AT(parameters, void *, ZR_WRITTEN, s->parameters, s->n)

// LAMB, whose states are fp32 or bf16: updates the moments and sets direction =
// (m/correction1)/(sqrt(v/correction2)+eps) + wd*master.
#define ZR_OPERANDS_lamb_direction(AT)                                                             \
    AT(values, const zr_update_values *, ZR_HOST, ZERO_U8, sizeof(zr_update_values))               \
    AT(master, const float *, ZR_READ, ZERO_F32, s->n)                                             \
    AT(state0, void *, ZR_BOTH, s->states, s->n)                                                   \
    AT(state1, void *, ZR_BOTH, s->states, s->n)                                                   \
    AT(gradient, const void *, ZR_READ, s->gradient, s->n)                                         \
    AT(direction, float *, ZR_WRITTEN, ZERO_F32, s->n)

// master -= *step * direction, and the master's 16-bit copy.
#define ZR_OPERANDS_subtract_scaled(AT)                                                            \
    AT(step, const float *, ZR_HOST, ZERO_F32, 1)                                                  \
    AT(master, float *, ZR_BOTH, ZERO_F32, s->n)                                                   \
    AT(direction, const float *, ZR_READ, ZERO_F32, s->n)                                          \
    AT(parameters, void *, ZR_WRITTEN, s->parameters, s->n)

// Muon's first walk: state0 += (1 - momentum) * (g - state0), and the direction is that, or with
// nesterov g moved towards it by `momentum`; rounded to bf16.
#define ZR_OPERANDS_momentum_direction(AT)                                                         \
    AT(values, const zr_update_values *, ZR_HOST, ZERO_U8, sizeof(zr_update_values))               \
    AT(state0, void *, ZR_BOTH, s->states, s->n)                                                   \
    AT(gradient, const void *, ZR_READ, s->gradient, s->n)                                         \
    AT(direction, void *, ZR_WRITTEN, s->states, s->n)

// Its second walk: master = factors[0] * master - factors[1] * direction, and the 16-bit copy.
#define ZR_OPERANDS_orthogonal_update(AT)                                                          \
    AT(factors, const float *, ZR_HOST, ZERO_F32, 2)                                               \
    AT(master, float *, ZR_BOTH, ZERO_F32, s->n)                                                   \
    AT(direction, const void *, ZR_READ, s->states, s->n)                                          \
    AT(parameters, void *, ZR_WRITTEN, s->parameters, s->n)

// The average of the weights after an update: average += (1 - average_decay) * (master - average);
// of the first update: average = master (torch.optim.swa_utils.AveragedModel).
#define ZR_OPERANDS_average(AT)                                                                    \
    AT(values, const zr_update_values *, ZR_HOST, ZERO_U8, sizeof(zr_update_values))               \
    AT(master, const float *, ZR_READ, ZERO_F32, s->n)                                             \
    AT(average, float *, ZR_BOTH, ZERO_F32, s->n)

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

// Elements [first, first + count) of a vector, whose squares go to accumulator `sum`.
typedef struct zr_square_part {
    int64_t first, count, sum;
} zr_square_part;

enum { ZR_MOST_SQUARE_PARTS = ZR_HOST_BYTES / (int)sizeof(zr_square_part) };

typedef struct zr_square_parts {
    zero_dtype dtype;
    int64_t first, count; // elements of the vector that lie at g
    int64_t parts, sums;  // at most ZR_MOST_SQUARE_PARTS; accumulators
    int64_t elements;     // of all parts together
} zr_square_parts;

// Adds the square sums of each chunk of each part to its accumulator, exactly, so that no order
// counts. Both ends of a part may lie inside of a chunk of the vector.
#define ZR_OPERANDS_square_sums_exact(AT)                                                          \
    AT(parts, const zr_square_part *, ZR_HOST, ZERO_I64, 3 * s->parts)                             \
    AT(g, const void *, ZR_READ | ZR_AUX, s->dtype, s->count)                                      \
    AT(sums, zr_exact *, ZR_BOTH | ZR_AUX, ZERO_I64, s->sums * ZR_EXACT_WORDS)

#define ZR_OPTIMIZER_OPS(OP)                                                                       \
    OP(update, update, optimizer, 0, 0)                                                            \
    OP(lamb_direction, update, optimizer, 0, 0)                                                    \
    OP(subtract_scaled, update, optimizer, 0, 0)                                                   \
    OP(momentum_direction, update, optimizer, 0, 0)                                                \
    OP(orthogonal_update, update, optimizer, 0, 0)                                                 \
    OP(average, update, optimizer, 0, 0)                                                           \
    OP(weighted_sum, weighted, optimizer, 0, 0)                                                    \
    OP(square_sums, squares, square_sum, 0, 0)                                                     \
    OP(square_sums_exact, square_parts, square_sum, 0, s->elements *size_of(s->dtype))

#endif
