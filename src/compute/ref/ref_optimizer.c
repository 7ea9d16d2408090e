// Optimizer updates by the formulas of DeepSpeed and PyTorch, one element at a time in double. New
// states are rounded to fp32, make the weight, and are then rounded to their own type.
//
// SGD without momentum keeps no buffer: state0 may then be NULL, and dampening has no effect (as in
// PyTorch).
#include "compute/ref/ref.h"

#include <math.h>

typedef void element_update(const zr_update *u, const zr_update_values *at, float *p, float *state0,
                            float *state1, double g);

static void adam(const zr_update *u, const zr_update_values *at, float *p, float *m, float *v,
                 double g)
{
    double decayed = *p;
    if (u->kind == ZR_UPDATE_ADAM_L2)
        g += u->weight_decay * *p;
    else
        decayed *= 1 - at->lr * u->weight_decay;
    *m = (float)(at->beta1 * *m + (1 - at->beta1) * g);
    *v = (float)(at->beta2 * *v + (1 - at->beta2) * g * g);
    double denominator = sqrt(*v) / sqrt(at->correction2) + u->epsilon;
    *p = (float)(decayed - at->lr / at->correction1 * *m / denominator);
}

static void sgd(const zr_update *u, const zr_update_values *at, float *p, float *buffer,
                float *unused, double g)
{
    g += u->weight_decay * *p;
    if (u->momentum != 0) {
        *buffer = (float)(at->first ? g : u->momentum * *buffer + (1 - u->dampening) * g);
        g = u->nesterov ? g + u->momentum * *buffer : *buffer;
    }
    *p = (float)(*p - at->lr * g);
}

static void adagrad(const zr_update *u, const zr_update_values *at, float *p, float *s,
                    float *unused, double g)
{
    g += u->weight_decay * *p;
    *s = (float)(*s + g * g);
    *p = (float)(*p - at->lr * g / (sqrt(*s) + u->epsilon));
}

static void lion(const zr_update *u, const zr_update_values *at, float *p, float *m, float *unused,
                 double g)
{
    double c = at->beta1 * *m + (1 - at->beta1) * g;
    double sign = c > 0 ? 1 : c < 0 ? -1 : c; // zero stays zero, and NaN stays NaN
    *p = (float)(*p * (1 - at->lr * u->weight_decay) - at->lr * sign);
    *m = (float)(at->beta2 * *m + (1 - at->beta2) * g);
}

// Called after each write of the master.
static void write_parameter_copy(const zr_update *update, const float *master, void *parameters,
                                 int64_t i)
{
    if (parameters)
        ref_put(update->parameters, parameters, i, master[i]);
}

// 0 for a state that the kind does not have.
static float state_get(const zr_update *update, const void *state, int64_t i)
{
    return state ? (float)ref_get(update->states, state, i) : 0;
}

static void state_put(const zr_update *update, void *state, int64_t i, float value)
{
    if (state)
        ref_put(update->states, state, i, value);
}

void zr_ref_update(zr_queue *queue, const zr_update *update, const zr_update_values *values,
                   float *master, void *state0, void *state1, float *scales0, float *scales1,
                   const void *gradient, void *parameters)
{
    static element_update *const by_kind[] = {
        [ZR_UPDATE_ADAMW] = adam,      [ZR_UPDATE_ADAM_L2] = adam, [ZR_UPDATE_SGD] = sgd,
        [ZR_UPDATE_ADAGRAD] = adagrad, [ZR_UPDATE_LION] = lion,
    };
    static_assert(ZR_COUNT(by_kind) == ZR_UPDATE_KINDS, "each kind has a kernel");
    if (update->states == ZERO_U8) {
        const zr_range_states at = {.master = master,
                                    .state0 = state0,
                                    .state1 = state1,
                                    .scales0 = scales0,
                                    .scales1 = scales1,
                                    .gradient = gradient,
                                    .parameters = parameters};
        zr_ref_update_blocks(update, values, &at);
        return;
    }
    for (int64_t i = 0; i < update->n; i++) {
        float s0 = state_get(update, state0, i), s1 = state_get(update, state1, i);
        by_kind[update->kind](update, values, master + i, &s0, &s1,
                              ref_get(update->gradient, gradient, i) * values->gradient_scale);
        state_put(update, state0, i, s0);
        state_put(update, state1, i, s1);
        write_parameter_copy(update, master, parameters, i);
    }
}

// The order that every backend keeps: eight sums, each of every eighth element, then a tree.
static double part_squares(zero_dtype dtype, const void *g, int64_t first, int64_t count)
{
    double lane[8] = {0};
    for (int64_t i = 0; i < count; i++) {
        double x = ref_get(dtype, g, first + i);
        lane[i % 8] += x * x;
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

void zr_ref_square_sums(zr_queue *queue, const zr_squares *squares, const void *g, double *sums)
{
    for (int64_t k = 0; k < zr_squares_parts(squares); k++) {
        int64_t first = zr_squares_part(squares, k);
        sums[k] = part_squares(squares->dtype, g, first, zr_squares_part(squares, k + 1) - first);
    }
}

void zr_ref_square_sums_exact(zr_queue *queue, const zr_square_parts *of,
                              const zr_square_part *parts, const void *g, zr_exact *sums)
{
    zr_square_parts_add(queue, of, parts, g, sums);
}

void zr_ref_lamb_direction(zr_queue *queue, const zr_update *update, const zr_update_values *values,
                           const float *master, void *state0, void *state1, const void *gradient,
                           float *direction)
{
    for (int64_t i = 0; i < update->n; i++) {
        double g = ref_get(update->gradient, gradient, i) * values->gradient_scale;
        float m = state_get(update, state0, i), v = state_get(update, state1, i);
        m = (float)(values->beta1 * m + (1 - values->beta1) * g);
        v = (float)(values->beta2 * v + (1 - values->beta2) * g * g);
        state_put(update, state0, i, m);
        state_put(update, state1, i, v);
        double denominator = sqrt(v) / sqrt(values->correction2) + update->epsilon;
        direction[i] =
            (float)(m / values->correction1 / denominator + update->weight_decay * master[i]);
    }
}

void zr_ref_subtract_scaled(zr_queue *queue, const zr_update *update, const float *step,
                            float *master, const float *direction, void *parameters)
{
    for (int64_t i = 0; i < update->n; i++) {
        master[i] = (float)(master[i] - (double)*step * direction[i]);
        write_parameter_copy(update, master, parameters, i);
    }
}
