// Optimizer updates in one pass over parameters, states and gradients: bound by memory. Constants are prepared in double.
//
// Invariant: an element's result does not depend on where in a range it lies nor on the number of threads, so that any
// cut of a vector (shards, sub-groups) gives the same bits. SGD without momentum keeps no buffer: state0 may be NULL.
// square_sums keeps eight sums in double on every instruction set, as ref/ does, so all of them give the same bits.
#include "compute/cpu/cpu.h"
#include "compute/cpu/cpu_vector.h"

#define UNIT 64         // elements a task
#define WORTH (1 << 14) // elements that are worth a thread
#define HALF (LANES / 2)

typedef struct update_job {
    int64_t n;
    float *p, *state0, *state1;
    const float *g, *from;
    float scale;                      // of the gradient, or of the operation
    float keep0, take0, keep1, take1; // state = keep*state + take*g
    float keep_p, step, root, epsilon, weight_decay, momentum;
    bool nesterov, first;
} update_job;

static update_job job_of(const zr_update *u, int64_t n, float *p, float *state0, float *state1, const float *g)
{
    return (update_job){
        .n = n,
        .p = p,
        .state0 = state0,
        .state1 = state1,
        .g = g,
        .scale = u->gradient_scale,
        .keep0 = (float)u->beta1,
        .take0 = (float)(1 - u->beta1),
        .keep1 = (float)u->beta2,
        .take1 = (float)(1 - u->beta2),
        .keep_p = 1,
        .step = (float)u->lr,
        .epsilon = (float)u->epsilon,
        .weight_decay = (float)u->weight_decay,
        .momentum = (float)u->momentum,
        .nesterov = u->nesterov,
        .first = u->first,
    };
}

static void elements_for(const zr_queue *queue, zr_cpu_body *body, const update_job *job)
{
    zr_cpu_for(queue, (job->n + UNIT - 1) / UNIT, WORTH / UNIT, body, job);
}

static void adam_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const update_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES) {
        int64_t left = end - i;
        vf p = vf_get(job->p + i, left), g = vf_get(job->g + i, left) * job->scale + p * job->weight_decay;
        vf m = vf_get(job->state0 + i, left) * job->keep0 + g * job->take0;
        vf v = vf_get(job->state1 + i, left) * job->keep1 + g * g * job->take1;
        vf_put(job->state0 + i, left, m);
        vf_put(job->state1 + i, left, v);
        vf_put(job->p + i, left, p * job->keep_p - job->step * m / (vf_sqrt(v) * job->root + job->epsilon));
    }
}

static void adam(zr_queue *queue, const zr_update *u, int64_t n, float *p, float *m, float *v, const float *g)
{
    update_job job = job_of(u, n, p, m, v, g);
    if (u->kind == ZR_UPDATE_ADAMW) {
        job.keep_p = (float)(1 - u->lr * u->weight_decay);
        job.weight_decay = 0;
    }
    job.step = (float)(u->lr / u->correction1);
    job.root = (float)(1 / sqrt(u->correction2));
    elements_for(queue, adam_range, &job);
}

static void sgd_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const update_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES) {
        int64_t left = end - i;
        vf p = vf_get(job->p + i, left), g = vf_get(job->g + i, left) * job->scale + p * job->weight_decay;
        if (job->momentum != 0) {
            vf buffer = job->first ? g : vf_get(job->state0 + i, left) * job->momentum + g * job->take0;
            vf_put(job->state0 + i, left, buffer);
            g = job->nesterov ? g + buffer * job->momentum : buffer;
        }
        vf_put(job->p + i, left, p - g * job->step);
    }
}

static void sgd(zr_queue *queue, const zr_update *u, int64_t n, float *p, float *buffer, float *unused, const float *g)
{
    update_job job = job_of(u, n, p, buffer, NULL, g);
    job.take0 = (float)(1 - u->dampening);
    elements_for(queue, sgd_range, &job);
}

static void adagrad_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const update_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES) {
        int64_t left = end - i;
        vf p = vf_get(job->p + i, left), g = vf_get(job->g + i, left) * job->scale + p * job->weight_decay;
        vf s = vf_get(job->state0 + i, left) + g * g;
        vf_put(job->state0 + i, left, s);
        vf_put(job->p + i, left, p - g * job->step / (vf_sqrt(s) + job->epsilon));
    }
}

static void adagrad(zr_queue *queue, const zr_update *u, int64_t n, float *p, float *s, float *unused, const float *g)
{
    update_job job = job_of(u, n, p, s, NULL, g);
    elements_for(queue, adagrad_range, &job);
}

