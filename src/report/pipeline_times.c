// Every action of a pipeline is one record of a phase, in the order of the stage's list; where that
// has no updates, the record of the update follows. What a rank waits for others is recorded inside
// of them. Ranks tell each other nanoseconds, as integers.
#include "report/pipeline_times.h"

#include "base/clock.h"
#include "base/recorder.h"
#include "comm/agreement.h"
#include "engine/engine_api.h"

#include <math.h>

enum { RECORDS = 1 << 16 }; // of a step

typedef struct measuring {
    zero_comm *world;
    zero_engine *engine;
    const zr_plan *plan;
    zr_recorder *recorder;
    int chunks;    // of the whole model
    int64_t steps; // of what is made in one call
    int64_t *cost; // (chunks, ZR_ACT_COUNT) then the update, then the step: sums over the calls
    int64_t busy;  // of all phases, without waits
} measuring;

static int64_t *update_cost(const measuring *m) { return &m->cost[m->chunks * ZR_ACT_COUNT]; }
static int64_t *step_cost(const measuring *m) { return update_cost(m) + 1; }

// Returns the nanoseconds of a phase without the waits inside of it, which stand before it.
static int64_t without_waits(const zr_recorder *recorder, int64_t i)
{
    const zr_record *phase = &recorder->records[i];
    int64_t own = phase->end - phase->begin;
    for (int64_t k = i - 1; k >= 0 && zr_recorder_is_within(recorder, k, phase); k--)
        if (recorder->records[k].what == ZR_ACTIVITY_wait)
            own -= recorder->records[k].end - recorder->records[k].begin;
    return own;
}

static int64_t *action_cost(const measuring *m, const zr_action *action)
{
    const zr_pipeline_part *part = m->plan->pipeline;
    int chunk = zr_pipeline_chunk(&part->pipeline, part->stage, action->chunk);
    return &m->cost[chunk * ZR_ACT_COUNT + action->act];
}

// Adds what was recorded of one step, or window.
static zero_status add_records(measuring *m, zero_error *error)
{
    const zr_recorder *recorder = m->recorder;
    int phase = 0, phases = m->plan->action_count + !zr_plan_is_asynchronous(m->plan);
    if (recorder->dropped > 0)
        return zr_fail(error, ZERO_ERR_LIMIT,
                       "recording %lld steps of a pipeline: %lld records, there is room for %lld",
                       (long long)m->steps, (long long)(recorder->count + recorder->dropped),
                       (long long)m->steps * RECORDS);
    for (int64_t i = 0; i < recorder->count; i++) {
        if (zr_activity_track(recorder->records[i].what) != ZR_TRACK_PHASE)
            continue;
        int64_t own = without_waits(recorder, i);
        bool action = phase < m->plan->action_count;
        *(action ? action_cost(m, &m->plan->actions[phase]) : update_cost(m)) += own;
        m->busy += own;
        phase++;
    }
    if (phase != phases)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "recording steps of a pipeline: %d phases, expected %d", phase, phases);
    return ZERO_OK;
}

static zero_status record_step(measuring *m, zr_timed_work step, void *user, zero_error *error)
{
    zr_recorder_clear(m->recorder);
    ZERO_TRY(zr_comm_barrier(m->world, error));
    ZERO_TRY(zr_engine_record(m->engine, m->recorder, error));
    int64_t begin = zr_clock_nanoseconds();
    ZERO_TRY(step(user, error));
    int64_t taken = zr_clock_nanoseconds() - begin;
    ZERO_TRY(zr_engine_record(m->engine, NULL, error));
    ZERO_TRY(zr_comm_all_reduce_small(m->world, &taken, 1, ZERO_I64, ZR_MAX, error));
    *step_cost(m) += taken;
    return add_records(m, error);
}

// Computes means from the sums, after the ranks have told each other theirs.
static zero_status compute_means(measuring *m, int calls, zr_pipeline_times *out, zero_error *error)
{
    double seconds = 1e-9 / (double)(calls * m->steps);
    ZERO_TRY(zr_comm_all_reduce_small(m->world, m->cost, m->chunks * ZR_ACT_COUNT + 2, ZERO_I64,
                                      ZR_MAX, error));
    ZERO_TRY(zr_comm_all_reduce_small(m->world, &m->busy, 1, ZERO_I64, ZR_SUM, error));
    int micro_batches = m->plan->pipeline->pipeline.micro_batches;
    out->step = (double)*step_cost(m) * seconds;
    out->update = (double)*update_cost(m) * seconds;
    for (int c = 0; c < m->chunks; c++)
        for (int act = 0; act < ZR_ACT_COUNT; act++) {
            double of_step = (double)m->cost[c * ZR_ACT_COUNT + act] * seconds;
            bool of_micro_batch = act < ZR_ACT_NORM;
            out->cost[c].act[act] = of_micro_batch ? of_step / micro_batches : of_step;
            out->update = act == ZR_ACT_UPDATE ? fmax(out->update, of_step) : out->update;
        }
    out->bubble = 1 - (double)m->busy * seconds / (out->step * m->plan->world);
    return ZERO_OK;
}

// Simulates a step, which its update follows, or a window, whose updates are among its actions.
static zero_status simulate_measured_costs(const zr_pipeline *pipeline, zr_pipeline_times *out,
                                           zero_error *error)
{
    double after = zr_pipeline_is_asynchronous(pipeline->kind) ? 0 : out->update;
    zr_simulation simulation;
    double begin = zr_clock_seconds();
    zero_status status = zr_simulate(pipeline, NULL, out->cost, &simulation, error);
    out->simulating = zr_clock_seconds() - begin;
    double total = simulation.total / pipeline->steps;
    out->simulated = total + after;
    out->simulated_bubble = simulation.bubble * total / out->simulated;
    zr_simulation_free(&simulation);
    return status;
}

static zero_status measure_and_simulate(measuring *m, int calls, zr_timed_work step, void *user,
                                        zr_pipeline_times *out, zero_error *error)
{
    for (int i = 0; i < calls; i++)
        ZERO_TRY(record_step(m, step, user, error));
    ZERO_TRY(compute_means(m, calls, out, error));
    return simulate_measured_costs(&m->plan->pipeline->pipeline, out, error);
}

static zero_status allocate_costs(measuring *m, zr_pipeline_times *out, zero_error *error)
{
    ZERO_TRY(zr_recorder_create(m->steps * RECORDS, &m->recorder, error));
    m->cost = zr_alloc((size_t)(m->chunks * ZR_ACT_COUNT + 2) * sizeof *m->cost, error);
    out->cost = zr_alloc((size_t)m->chunks * sizeof *out->cost, error);
    return m->cost && out->cost ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_pipeline_times_measure(zero_comm *world, zero_engine *engine, int calls,
                                      zr_timed_work step, void *user, zr_pipeline_times *out,
                                      zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(engine);
    const zr_pipeline *pipeline = &plan->pipeline->pipeline;
    measuring m = {.world = world,
                   .engine = engine,
                   .plan = plan,
                   .steps = zero_window(engine),
                   .chunks = pipeline->stages * pipeline->chunks};
    *out = (zr_pipeline_times){.chunks = m.chunks};
    zero_status status = zr_comm_agree(world, allocate_costs(&m, out, error), error);
    if (status == ZERO_OK)
        status = measure_and_simulate(&m, calls, step, user, out, error);
    zr_free(m.cost);
    zr_recorder_destroy(m.recorder);
    return status;
}

void zr_pipeline_times_free(zr_pipeline_times *times)
{
    zr_free(times->cost);
    *times = (zr_pipeline_times){0};
}
