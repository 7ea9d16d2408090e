// Every action of a pipeline is one record of a phase, in the order of the stage's list; the record
// of the update follows. What a rank waits for others is recorded inside of them. Ranks tell each
// other nanoseconds, as integers.
#include "tools/pipeline_times.h"

#include "base/clock.h"
#include "base/recorder.h"
#include "comm/agree.h"
#include "engine/engine_inner.h"

enum { RECORDS = 1 << 16, PARTS = ZR_ACT_WEIGHT + 1 }; // of a step; acts that have a cost

typedef struct measuring {
    zero_comm *world;
    zero_engine *engine;
    const zr_plan *plan;
    zr_recorder *recorder;
    int chunks;    // of the whole model
    int64_t *cost; // (chunks, PARTS) then the update, then the step: sums over the steps
    int64_t busy;  // of all phases, without waits
} measuring;

static int64_t *update_of(const measuring *m) { return &m->cost[m->chunks * PARTS]; }
static int64_t *step_of(const measuring *m) { return &m->cost[m->chunks * PARTS + 1]; }

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

static int64_t *cost_of(const measuring *m, const zr_action *action)
{
    const zr_pipeline_part *part = m->plan->pipeline;
    int chunk = zr_pipeline_chunk(&part->pipeline, part->stage, action->chunk);
    return &m->cost[chunk * PARTS + action->act];
}

// Adds what was recorded of one step.
static zero_status add_records(measuring *m, zero_error *error)
{
    const zr_recorder *recorder = m->recorder;
    int phase = 0;
    if (recorder->dropped > 0)
        return zr_fail(error, ZERO_ERR_LIMIT,
                       "recording a step of a pipeline: %lld records, there is room for %d",
                       (long long)(recorder->count + recorder->dropped), RECORDS);
    for (int64_t i = 0; i < recorder->count; i++) {
        if (zr_activity_track(recorder->records[i].what) != ZR_TRACK_PHASE)
            continue;
        int64_t own = without_waits(recorder, i);
        bool action = phase < m->plan->action_count;
        *(action ? cost_of(m, &m->plan->actions[phase]) : update_of(m)) += own;
        m->busy += own;
        phase++;
    }
    if (phase != m->plan->action_count + 1)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "recording a step of a pipeline: %d phases, %d actions and an update", phase,
                       m->plan->action_count);
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
    *step_of(m) += taken;
    return add_records(m, error);
}

// Computes means from the sums, after the ranks have told each other theirs.
static zero_status fill(measuring *m, int steps, zr_pipeline_times *out, zero_error *error)
{
    double seconds = 1e-9 / steps;
    ZERO_TRY(zr_comm_all_reduce_small(m->world, m->cost, m->chunks * PARTS + 2, ZERO_I64, ZR_MAX,
                                      error));
    ZERO_TRY(zr_comm_all_reduce_small(m->world, &m->busy, 1, ZERO_I64, ZR_SUM, error));
    int micro_batches = m->plan->pipeline->pipeline.micro_batches;
    for (int c = 0; c < m->chunks; c++)
        for (int act = 0; act < PARTS; act++)
            out->cost[c].act[act] = (double)m->cost[c * PARTS + act] * seconds / micro_batches;
    out->step = (double)*step_of(m) * seconds;
    out->update = (double)*update_of(m) * seconds;
    out->bubble = 1 - (double)m->busy * seconds / (out->step * m->plan->world);
    return ZERO_OK;
}

static zero_status simulate(const zr_pipeline *pipeline, zr_pipeline_times *out, zero_error *error)
{
    zr_simulation simulation;
    double begin = zr_clock_seconds();
    zero_status status = zr_simulate(pipeline, NULL, out->cost, &simulation, error);
    out->simulating = zr_clock_seconds() - begin;
    out->simulated = simulation.total + out->update;
    out->simulated_bubble = simulation.bubble * simulation.total / out->simulated;
    zr_simulation_free(&simulation);
    return status;
}

static zero_status measure(measuring *m, int steps, zr_timed_work step, void *user,
                           zr_pipeline_times *out, zero_error *error)
{
    for (int i = 0; i < steps; i++)
        ZERO_TRY(record_step(m, step, user, error));
    ZERO_TRY(fill(m, steps, out, error));
    return simulate(&m->plan->pipeline->pipeline, out, error);
}

static zero_status allocate(measuring *m, zr_pipeline_times *out, zero_error *error)
{
    ZERO_TRY(zr_recorder_create(RECORDS, &m->recorder, error));
    m->cost = zr_alloc((size_t)(m->chunks * PARTS + 2) * sizeof *m->cost, error);
    out->cost = zr_alloc((size_t)m->chunks * sizeof *out->cost, error);
    return m->cost && out->cost ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_pipeline_times_measure(zero_comm *world, zero_engine *engine, int steps,
                                      zr_timed_work step, void *user, zr_pipeline_times *out,
                                      zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(engine);
    const zr_pipeline *pipeline = &plan->pipeline->pipeline;
    measuring m = {.world = world,
                   .engine = engine,
                   .plan = plan,
                   .chunks = pipeline->stages * pipeline->chunks};
    *out = (zr_pipeline_times){.chunks = m.chunks};
    zero_status status = zr_comm_agree(world, allocate(&m, out, error), error);
    if (status == ZERO_OK)
        status = measure(&m, steps, step, user, out, error);
    zr_free(m.cost);
    zr_recorder_destroy(m.recorder);
    return status;
}

void zr_pipeline_times_free(zr_pipeline_times *times)
{
    zr_free(times->cost);
    *times = (zr_pipeline_times){0};
}
