// A whole step in one call: the one loop over micro-batches. In a pipeline it runs this stage's
// list of actions (plan/pipeline/schedules.h), each of which is a pass of one chunk for one
// micro-batch.
#include "base/traffic.h"
#include "engine/interpret.h"
#include "engine/step.h"

#include <stdio.h>

// Makes the engine compute the action's micro-batch, in its set of the chunk's activations.
static void set_action(const zr_window_run *run, const zr_action *action)
{
    static const zero_tensors none;
    zero_engine *engine = run->engine;
    int k = action->micro_batch;
    int64_t accumulation = engine->plan->settings.accumulation;
    zr_step_begin_work(engine, action->chunk, k);
    if (zr_plan_is_asynchronous(engine->plan)) // else an overlapped update may read them
        zr_window_set_copies(run, action);
    engine->now.chunk = action->chunk;
    engine->now.micro_batch = k % accumulation;
    engine->now.turn = k;
    engine->now.set = k % engine->plan->chunks[action->chunk].buffers.sets;
    zr_step_set_micro_batch(engine, run->batches ? &run->batches[k] : &none,
                            &engine->steps.losses[k]);
    zr_step_set_values(engine, k / accumulation);
    if (action->act == ZR_ACT_FORWARD && action->chunk == 0)
        zr_tier_traffic_expect_micro_batch(engine, run->outdated && k == 0);
}

// A stage that does not know the targets of all stages cannot weigh its own, so all positions have
// to be targets.
static zero_status check_targets(const zero_engine *engine, zero_error *error)
{
    const struct zr_loss_weight *weight = &engine->view.weight;
    if (zr_plan_schedule(engine->plan) != ZR_PIPELINE_PIPEDREAM ||
        weight->targets == weight->positions)
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_USAGE,
        "pipedream: %lld of a micro-batch's %lld positions are targets, and the mean over "
        "a step's targets waits for all pipeline stages; libzero.loss_mean \"micro_batch\" would "
        "do, or 2bw",
        (long long)weight->targets, (long long)weight->positions);
}

static zero_status run_pass(zr_window_run *run, const zr_action *action, zero_error *error)
{
    zero_engine *engine = run->engine;
    zr_pass_kind kind = zr_action_pass(action);
    bool ends = zr_chunk_is_last(engine->plan, &engine->plan->chunks[action->chunk]) &&
                action->act == ZR_ACT_BACKWARD;
    set_action(run, action);
    bool outdated = run->outdated && action->micro_batch == 0;
    ZERO_TRY(zr_step_run_pass(engine, kind, zr_step_holds(engine, outdated), error));
    engine->now.loss = engine->steps.losses[action->micro_batch];
    if (!ends)
        return ZERO_OK;
    ZERO_TRY(check_targets(engine, error));
    return zr_step_add_loss(engine, error);
}

// Runs an action and records it with the number of its micro-batch, or of its step, in what the
// loop makes.
static zero_status run_action(zr_window_run *run, const zr_action *action, zero_error *error)
{
    static const zr_activity phases[] = {[ZR_ACT_FORWARD] = ZR_ACTIVITY_forward,
                                         [ZR_ACT_BACKWARD] = ZR_ACTIVITY_backward,
                                         [ZR_ACT_WEIGHT] = ZR_ACTIVITY_weight,
                                         [ZR_ACT_NORM] = ZR_ACTIVITY_step,
                                         [ZR_ACT_UPDATE] = ZR_ACTIVITY_step};
    _Static_assert((int)ZR_RECORD_CHUNKS >= (int)ZR_MOST_CHUNKS,
                   "each chunk has a number in records");
    zr_recorder *recorder = run->engine->recorder;
    int64_t begin = zr_recorder_begin(recorder);
    bool ends = action->act == ZR_ACT_NORM || action->act == ZR_ACT_UPDATE;
    int64_t of = ends ? run->engine->plan->settings.accumulation : 1;
    ZERO_TRY((ends ? zr_window_end_step : run_pass)(run, action, error));
    if (recorder)
        recorder->unit = -1;
    zr_recorder_add(recorder, phases[action->act], begin, 0, 0,
                    zr_record_action((int)(action->micro_batch / of), action->chunk));
    return ZERO_OK;
}

