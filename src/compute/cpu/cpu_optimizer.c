// Optimizer updates go once over master weights, states, gradients and the 16-bit copy of the
// weights. They are bound by memory. Constants are prepared in double.
//
// Invariant: an element's result depends neither on its place in a range nor on the number of
// threads, so that any cut of a vector (shards, sub-groups) gives the same bits. With AVX2 and
// later it does not depend on the compiler either, which finds written what is fused, so that a
// card's kernels give the same bits (cuda/kernels/states.cu). SGD without momentum keeps no buffer:
// state0 may then be NULL. square_sums keeps eight sums in double on every instruction set, as ref/
// does, so all of them give the same bits.
#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_squares.h"

#define UNIT 64         // elements per task
#define WORTH (1 << 14) // elements worth a thread
#define LINE 16         // fp32 elements in a cache line
// Elements between what is fetched and what is used, because the processor does not prefetch beyond
// a page.
#define AHEAD 256
#define LAG 64 // elements by which the copy lags the master
#define STREAMS 2
#define TOGETHER 2 // parts whose squares are summed together
// Elements from one sum to the place that is fetched for it.
#define SQUARES_AHEAD 4096

typedef struct update_job {
    int64_t n;
    zr_range_states at;
    // Arrays fetched ahead of their use, after the master: the states, or the direction. The master
    // repeats where there are fewer.
    const char *streams[STREAMS];
    float scale;                      // of the gradient or the direction
    float keep0, take0, keep1, take1; // state = keep*state + take*g
    float keep_p, step, root, epsilon, weight_decay, momentum;
    bool nesterov, first;
} update_job;

static update_job job_of(const zr_update *u, const zr_update_values *v, const zr_range_states *at)
{
    return (update_job){
        .n = u->n,
        .at = *at,
        .streams = {at->state0 ? at->state0 : (void *)at->master,
                    at->state1 ? at->state1 : (void *)at->master},
        .scale = v->gradient_scale,
        .keep0 = (float)v->beta1,
        .take0 = (float)(1 - v->beta1),
        .keep1 = (float)v->beta2,
        .take1 = (float)(1 - v->beta2),
        .keep_p = 1,
        .step = (float)v->lr,
        .epsilon = (float)u->epsilon,
        .weight_decay = (float)u->weight_decay,
        .momentum = (float)u->momentum,
        .nesterov = u->nesterov,
        .first = v->first,
    };
}

typedef struct job_types { // constants in each loop; copy: ZERO_F32 if no copy is wanted
    zero_dtype gradient, states, copy;
} job_types;

// Updates one vector, elements i .. i+left-1, but not its copy.
typedef void vector_body(const update_job *job, job_types types, int64_t i, int64_t left);

INLINE vf gradient_get(const update_job *job, job_types types, int64_t i, int64_t left)
{
    return vf_get_as(types.gradient, job->at.gradient, i, left) * job->scale;
}

// The gradient, and the weights' decay as a part of it.
INLINE vf decayed_gradient(const update_job *job, job_types types, int64_t i, int64_t left, vf p)
{
    return vf_scaled_plus(vf_get_as(types.gradient, job->at.gradient, i, left), job->scale,
                          p * job->weight_decay);
}

INLINE vf state0_get(const update_job *job, job_types types, int64_t i, int64_t left)
{
    return vf_get_as(types.states, job->at.state0, i, left);
}

INLINE vf state1_get(const update_job *job, job_types types, int64_t i, int64_t left)
{
    return vf_get_as(types.states, job->at.state1, i, left);
}

INLINE void copy_write(const update_job *job, zero_dtype copy, int64_t i, int64_t left)
{
    vf_put_as(copy, job->at.parameters, i, left, vf_get(job->at.master + i, left));
}

INLINE int64_t bytes_of(zero_dtype type) { return type == ZERO_F32 ? 4 : 2; }

INLINE void fetch_ahead(const update_job *job, job_types types, int64_t i)
{
    __builtin_prefetch(job->at.master + i + AHEAD, 1);
    for (int k = 0; k < STREAMS; k++)
        __builtin_prefetch(job->streams[k] + (i + AHEAD) * bytes_of(types.states), 1);
    __builtin_prefetch((const char *)job->at.gradient + (i + AHEAD) * bytes_of(types.gradient));
}

