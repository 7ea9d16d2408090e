// What optimizers do with weights and directions beside the elementwise updates: Muon's two walks,
// and the average of the weights. Bound by memory, one pass over each array.
//
// Invariant: an element's result depends neither on its place in a range nor on the number of
// threads.
#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_storage.h"

#define UNIT 64         // elements per task
#define WORTH (1 << 14) // elements worth a thread
#define AHEAD 256       // elements between what is fetched and what is used

typedef struct momentum_job {
    int64_t n;
    zero_dtype states, gradient_dtype;
    char *state0, *direction;
    const char *gradient;
    float scale, take; // of the gradient; of it into the state
    bool nesterov;
} momentum_job;

INLINE void momentum_over(const momentum_job *job, zero_dtype gradient, zero_dtype states,
                          int64_t i, int64_t end)
{
    const int64_t wide = gradient == ZERO_F32 ? 4 : 2, size = states == ZERO_F32 ? 4 : 2;
    const float take = job->take, scale = job->scale;
    for (; i < end; i += LANES) {
        int64_t left = end - i;
        __builtin_prefetch(job->gradient + (i + AHEAD) * wide);
        __builtin_prefetch(job->state0 + (i + AHEAD) * size, 1);
        __builtin_prefetch(job->direction + (i + AHEAD) * size, 1);
        vf g = vf_get_as(gradient, job->gradient, i, left) * scale,
           m = vf_get_as(states, job->state0, i, left);
        m = vf_scaled_plus(g - m, take, m);
        vf_put_as(states, job->state0, i, left, m);
        vf u = job->nesterov ? vf_scaled_plus(m - g, -take, m) : m;
        vf_put_as(states, job->direction, i, left, vf_rounded_to(ZERO_BF16, u));
    }
}

static void momentum_tasks(const void *job_, int64_t first, int64_t last, int worker)
{
    const momentum_job *job = job_;
    int64_t i = first * UNIT, end = ZR_MIN(last * UNIT, job->n);
    WITH_TYPE(GRADIENT, job->gradient_dtype,
              WITH_TYPE(STATES, job->states, momentum_over(job, GRADIENT, STATES, i, end)));
}

void ZR_CPU_TABLE(zr_cpu_momentum_direction)(zr_queue *queue, const zr_update *update,
                                             const zr_update_values *values, void *state0,
                                             const void *gradient, void *direction)
{
    const momentum_job job = {.n = update->n,
                              .states = update->states,
                              .gradient_dtype = update->gradient,
                              .state0 = state0,
                              .direction = direction,
                              .gradient = gradient,
                              .scale = values->gradient_scale,
                              .take = (float)(1 - update->momentum),
                              .nesterov = update->nesterov};
    zr_cpu_for(queue, (job.n + UNIT - 1) / UNIT, WORTH / UNIT, momentum_tasks, &job);
}

typedef struct orthogonal_job {
    int64_t n;
    zero_dtype states, parameters_dtype; // fp32 if there is no copy
    float keep, step;
    float *master;
    const char *direction;
    void *parameters;
} orthogonal_job;

INLINE void orthogonal_over(const orthogonal_job *job, zero_dtype states, zero_dtype copy,
                            int64_t i, int64_t end)
{
    const int64_t size = states == ZERO_F32 ? 4 : 2;
    const float keep = job->keep, step = job->step;
    for (; i < end; i += LANES) {
        int64_t left = end - i;
        __builtin_prefetch(job->master + i + AHEAD, 1);
        __builtin_prefetch(job->direction + (i + AHEAD) * size);
        vf p = vf_scaled_plus(vf_get(job->master + i, left), keep,
                              -(vf_get_as(states, job->direction, i, left) * step));
        vf_put(job->master + i, left, p);
        if (copy != ZERO_F32)
            vf_put_as(copy, job->parameters, i, left, p);
    }
}

static void orthogonal_tasks(const void *job_, int64_t first, int64_t last, int worker)
{
    const orthogonal_job *job = job_;
    int64_t i = first * UNIT, end = ZR_MIN(last * UNIT, job->n);
    WITH_TYPE(STATES, job->states,
              WITH_TYPE(COPY, job->parameters_dtype, orthogonal_over(job, STATES, COPY, i, end)));
}

void ZR_CPU_TABLE(zr_cpu_orthogonal_update)(zr_queue *queue, const zr_update *update,
                                            const float *factors, float *master,
                                            const void *direction, void *parameters)
{
    const orthogonal_job job = {.n = update->n,
                                .states = update->states,
                                .parameters_dtype = parameters ? update->parameters : ZERO_F32,
                                .keep = factors[0],
                                .step = factors[1],
                                .master = master,
                                .direction = direction,
                                .parameters = parameters};
    zr_cpu_for(queue, (job.n + UNIT - 1) / UNIT, WORTH / UNIT, orthogonal_tasks, &job);
}

typedef struct average_job {
    int64_t n;
    const float *master;
    float *average;
    float take;
} average_job;

static void average_tasks(const void *job_, int64_t first, int64_t last, int worker)
{
    const average_job *job = job_;
    int64_t end = ZR_MIN(last * UNIT, job->n);
    for (int64_t i = first * UNIT; i < end; i += LANES) {
        int64_t left = end - i;
        __builtin_prefetch(job->master + i + AHEAD);
        __builtin_prefetch(job->average + i + AHEAD, 1);
        vf e = vf_get(job->average + i, left), p = vf_get(job->master + i, left);
        vf_put(job->average + i, left, job->take == 1 ? p : vf_scaled_plus(p - e, job->take, e));
    }
}

void ZR_CPU_TABLE(zr_cpu_average)(zr_queue *queue, const zr_update *update,
                                  const zr_update_values *values, const float *master,
                                  float *average)
{
    const average_job job = {.n = update->n,
                             .master = master,
                             .average = average,
                             .take = values->first ? 1 : (float)(1 - update->average_decay)};
    zr_cpu_for(queue, (job.n + UNIT - 1) / UNIT, WORTH / UNIT, average_tasks, &job);
}