static zero_status run_actions(zr_window_run *run, const zr_action *actions, int count,
                               zero_error *error)
{
    for (int i = 0; i < count; i++) {
        zero_status status = run_action(run, &actions[i], error);
        if (status == ZERO_OK)
            continue;
        char what[64];
        snprintf(what, sizeof what, "%s of micro-batch %d", zr_act_name(actions[i].act),
                 actions[i].micro_batch);
        return zr_step_say_work(run->engine, actions[i].chunk, what, status, error);
    }
    zr_step_begin_work(run->engine, -1, -1);
    return ZERO_OK;
}

// Says whether this rank has the first or the last unit, which read the batches.
static bool reads_batches(const zr_plan *plan)
{
    const zr_chunk_plan *first = &plan->chunks[0], *last = &plan->chunks[plan->chunk_count - 1];
    return !plan->pipeline || first->number == 0 || zr_chunk_is_last(plan, last);
}

// Runs steps of a pipeline: one, or a window of an asynchronous schedule.
static zero_status run_pipeline(zr_window_run *run, zero_error *error)
{
    zero_engine *engine = run->engine;
    const zr_plan *plan = engine->plan;
    int64_t count = run->steps * plan->settings.accumulation;
    engine->steps.together = run->steps;
    ZERO_TRY(zr_step_tell(engine, NULL, error));
    zr_step_begin_sums(engine);
    for (int64_t k = 0; k < count && reads_batches(plan); k++)
        engine->now.samples = zr_samples_fold(&run->batches[k], engine->now.samples);
    run->outdated = zr_step_begin_gathers(engine);
    zr_grid_hash_reset(&engine->grid);
    for (int64_t t = 0; t < run->steps; t++)
        run->infos[t] = (zero_step_info){.step = engine->progress.step + t};
    bool asynchronous = zr_plan_is_asynchronous(plan);
    int action_count = plan->action_count;
    const zr_action *actions = asynchronous ? zr_window_begin(run, &action_count) : plan->actions;
    ZERO_TRY(run_actions(run, actions, action_count, error));
    if (asynchronous)
        return zr_window_end(run, error);
    engine->now.micro_batch = count;
    return zr_step_complete(engine, run->infos, error);
}

static zero_status check_call(const zero_engine *engine, const char *call,
                              const zero_tensors *batches, const zero_step_info *infos,
                              zero_error *error)
{
    ZERO_TRY(zr_engine_between_steps(engine, call, error));
    ZERO_TRY(zr_step_refuse_inference(engine, call, error));
    if (!infos || (!batches && reads_batches(engine->plan)))
        return zr_step_missing(call, infos ? "batches" : "info", error);
    return ZERO_OK;
}

zero_status zero_train_batch(zero_engine *engine, const zero_tensors *batches, int64_t count,
                             zero_step_info *info, zero_error *error)
{
    ZR_NEED(error, engine);
    int64_t accumulation = engine->plan->settings.accumulation;
    ZERO_TRY(check_call(engine, "zero_train_batch", batches, info, error));
    if (count != accumulation)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_train_batch: %lld micro-batches; a step has %lld "
                       "(gradient_accumulation_steps)",
                       (long long)count, (long long)accumulation);
    return zero_train_window(engine, batches, 1, info, error);
}

int64_t zero_window(const zero_engine *engine)
{
    return engine && zr_plan_is_asynchronous(engine->plan) ? engine->plan->pipeline->pipeline.steps
                                                           : 1;
}

zero_status zero_train_window(zero_engine *engine, const zero_tensors *batches, int64_t steps,
                              zero_step_info *infos, zero_error *error)
{
    ZR_NEED(error, engine);
    ZERO_TRY(check_call(engine, "zero_train_window", batches, infos, error));
    if (steps < 1 || steps > zero_window(engine))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_train_window: %lld steps; expected 1 to %lld (zero_window)",
                       (long long)steps, (long long)zero_window(engine));
    zr_window_run run = {.engine = engine, .batches = batches, .steps = steps, .infos = infos};
    if (engine->plan->pipeline)
        return zr_step_end_waits(engine, run_pipeline(&run, error), error);
    for (int64_t k = 0; k < engine->plan->settings.accumulation; k++) {
        double loss;
        ZERO_TRY(zero_forward(engine, &batches[k], &loss, error));
        ZERO_TRY(zero_backward(engine, error));
        ZERO_TRY(zero_step(engine, infos, error));
    }
    return ZERO_OK;
}