// The copy lags: if it rounded what has just been divided, the processor's queues would fill with
// instructions that wait for the divider.
INLINE void vectors_over(vector_body *body, update_job job, job_types types, int64_t i, int64_t end)
{
    const zero_dtype copy = types.copy;
    int64_t copied = i;
    for (; i + LINE <= end; i += LINE) {
        fetch_ahead(&job, types, i);
        for (int64_t k = 0; k < LINE; k += LANES)
            body(&job, types, i + k, LANES);
        if (copy != ZERO_F32 && i - copied >= LAG)
            for (int64_t to = copied + LINE; copied < to; copied += LANES)
                copy_write(&job, copy, copied, LANES);
    }
    for (; i < end; i += LANES)
        body(&job, types, i, end - i);
    for (; copy != ZERO_F32 && copied < end; copied += LANES)
        copy_write(&job, copy, copied, end - copied);
}

INLINE void states_over(vector_body *body, const update_job *job, zero_dtype gradient,
                        zero_dtype copy, int64_t i, int64_t end)
{
    if (job->at.states_dtype == ZERO_BF16)
        vectors_over(body, *job, (job_types){gradient, ZERO_BF16, copy}, i, end);
    else
        vectors_over(body, *job, (job_types){gradient, ZERO_F32, copy}, i, end);
}

// Runs the tasks of a job, in a separate loop for each combination of types.
INLINE void tasks_over(vector_body *body, const void *job_, int64_t first, int64_t last)
{
    const update_job *job = job_;
    int64_t i = first * UNIT, end = ZR_MIN(last * UNIT, job->n);
    zero_dtype copied = job->at.parameters ? job->at.parameters_dtype : ZERO_F32;
    WITH_TYPE(GRADIENT, job->at.gradient_dtype,
              WITH_TYPE(COPY, copied, states_over(body, job, GRADIENT, COPY, i, end)));
}

static void tasks_run(const zr_queue *queue, zr_cpu_body *body, const update_job *job)
{
    assert(!job->at.parameters || job->at.parameters_dtype != ZERO_F32);
    zr_cpu_for(queue, (job->n + UNIT - 1) / UNIT, WORTH / UNIT, body, job);
}

INLINE vf root_plus_epsilon(const update_job *job, vf v)
{
    return vf_scaled_plus(vf_sqrt(v), job->root, vf_all(job->epsilon));
}

INLINE void adam_vector(const update_job *job, job_types types, int64_t i, int64_t left)
{
    vf p = vf_get(job->at.master + i, left);
    vf g = decayed_gradient(job, types, i, left, p);
    vf m = vf_scaled_plus(state0_get(job, types, i, left), job->keep0, g * job->take0);
    vf v = vf_scaled_plus(state1_get(job, types, i, left), job->keep1, g * g * job->take1);
    vf_put_as(types.states, job->at.state0, i, left, m);
    vf_put_as(types.states, job->at.state1, i, left, v);
    vf_put(job->at.master + i, left,
           vf_scaled_plus(p, job->keep_p, -(job->step * m / root_plus_epsilon(job, v))));
}

static void adam_tasks(const void *job, int64_t first, int64_t last, int worker)
{
    tasks_over(adam_vector, job, first, last);
}

static void adam(zr_queue *queue, const zr_update *u, const zr_update_values *v,
                 const zr_range_states *at)
{
    update_job job = job_of(u, v, at);
    if (u->kind == ZR_UPDATE_ADAMW) {
        job.keep_p = (float)(1 - v->lr * u->weight_decay);
        job.weight_decay = 0;
    }
    job.step = (float)(v->lr / v->correction1);
    job.root = (float)(1 / sqrt(v->correction2));
    tasks_run(queue, adam_tasks, &job);
}

INLINE void sgd_vector(const update_job *job, job_types types, int64_t i, int64_t left)
{
    vf p = vf_get(job->at.master + i, left);
    vf g = decayed_gradient(job, types, i, left, p);
    if (job->momentum != 0) {
        vf buffer = job->first ? g
                               : vf_scaled_plus(state0_get(job, types, i, left), job->momentum,
                                                g * job->take0);
        vf_put_as(types.states, job->at.state0, i, left, buffer);
        g = job->nesterov ? vf_scaled_plus(buffer, job->momentum, g) : buffer;
    }
    vf_put(job->at.master + i, left, vf_scaled_plus(g, -job->step, p));
}

static void sgd_tasks(const void *job, int64_t first, int64_t last, int worker)
{
    tasks_over(sgd_vector, job, first, last);
}

