// The observer of an engine. A step is recorded, if anything wants it, from step_begun to
// step_done, so that what happens between steps (evaluations, samples) neither fills the room nor
// appears in a table.
#include "monitor/observe.h"

#include "comm/agreement.h"
#include "monitor/sinks.h"

#include <stdio.h>
#include <string.h>

// A room that is only for what the run measures of itself: 7 MB.
enum { MOST_MEASURED_RECORDS = 1 << 17 };

enum {
    RECORDS_OF_VISIT = 64,
    RECORDS_OF_CHUNK = 8,
    RECORDS_OF_FLAT_PARAM = 16,
    RECORDS_OF_STEP = 256,
    CHUNK_ROWS = 16
};

static const zr_observe_sink *const our_sinks[] = {
    &zr_observe_monitors, &zr_observe_time,     &zr_observe_memory,
    &zr_observe_flops,    &zr_observe_messages,
};

struct zr_observation {
    zr_observed seen; // the observation owns all of it, except for the engine
    zero_logger logger;
    bool reports; // rank 0, and the configuration asks for something
    zr_step_range kept;
    zr_measured *measured; // NULL: nothing is measured
    // The steps that are under way are measured; none of them was skipped so far.
    bool measures, whole;
    const zr_observe_sinks *sinks;
    void *own[]; // (sinks->count)
};

static bool asks_for_any_sink(const zr_observe_sinks *sinks, const zr_config *config)
{
    for (int i = 0; i < sinks->count; i++)
        if (sinks->at[i]->is_asked(config))
            return true;
    return false;
}

static bool asks_for_records(const zr_observe_sinks *sinks, const zr_config *config)
{
    for (int i = 0; i < sinks->count; i++)
        if (sinks->at[i]->reads_records && sinks->at[i]->is_asked(config))
            return true;
    return false;
}

// Returns whether a sink is open. No sink is open on ranks that do not report.
static bool sink_is_open(const zr_observation *o, int sink)
{
    return o->reports && o->sinks->at[sink]->is_asked(o->seen.config);
}

// Whether a step is recorded for others than the run itself. Those before the kept ones are
// recorded too, to make sure that the room is large enough.
static bool is_recorded(const zr_observation *o, int64_t step)
{
    if (step <= o->kept.last)
        return true;
    for (int i = 0; i < o->sinks->count; i++)
        if (sink_is_open(o, i) && o->sinks->at[i]->wants(o->seen.config, step) == ZR_WANTS_RECORDS)
            return true;
    return false;
}

// Returns more records than units of our own models make, unless their rows are cut very fine. If
// the room is too small after all, it grows. together: steps that are recorded at once.
static int64_t records_expected(const zr_plan *plan, zr_step_range kept, int64_t together)
{
    int64_t rows = plan->shape.batch * plan->shape.seq;
    int64_t micro_batch = plan->visit_count * RECORDS_OF_VISIT +
                          rows / CHUNK_ROWS * RECORDS_OF_CHUNK +
                          plan->flat_param_count * RECORDS_OF_FLAT_PARAM;
    int64_t step = plan->settings.accumulation * micro_batch +
                   plan->tensor_count * RECORDS_OF_FLAT_PARAM + RECORDS_OF_STEP;
    return step * ZR_MAX(kept.first ? kept.last - kept.first + 1 : 1, together);
}

// Whether the room for records is only for what the run measures of itself.
static bool only_measures(const zr_observation *o)
{
    return !o->kept.first && !asks_for_records(o->sinks, o->seen.config);
}

zero_status zr_observed_log(const zr_observed *seen, const char *name, zr_buffer *text,
                            zero_error *error)
{
    char *line = text->data;
    if (text->failed) {
        zr_buffer_free(text);
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for what \"%s\" says", name);
    }
    while (line && *line) {
        size_t length = strcspn(line, "\n");
        zr_log(seen->logger, ZERO_LOG_INFO, "%-8s %.*s", name, (int)length, line);
        line += length + (line[length] == '\n');
    }
    zr_buffer_free(text);
    return ZERO_OK;
}

