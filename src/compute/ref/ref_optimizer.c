// Optimizer updates by the formulas of DeepSpeed and PyTorch, one element at a time in double;
// states are rounded to fp32.
//
// SGD without momentum keeps no buffer: state0 may then be NULL, and dampening has no effect (as in
// PyTorch).
#include "compute/ref/ref.h"

#include <math.h>

typedef void element_update(const zr_update *u, float *p, float *state0, float *state1, double g);

static void adam(const zr_update *u, float *p, float *m, float *v, double g)
{
    double decayed = *p;
    if (u->kind == ZR_UPDATE_ADAM_L2)
        g += u->weight_decay * *p;
    else
        decayed *= 1 - u->lr * u->weight_decay;
    *m = (float)(u->beta1 * *m + (1 - u->beta1) * g);
    *v = (float)(u->beta2 * *v + (1 - u->beta2) * g * g);
    double denominator = sqrt(*v) / sqrt(u->correction2) + u->epsilon;
    *p = (float)(decayed - u->lr / u->correction1 * *m / denominator);
}

static void sgd(const zr_update *u, float *p, float *buffer, float *unused, double g)
{
    g += u->weight_decay * *p;
    if (u->momentum != 0) {
        *buffer = (float)(u->first ? g : u->momentum * *buffer + (1 - u->dampening) * g);
        g = u->nesterov ? g + u->momentum * *buffer : *buffer;
    }
    *p = (float)(*p - u->lr * g);
}

static void adagrad(const zr_update *u, float *p, float *s, float *unused, double g)
{
    g += u->weight_decay * *p;
    *s = (float)(*s + g * g);
    *p = (float)(*p - u->lr * g / (sqrt(*s) + u->epsilon));
}

static void lion(const zr_update *u, float *p, float *m, float *unused, double g)
{
    double c = u->beta1 * *m + (1 - u->beta1) * g;
    double sign = c > 0 ? 1 : c < 0 ? -1 : c; // zero stays zero, and NaN stays NaN
    *p = (float)(*p * (1 - u->lr * u->weight_decay) - u->lr * sign);
    *m = (float)(u->beta2 * *m + (1 - u->beta2) * g);
}

// called after each write of the master
static void write_parameter_copy(const zr_range_states *at, int64_t i)
{
    if (at->parameters)
        ref_put(at->parameters_dtype, at->parameters, i, at->master[i]);
}

static void ref_update(zr_queue *queue, const zr_update *update, int64_t n,
                       const zr_range_states *at)
{
    static element_update *const by_kind[] = {
        [ZR_UPDATE_ADAMW] = adam,      [ZR_UPDATE_ADAM_L2] = adam, [ZR_UPDATE_SGD] = sgd,
        [ZR_UPDATE_ADAGRAD] = adagrad, [ZR_UPDATE_LION] = lion,
    };
    static_assert(ZR_COUNT(by_kind) == ZR_UPDATE_KINDS, "each kind has a kernel");
    for (int64_t i = 0; i < n; i++) {
        by_kind[update->kind](update, at->master + i, at->state0 ? at->state0 + i : NULL,
                              at->state1 ? at->state1 + i : NULL,
                              ref_get(at->gradient_dtype, at->gradient, i) *
                                  update->gradient_scale);
        write_parameter_copy(at, i);
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

static void ref_square_sums(zr_queue *queue, zero_dtype dtype, const void *g, int64_t parts,
                            const int64_t *first, const int32_t *count, double *sums)
{
    for (int64_t k = 0; k < parts; k++)
        sums[k] = part_squares(dtype, g, first[k], count[k]);
}

static void ref_lamb_direction(zr_queue *queue, const zr_update *update, int64_t n,
                               const zr_range_states *at)
{
    float *m = at->state0, *v = at->state1;
    for (int64_t i = 0; i < n; i++) {
        double g = ref_get(at->gradient_dtype, at->gradient, i) * update->gradient_scale;
        m[i] = (float)(update->beta1 * m[i] + (1 - update->beta1) * g);
        v[i] = (float)(update->beta2 * v[i] + (1 - update->beta2) * g * g);
        double denominator = sqrt(v[i]) / sqrt(update->correction2) + update->epsilon;
        at->direction[i] = (float)(m[i] / update->correction1 / denominator +
                                   update->weight_decay * at->master[i]);
    }
}

static void ref_subtract_scaled(zr_queue *queue, int64_t n, float step, const zr_range_states *at)
{
    for (int64_t i = 0; i < n; i++) {
        at->master[i] = (float)(at->master[i] - (double)step * at->direction[i]);
        write_parameter_copy(at, i);
    }
}

const zr_optimizer_ops zr_ref_optimizer_ops = {
    .update = ref_update,
    .square_sums = ref_square_sums,
    .lamb_direction = ref_lamb_direction,
    .subtract_scaled = ref_subtract_scaled,
};
