// Asynchronous schedules: what a pipeline stage does at the end of a step, while other steps are
// under way, and how a window of steps begins and ends.
//
//   copies of the parameters   version v of a window lies in copy (first + v) mod versions
//   accumulators               those of step t of a window are t mod step_sums
//
// 2bw        NORM of step t: its sums go to all stages    UPDATE: with their total, which has come
// pipedream  UPDATE of step t: with the stage's own sums  and at the end of the window all stages
//                                                         add up the sums of all of its steps
//
// Every update changes the master, and writes parameters into the copy of its version.
#include "engine/buffers.h"
#include "engine/interpret.h"
#include "engine/step.h"
#include "plan/pipeline/tied_weights.h"

#include <string.h>

static int64_t step_of_action(const zero_engine *engine, const zr_action *action)
{
    return action->micro_batch / engine->plan->settings.accumulation;
}

void zr_window_set_copies(const zr_window_run *run, const zr_action *action)
{
    zero_engine *engine = run->engine;
    engine->versions.copy = (run->copy + action->version) % engine->plan->versions;
    engine->versions.sum_copy = (int)(step_of_action(engine, action) % engine->plan->step_sums);
}

// Brings late tied copies from the copy of the version before, because nothing new is due.
static void keep_replicas(zero_engine *engine, int before)
{
    const zr_plan *plan = engine->plan;
    for (int p = 0; p < plan->flat_param_count && before != engine->versions.copy; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        const zr_buffer_ref place = {ZR_BUFFER_PARAMETERS, flat_param->full_first};
        char *at = zr_buffer_at(engine, place);
        if (flat_param->late)
            memcpy(at, at + (before - engine->versions.copy) * plan->full_bytes,
                   (size_t)(plan->ranks * zr_flat_param_shard_bytes(flat_param)));
    }
}

// Takes the updates of owners `from` .. `end` - 1 into late tied copies of the current copy. Where
// there are none, the pass is empty.
static zero_status take_tied_weights(zero_engine *engine, int64_t from, int64_t end,
                                     zero_error *error)
{
    for (engine->now.turn = from; engine->now.turn < end; engine->now.turn++)
        ZERO_TRY(zr_step_run_pass(engine, ZR_PASS_TIED_WEIGHTS, 1u << ZR_CHANGED, error));
    return ZERO_OK;
}

// Makes late tied copies what they are after the update of a step.
static zero_status update_tied_copies(zr_window_run *run, int64_t step, zero_error *error)
{
    zero_engine *engine = run->engine;
    const zr_plan *plan = engine->plan;
    int64_t before = step ? zr_plan_tied_weights_taken(plan, step - 1) : 0,
            taken = zr_plan_tied_weights_taken(plan, step);
    if (taken == before)
        keep_replicas(engine, (int)((run->copy + step) % plan->versions));
    return take_tied_weights(engine, before, taken, error);
}

// Writes the version that the update makes. A skipped one makes it too: the weights as they are.
static zero_status make_parameter_version(zr_window_run *run, int64_t step, bool finite,
                                          zero_error *error)
{
    zero_engine *engine = run->engine;
    uint32_t update = finite ? 1u << ZR_FINITE | 1u << ZR_AT_ONCE : 0;
    update |= 1u << ZR_STALE | 1u << ZR_CHANGED;
    ZERO_TRY(zr_step_run_pass(engine, ZR_PASS_UPDATE, update, error));
    ZERO_TRY(update_tied_copies(run, step, error));
    engine->now.turn = step;
    ZERO_TRY(zr_engine_publish(engine, 1u << ZR_CHANGED, error));
    return zr_step_check_messages(engine, ZR_PASS_PUBLISH, NULL, error);
}