// Replaces a recorder that was too small by one with room for twice as many records, and copies
// what it held. Called between steps. What was not requested has a limit, and is not logged.
static zero_status grow_recorder(zr_observation *o, int64_t step, zero_error *error)
{
    zr_recorder *larger, *old = o->seen.recorder;
    int64_t room = 2 * (old->count + old->dropped);
    if (old->dropped == 0)
        return ZERO_OK;
    if (only_measures(o))
        room = ZR_MIN(room, MOST_MEASURED_RECORDS);
    else
        zr_log(&o->logger, ZERO_LOG_WARNING,
               "recording step %lld: %lld of %lld records found no room; the next steps have more",
               (long long)step, (long long)old->dropped, (long long)(old->count + old->dropped));
    if (room <= old->capacity)
        return ZERO_OK;
    ZERO_TRY(zr_recorder_create(room, &larger, error));
    memcpy(larger->records, old->records, (size_t)old->count * sizeof *old->records);
    larger->count = old->count;
    o->seen.recorder = larger;
    zr_recorder_destroy(old);
    return ZERO_OK;
}

static bool any_is_recorded(const zr_observation *o)
{
    for (int64_t step = o->seen.steps.first; step <= o->seen.steps.last; step++)
        if (is_recorded(o, step))
            return true;
    return false;
}

// Returns whether a step is reported to a sink: each step that it wants; but only the last of steps
// that were recorded together, if the sink reads their records.
static bool sink_is_due(const zr_observation *o, int sink, int64_t step)
{
    const zr_observe_sink *of = o->sinks->at[sink];
    int64_t first = of->reads_records ? o->seen.steps.first : step;
    if (!sink_is_open(o, sink) || (of->reads_records && step < o->seen.steps.last))
        return false;
    for (int64_t s = first; s <= step; s++)
        if (of->wants(o->seen.config, s) != ZR_WANTS_NOTHING)
            return true;
    return false;
}

static zero_status step_begun(void *user, zero_engine *engine, zero_error *error)
{
    zr_observation *o = user;
    int64_t done, micro_batch;
    zero_position(engine, &done, &micro_batch);
    o->seen.steps = (zr_step_range){done + 1, done + zr_engine_steps_together(engine)};
    o->seen.updates = zr_engine_progress(engine).updates;
    o->whole = true;
    o->measures = o->measured && zr_measured_begin(o->measured, zr_engine_steps_together(engine));
    if (!o->measures && !any_is_recorded(o))
        return ZERO_OK;
    if (done < o->kept.first || done >= o->kept.last)
        zr_recorder_clear(o->seen.recorder);
    o->seen.begun = o->seen.recorder->count;
    return zr_engine_record(engine, o->seen.recorder, error);
}

// Takes the records of steps that are over, if all of them are there and all updates were made.
static void take_measurements(zr_observation *o)
{
    const zr_step_range *steps = &o->seen.steps;
    if (o->measures && o->whole && o->seen.recorder->dropped == 0)
        zr_measured_take(o->measured, o->seen.recorder, o->seen.begun,
                         steps->last - steps->first + 1);
}

static zero_status observe_step_done(void *user, zero_engine *engine, const zero_step_info *info,
                                     zero_error *error)
{
    zr_observation *o = user;
    bool recorded = o->measures || any_is_recorded(o), last = info->step == o->seen.steps.last;
    // A stage of pipedream skips an update by itself, so all of them count it.
    bool alone = zr_plan_schedule(zr_engine_plan(engine)) == ZR_PIPELINE_PIPEDREAM;
    o->seen.updates += info->updated || alone;
    o->whole = o->whole && !info->skipped;
    if (recorded)
        ZERO_TRY(zr_engine_record(engine, NULL, error));
    if (last)
        take_measurements(o);
    for (int i = 0; i < o->sinks->count; i++)
        if (sink_is_due(o, i, info->step))
            ZERO_TRY(o->sinks->at[i]->step(o->own[i], &o->seen, info, error));
    return recorded && last ? grow_recorder(o, info->step, error) : ZERO_OK;
}

static void observation_free(zr_observation *o)
{
    for (int i = 0; i < o->sinks->count; i++)
        if (sink_is_open(o, i) && o->sinks->at[i]->close)
            o->sinks->at[i]->close(o->own[i], &o->seen);
    zr_recorder_destroy(o->seen.recorder);
    zr_free(o->seen.units);
    zr_free(o->seen.flat_params);
    zr_free(o);
}

static void destroy_observe(void *user, zero_engine *engine)
{
    zr_engine_record(engine, NULL, NULL);
    observation_free(user);
}

static zero_status fill_names(zr_observation *o, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(o->seen.engine);
    zr_observed *seen = &o->seen;
    seen->units = zr_alloc((size_t)plan->unit_count * sizeof *seen->units, error);
    seen->flat_params = zr_alloc((size_t)plan->flat_param_count * sizeof *seen->flat_params, error);
    if (!seen->units || !seen->flat_params)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < plan->unit_count; u++)
        seen->units[u] = plan->model->units[u].name;
    for (int p = 0; p < plan->flat_param_count; p++)
        seen->flat_params[p] = plan->flat_params[p].name;
    return ZERO_OK;
}