static void sgd(zr_queue *queue, const zr_update *u, const zr_update_values *v,
                const zr_range_states *at)
{
    update_job job = job_of(u, v, at);
    job.take0 = (float)(1 - u->dampening);
    tasks_run(queue, sgd_tasks, &job);
}

INLINE void adagrad_vector(const update_job *job, job_types types, int64_t i, int64_t left)
{
    vf p = vf_get(job->at.master + i, left);
    vf g = decayed_gradient(job, types, i, left, p);
    vf s = vf_multiply_add(g, g, state0_get(job, types, i, left));
    vf_put_as(types.states, job->at.state0, i, left, s);
    vf_put(job->at.master + i, left, p - g * job->step / (vf_sqrt(s) + job->epsilon));
}

static void adagrad_tasks(const void *job, int64_t first, int64_t last, int worker)
{
    tasks_over(adagrad_vector, job, first, last);
}

static void adagrad(zr_queue *queue, const zr_update *u, const zr_update_values *v,
                    const zr_range_states *at)
{
    update_job job = job_of(u, v, at);
    tasks_run(queue, adagrad_tasks, &job);
}

INLINE void lion_vector(const update_job *job, job_types types, int64_t i, int64_t left)
{
    vf p = vf_get(job->at.master + i, left), g = gradient_get(job, types, i, left);
    vf m = state0_get(job, types, i, left);
    vf c = vf_scaled_plus(m, job->keep0, g * job->take0);
    // Zero stays zero, and NaN stays NaN.
    vf sign = vf_select(c > 0, vf_all(1), vf_select(c < 0, vf_all(-1), c));
    vf_put_as(types.states, job->at.state0, i, left, vf_scaled_plus(m, job->keep1, g * job->take1));
    vf_put(job->at.master + i, left, vf_scaled_plus(p, job->keep_p, -(sign * job->step)));
}

static void lion_tasks(const void *job, int64_t first, int64_t last, int worker)
{
    tasks_over(lion_vector, job, first, last);
}

static void lion(zr_queue *queue, const zr_update *u, const zr_update_values *v,
                 const zr_range_states *at)
{
    update_job job = job_of(u, v, at);
    job.keep_p = (float)(1 - v->lr * u->weight_decay);
    tasks_run(queue, lion_tasks, &job);
}

void ZR_CPU_TABLE(zr_cpu_update)(zr_queue *queue, const zr_update *update,
                                 const zr_update_values *values, float *master, void *state0,
                                 void *state1, float *scales0, float *scales1, const void *gradient,
                                 void *parameters)
{
    static void (*const by_kind[])(zr_queue *, const zr_update *, const zr_update_values *,
                                   const zr_range_states *) = {
        [ZR_UPDATE_ADAMW] = adam,      [ZR_UPDATE_ADAM_L2] = adam, [ZR_UPDATE_SGD] = sgd,
        [ZR_UPDATE_ADAGRAD] = adagrad, [ZR_UPDATE_LION] = lion,
    };
    static_assert(ZR_COUNT(by_kind) == ZR_UPDATE_KINDS, "each kind has a kernel");
    const zr_range_states at = {.master = master,
                                .state0 = state0,
                                .state1 = state1,
                                .states_dtype = update->states,
                                .scales0 = scales0,
                                .scales1 = scales1,
                                .gradient = gradient,
                                .gradient_dtype = update->gradient,
                                .parameters = parameters,
                                .parameters_dtype = update->parameters};
    if (update->states == ZERO_U8)
        ZR_CPU_TABLE(zr_cpu_update_blocks)(queue, update, values, &at);
    else
        by_kind[update->kind](queue, update, values, &at);
}

INLINE void lamb_vector(const update_job *job, job_types types, int64_t i, int64_t left)
{
    vf g = gradient_get(job, types, i, left);
    vf m = vf_scaled_plus(state0_get(job, types, i, left), job->keep0, g * job->take0);
    vf v = vf_scaled_plus(state1_get(job, types, i, left), job->keep1, g * g * job->take1);
    vf_put_as(types.states, job->at.state0, i, left, m);
    vf_put_as(types.states, job->at.state1, i, left, v);
    vf p = vf_get(job->at.master + i, left);
    vf_put(job->at.direction + i, left,
           vf_scaled_plus(p, job->weight_decay, m * job->step / root_plus_epsilon(job, v)));
}

static void lamb_tasks(const void *job, int64_t first, int64_t last, int worker)
{
    tasks_over(lamb_vector, job, first, last);
}