// Makes the update by the sums of a step, while those of a later one may be under way.
static zero_status update_with_sums_of_step(zr_window_run *run, int64_t step, zero_error *error)
{
    zero_engine *engine = run->engine;
    const zr_step_sums later = engine->sums;
    zero_step_info *info = &run->infos[step];
    engine->sums = engine->steps.sums[step];
    ZERO_TRY(zr_step_run_pass(engine, ZR_PASS_TOTAL, 0, error));
    ZERO_TRY(zr_step_begin_update(engine, info, error));
    ZERO_TRY(make_parameter_version(run, step, !info->skipped, error));
    ZERO_TRY(zr_step_end_update(engine, info, error));
    // A stage of pipedream skips updates by itself, but learning rate and checkpoints have one
    // count for all stages: that of steps.
    if (zr_plan_schedule(engine->plan) == ZR_PIPELINE_PIPEDREAM)
        engine->progress.updates += info->skipped;
    engine->sums = later;
    return ZERO_OK;
}

zero_status zr_window_end_step(zr_window_run *run, const zr_action *action, zero_error *error)
{
    zero_engine *engine = run->engine;
    int64_t step = step_of_action(engine, action);
    bool alone = zr_plan_schedule(engine->plan) == ZR_PIPELINE_PIPEDREAM;
    zr_window_set_copies(run, action);
    engine->now.turn = step;
    if (action->act == ZR_ACT_NORM || alone) {
        ZERO_TRY(zr_step_run_pass(engine, ZR_PASS_BOUNDARY, 0, error));
        engine->steps.sums[step] = engine->sums; // kept until the step's update
        engine->sums = (zr_step_sums){0};
    }
    return action->act == ZR_ACT_NORM ? ZERO_OK : update_with_sums_of_step(run, step, error);
}

// Adds up the stages' sums of each step (one stage has the loss) and describes the steps.
static zero_status describe_steps(zr_window_run *run, zero_error *error)
{
    zero_engine *engine = run->engine;
    int64_t at_once = ZR_COMM_SMALL_BYTES / (int64_t)sizeof *engine->steps.sums;
    for (int64_t t = 0; t < run->steps; t += at_once)
        ZERO_TRY(zr_comm_all_reduce_small(engine->grid.pipeline, &engine->steps.sums[t],
                                          ZR_MIN(at_once, run->steps - t) * ZR_STEP_SUMS_WORDS,
                                          ZERO_I64, ZR_SUM, error));
    for (int64_t t = 0; t < run->steps; t++) {
        double factor, lr = run->infos[t].lr;
        engine->sums = engine->steps.sums[t];
        zr_step_describe(engine, &run->infos[t], &factor);
        run->infos[t].lr = lr;
    }
    return ZERO_OK;
}

const zr_action *zr_window_begin(zr_window_run *run, int *count)
{
    zero_engine *engine = run->engine;
    const zr_plan *plan = engine->plan;
    zr_pipeline pipeline = plan->pipeline->pipeline;
    run->copy = engine->versions.copy;
    *count = plan->action_count;
    if (run->steps == pipeline.steps)
        return plan->actions;
    pipeline.steps = (int)run->steps;
    *count = zr_pipeline_list(&pipeline, plan->pipeline->stage, engine->steps.actions);
    return engine->steps.actions;
}

zero_status zr_window_end(zr_window_run *run, zero_error *error)
{
    zero_engine *engine = run->engine;
    // The next window's version 0: under 2bw it is one update older than the master, and the other
    // copy is the master's.
    engine->versions.copy = (int)((run->copy + run->steps) % engine->plan->versions);
    ZERO_TRY(take_tied_weights(engine, zr_plan_tied_weights_taken(engine->plan, run->steps - 1),
                               run->steps, error));
    engine->versions.lag = zr_plan_parameters_lag(engine->plan);
    int64_t difference = zr_samples_difference(engine);
    ZERO_TRY(zr_comm_all_reduce_small(engine->grid.world, &difference, 1, ZERO_I64, ZR_SUM, error));
    ZERO_TRY(zr_samples_settle(engine, difference, error));
    if (zr_plan_schedule(engine->plan) == ZR_PIPELINE_PIPEDREAM)
        ZERO_TRY(describe_steps(run, error));
    ZERO_TRY(zr_tier_traffic_check(engine, error));
    return zr_step_end(engine, run->infos, run->steps, error);
}