static zero_status open_recorder_and_sinks(zr_observation *o, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(o->seen.engine);
    ZERO_TRY(fill_names(o, error));
    if (plan->pipeline)
        snprintf(o->seen.of, sizeof o->seen.of, " of pipeline stage %d", plan->pipeline->stage);
    int64_t room = records_expected(plan, o->kept, zero_window(o->seen.engine));
    if (only_measures(o))
        room = o->measured ? ZR_MIN(room, MOST_MEASURED_RECORDS) : 0;
    if (room)
        ZERO_TRY(zr_recorder_create(room, &o->seen.recorder, error));
    for (int i = 0; i < o->sinks->count; i++)
        if (sink_is_open(o, i) && o->sinks->at[i]->open)
            ZERO_TRY(o->sinks->at[i]->open(&o->seen, &o->own[i], error));
    return ZERO_OK;
}

// Makes this rank's observation, or NULL if it has nothing to observe.
static zero_status make_observation(const zr_observe_sinks *sinks, zero_engine *engine,
                                    const zero_logger *logger, zr_step_range kept,
                                    zr_measured *measured, zr_observation **out, zero_error *error)
{
    const zr_config *config = zr_engine_config(engine);
    bool reports = zr_engine_comm(engine)->rank == 0 && asks_for_any_sink(sinks, config);
    if (!reports && !kept.first && !measured)
        return ZERO_OK;
    size_t own = (size_t)sinks->count * sizeof(void *);
    zr_observation *o = zr_alloc(sizeof *o + own, error);
    if (!o)
        return ZERO_ERR_MEMORY;
    o->seen = (zr_observed){.engine = engine, .config = config, .logger = &o->logger};
    o->logger = zr_engine_comm(engine)->rank == 0 ? *logger : (zero_logger){0};
    o->reports = reports;
    o->kept = kept;
    o->measured = measured;
    o->sinks = sinks;
    zero_status status = open_recorder_and_sinks(o, error);
    if (status == ZERO_OK)
        *out = o;
    else
        observation_free(o);
    return status;
}

// Frees the observation after a failure.
static zero_status free_unless_ok(zero_status status, zr_observation **out)
{
    if (status != ZERO_OK && *out) {
        observation_free(*out);
        *out = NULL;
    }
    return status;
}

zero_status zr_observe_by(const zr_observe_sinks *sinks, zero_engine *engine,
                          const zero_logger *logger, zr_step_range kept, zr_measured *measured,
                          zr_observation **out, zero_error *error)
{
    *out = NULL;
    if (!asks_for_any_sink(sinks, zr_engine_config(engine)) && !kept.first && !measured)
        return ZERO_OK;
    zero_comm *comm = zr_engine_comm(engine);
    zero_status made = make_observation(sinks, engine, logger, kept, measured, out, error);
    ZERO_TRY(free_unless_ok(zr_comm_agree(comm, made, error), out));
    if (*out) {
        const zr_observer observer = {
            .step_begun = step_begun,
            .step_done = observe_step_done,
            .destroy = destroy_observe,
            .user = *out,
        };
        return free_unless_ok(zr_engine_observe(engine, &observer, error), out);
    }
    return ZERO_OK;
}

zero_status zr_observe(zero_engine *engine, const zero_logger *logger, zr_step_range kept,
                       zr_measured *measured, zr_observation **out, zero_error *error)
{
    static const zr_observe_sinks ours = {our_sinks, ZR_COUNT(our_sinks)};
    return zr_observe_by(&ours, engine, logger, kept, measured, out, error);
}

void zr_observation_evaluated(zr_observation *o, int64_t step, double loss)
{
    for (int i = 0; o && i < o->sinks->count; i++)
        if (sink_is_open(o, i) && o->sinks->at[i]->evaluated)
            o->sinks->at[i]->evaluated(o->own[i], &o->seen, step, loss);
}

void zr_observation_owes(zr_observation *o)
{
    for (int i = 0; o && i < o->sinks->count; i++)
        if (sink_is_open(o, i) && o->sinks->at[i]->owes)
            o->sinks->at[i]->owes(o->own[i]);
}

const zr_recorder *zr_observation_kept(const zr_observation *observation)
{
    return observation->seen.recorder;
}

const char *const *zr_observation_units(const zr_observation *observation)
{
    return observation->seen.units;
}

const char *const *zr_observation_flat_params(const zr_observation *observation)
{
    return observation->seen.flat_params;
}