static void lion_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const update_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES) {
        int64_t left = end - i;
        vf p = vf_get(job->p + i, left), g = vf_get(job->g + i, left) * job->scale, m = vf_get(job->state0 + i, left);
        vf c = m * job->keep0 + g * job->take0;
        vf sign = vf_select(c > 0, vf_all(1), vf_select(c < 0, vf_all(-1), c)); // zero stays zero, NaN stays NaN
        vf_put(job->p + i, left, p * job->keep_p - sign * job->step);
        vf_put(job->state0 + i, left, m * job->keep1 + g * job->take1);
    }
}

static void lion(zr_queue *queue, const zr_update *u, int64_t n, float *p, float *m, float *unused, const float *g)
{
    update_job job = job_of(u, n, p, m, NULL, g);
    job.keep_p = (float)(1 - u->lr * u->weight_decay);
    elements_for(queue, lion_range, &job);
}

static void update(zr_queue *queue, const zr_update *update, int64_t n, float *p, float *state0, float *state1,
                   const float *g)
{
    static void (*const by_kind[])(zr_queue *, const zr_update *, int64_t, float *, float *, float *, const float *) = {
        [ZR_UPDATE_ADAMW] = adam,      [ZR_UPDATE_ADAM_L2] = adam, [ZR_UPDATE_SGD] = sgd,
        [ZR_UPDATE_ADAGRAD] = adagrad, [ZR_UPDATE_LION] = lion,
    };
    by_kind[update->kind](queue, update, n, p, state0, state1, g);
}

static void lamb_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const update_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES) {
        int64_t left = end - i;
        vf g = vf_get(job->g + i, left) * job->scale;
        vf m = vf_get(job->state0 + i, left) * job->keep0 + g * job->take0;
        vf v = vf_get(job->state1 + i, left) * job->keep1 + g * g * job->take1;
        vf_put(job->state0 + i, left, m);
        vf_put(job->state1 + i, left, v);
        vf_put(job->p + i, left, m / (vf_sqrt(v) + job->epsilon) + vf_get(job->from + i, left) * job->weight_decay);
    }
}

static void lamb_direction(zr_queue *queue, const zr_update *update, int64_t n, const float *p, float *m, float *v,
                           const float *g, float *u)
{
    update_job job = job_of(update, n, u, m, v, g);
    job.from = p;
    elements_for(queue, lamb_range, &job);
}

static void subtract_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const update_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES)
        vf_put(job->p + i, end - i, vf_get(job->p + i, end - i) - vf_get(job->from + i, end - i) * job->scale);
}

static void subtract_scaled(zr_queue *queue, int64_t n, float step, const float *u, float *p)
{
    update_job job = {.n = n, .p = p, .from = u, .scale = step};
    elements_for(queue, subtract_range, &job);
}

static void scale_range(const void *job_, int64_t first, int64_t last, int worker)
{
    const update_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES)
        vf_put(job->p + i, end - i, vf_get(job->p + i, end - i) * job->scale);
}

static void scale(zr_queue *queue, int64_t n, float factor, float *x)
{
    update_job job = {.n = n, .p = x, .scale = factor};
    elements_for(queue, scale_range, &job);
}

// ---- sums of squares ----

typedef struct squares_job {
    const float *g;
    const int64_t *first;
    const int32_t *count;
    double *sums;
} squares_job;

typedef float vf_half __attribute__((vector_size(2 * LANES), aligned(4), may_alias));

INLINE vd widen(const float *g)
{
    return __builtin_convertvector(*(const vf_half *)g, vd);
}

static double part_squares(const float *g, int64_t count)
{
    double lane[8];
    vd sum[8 / HALF]; // eight doubles on every instruction set
    int64_t i = 0;
    memset(sum, 0, sizeof(sum));
    for (; i + 8 <= count; i += 8)
        for (int k = 0; k < 8 / HALF; k++) {
            vd x = widen(g + i + k * HALF);
            sum[k] += x * x;
        }
    memcpy(lane, sum, sizeof(lane));
    for (; i < count; i++)
        lane[i % 8] += (double)g[i] * g[i];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static void squares_parts(const void *job_, int64_t first, int64_t last, int worker)
{
    const squares_job *job = job_;
    for (int64_t k = first; k < last; k++)
        job->sums[k] = part_squares(job->g + job->first[k], job->count[k]);
}

static void square_sums(zr_queue *queue, const float *g, int64_t parts, const int64_t *first, const int32_t *count,
                        double *sums)
{
    squares_job job = {.g = g, .first = first, .count = count, .sums = sums};
    zr_cpu_for(queue, parts, 16, squares_parts, &job);
}

const zr_optimizer_ops ZR_CPU_TABLE(zr_cpu_optimizer_ops) = {
    .update = update,
    .square_sums = square_sums,
    .lamb_direction = lamb_direction,
    .subtract_scaled = subtract_scaled,
    .scale = scale,
};