void ZR_CPU_TABLE(zr_cpu_lamb_direction)(zr_queue *queue, const zr_update *update,
                                         const zr_update_values *values, const float *master,
                                         void *state0, void *state1, const void *gradient,
                                         float *direction)
{
    const zr_range_states at = {.master = (float *)master,
                                .state0 = state0,
                                .state1 = state1,
                                .states_dtype = update->states,
                                .direction = direction,
                                .gradient = gradient,
                                .gradient_dtype = update->gradient};
    update_job job = job_of(update, values, &at);
    job.step = (float)(1 / values->correction1);
    job.root = (float)(1 / sqrt(values->correction2));
    tasks_run(queue, lamb_tasks, &job);
}

INLINE void subtract_vector(const update_job *job, job_types types, int64_t i, int64_t left)
{
    vf_put(job->at.master + i, left,
           vf_scaled_plus(vf_get(job->at.direction + i, left), -job->scale,
                          vf_get(job->at.master + i, left)));
}

static void subtract_tasks(const void *job, int64_t first, int64_t last, int worker)
{
    tasks_over(subtract_vector, job, first, last);
}

void ZR_CPU_TABLE(zr_cpu_subtract_scaled)(zr_queue *queue, const zr_update *update,
                                          const float *step, float *master, const float *direction,
                                          void *parameters)
{
    const update_job job = {.n = update->n,
                            .at = {.master = master,
                                   .direction = (float *)direction,
                                   .gradient = master, // never read
                                   .gradient_dtype = ZERO_F32,
                                   .parameters = parameters,
                                   .parameters_dtype = update->parameters},
                            .streams = {(const char *)direction, (const char *)direction},
                            .scale = *step};
    tasks_run(queue, subtract_tasks, &job);
}

// ---- sums of squares ----

typedef struct squares_job {
    const zr_squares *of;
    const void *g;
    double *sums;
} squares_job;

// Sums several parts at a time, because the additions of one part wait for each other longer than
// its elements take to arrive.
INLINE void squares_over(zero_dtype type, const squares_job *job, int64_t k, int64_t last)
{
    const int64_t line = type == ZERO_F32 ? LINE : 2 * LINE; // elements of a cache line
    for (; k + TOGETHER <= last; k += TOGETHER) {
        eight sum[TOGETHER] = {0};
        int64_t first[TOGETHER + 1], i = 0, all = ZR_SQUARES_CHUNK;
        for (int p = 0; p <= TOGETHER; p++)
            first[p] = zr_squares_part(job->of, k + p);
        for (int p = 0; p < TOGETHER; p++)
            all = ZR_MIN(all, first[p + 1] - first[p]);
        for (; i + line <= all; i += line)
#pragma GCC unroll 8
            for (int p = 0; p < TOGETHER; p++) {
                int64_t at = first[p] + i;
                __builtin_prefetch((const char *)job->g +
                                   (at + SQUARES_AHEAD) * (type == ZERO_F32 ? 4 : 2));
#pragma GCC unroll 8
                for (int64_t e = 0; e < line; e += 8)
                    squares_add(type, job->g, at + e, &sum[p]);
            }
        for (int p = 0; p < TOGETHER; p++)
            job->sums[k + p] =
                squares_finish(type, job->g, first[p], i, first[p + 1] - first[p], sum[p]);
    }
    for (; k < last; k++) {
        int64_t first = zr_squares_part(job->of, k);
        job->sums[k] = squares_finish(type, job->g, first, 0,
                                      zr_squares_part(job->of, k + 1) - first, (eight){0});
    }
}

static void squares_parts(const void *job_, int64_t first, int64_t last, int worker)
{
    const squares_job *job = job_;
    WITH_TYPE(TYPE, job->of->dtype, squares_over(TYPE, job, first, last));
}

void ZR_CPU_TABLE(zr_cpu_square_sums)(zr_queue *queue, const zr_squares *squares, const void *g,
                                      double *sums)
{
    const squares_job job = {.of = squares, .g = g, .sums = sums};
    zr_cpu_for(queue, zr_squares_parts(squares), 16, squares_parts, &job);
}

void ZR_CPU_TABLE(zr_cpu_square_sums_exact)(zr_queue *queue, const zr_square_parts *of,
                                            const zr_square_part *parts, const void *g,
                                            zr_exact *sums)
{
    zr_square_parts_add(queue, of, parts, g, sums);
}
