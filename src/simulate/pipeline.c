// The seconds of a pipeline's step, by the lists of its schedule.
#include "simulate/costs.h"

#include "base/alloc.h"
#include "plan/pipeline/simulate.h"

enum {
    ROUNDS = 3,      // micro-batches that are simulated, as a multiple of the stages
    LISTED = 128,    // chunks of the model whose lists are made at most
    FLUSH_EVERY = 8, // steps of a window, unless libzero.pipeline.flush_every says others
    WINDOW = 8,      // steps of a window that are simulated at most
};

// The micro-batches that are simulated: some rounds of all stages.
static int simulated_micro_batches(const zr_sim_pipeline *pipeline)
{
    int64_t most = (int64_t)ROUNDS * pipeline->stages,
            count = ZR_MIN(pipeline->micro_batches, most);
    if (pipeline->kind == ZR_PIPELINE_INTERLEAVED)
        count = ZR_ROUND_UP(count, (int64_t)pipeline->stages);
    if (pipeline->kind == ZR_PIPELINE_2BW)
        count = ZR_MAX(count, pipeline->stages);
    return (int)count;
}

// Seconds of chunk g of the model. Half of backward computes the weights' gradients, which zb-h1
// runs separately.
static zr_chunk_cost chunk_cost_of(const zr_sim_pipeline *pipeline, int g)
{
    bool last = g == pipeline->stages * pipeline->chunks - 1;
    double forward = pipeline->forward / pipeline->chunks + (last ? pipeline->last / 3 : 0);
    double backward = pipeline->backward / pipeline->chunks + (last ? pipeline->last * 2 / 3 : 0);
    zr_chunk_cost cost = {.send = pipeline->message, .send_back = pipeline->message};
    bool apart = zr_pipeline_has_weights(pipeline->kind);
    cost.act[ZR_ACT_FORWARD] = forward;
    cost.act[ZR_ACT_BACKWARD] = apart ? backward / 2 : backward;
    cost.act[ZR_ACT_WEIGHT] = apart ? backward / 2 : 0;
    return cost;
}

// Steps after which the pipeline is empty.
static int steps_per_window(const zr_sim_pipeline *pipeline)
{
    if (!zr_pipeline_is_asynchronous(pipeline->kind))
        return 1;
    return pipeline->flush_every > 0 ? pipeline->flush_every : FLUSH_EVERY;
}

// Simulates `steps` steps of `count` micro-batches.
static zero_status simulate_steps(const zr_sim_pipeline *pipeline, int steps, int micro_batches,
                                  const zr_chunk_cost *costs, double *seconds, zero_error *error)
{
    const zr_pipeline lists = {.kind = pipeline->kind,
                               .stages = pipeline->stages,
                               .chunks = pipeline->chunks,
                               .micro_batches = micro_batches,
                               .steps = steps};
    zr_simulation simulation;
    zero_status status = zr_simulate(&lists, NULL, costs, &simulation, error);
    *seconds = simulation.total;
    zr_simulation_free(&simulation);
    return status;
}

// Finds the mean seconds of the steps of a window. The steps after the simulated ones continue at
// the pace of the last of these.
static zero_status find_mean_step(const zr_sim_pipeline *pipeline, int micro_batches,
                                  const zr_chunk_cost *costs, double *seconds, zero_error *error)
{
    int window = steps_per_window(pipeline), steps = ZR_MIN(window, WINDOW);
    double fewer, all;
    ZERO_TRY(simulate_steps(pipeline, steps, micro_batches, costs, &all, error));
    if (steps < window) {
        ZERO_TRY(simulate_steps(pipeline, steps - 1, micro_batches, costs, &fewer, error));
        all += (window - steps) * (all - fewer);
    }
    *seconds = all / window;
    return ZERO_OK;
}

// Simulates the first micro-batches, and continues at the pace of the last of them.
static zero_status simulate_and_extrapolate(const zr_sim_pipeline *pipeline,
                                            const zr_chunk_cost *costs, double *seconds,
                                            zero_error *error)
{
    int count = simulated_micro_batches(pipeline), p = pipeline->stages;
    double fewer, pace = pipeline->forward + pipeline->backward + pipeline->last;
    ZERO_TRY(find_mean_step(pipeline, count, costs, seconds, error));
    if (count < pipeline->micro_batches) {
        ZERO_TRY(find_mean_step(pipeline, count - p, costs, &fewer, error));
        pace = (*seconds - fewer) / p;
    }
    *seconds += (double)(pipeline->micro_batches - count) * pace;
    return ZERO_OK;
}

// The closed forms of the schedules: all micro-batches in the slowest pipeline stage, and one
// micro-batch through all the others. Interleaving divides the latter by the chunks, zb-h1 by
// three, and an asynchronous schedule by the steps of the window.
static double closed_form_seconds(const zr_sim_pipeline *pipeline)
{
    double both = pipeline->forward + pipeline->backward;
    double through = both / pipeline->chunks + 2 * pipeline->message;
    if (pipeline->kind == ZR_PIPELINE_ZB_H1)
        through -= pipeline->backward;
    through /= steps_per_window(pipeline);
    return (double)pipeline->micro_batches * (both + pipeline->last) +
           (pipeline->stages - 1) * through;
}

zero_status zr_sim_pipeline_find(const zr_sim_pipeline *pipeline, double *seconds,
                                 zero_error *error)
{
    int chunks = pipeline->stages * pipeline->chunks;
    if (chunks > LISTED || pipeline->chunks > ZR_MOST_CHUNKS) {
        *seconds = closed_form_seconds(pipeline);
        return ZERO_OK;
    }
    zr_chunk_cost *costs = zr_alloc((size_t)chunks * sizeof *costs, error);
    if (!costs)
        return ZERO_ERR_MEMORY;
    for (int g = 0; g < chunks; g++)
        costs[g] = chunk_cost_of(pipeline, g);
    zero_status status = simulate_and_extrapolate(pipeline, costs, seconds, error);
    zr_free(costs);
    return status;
}
