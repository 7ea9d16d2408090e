// Whole steps in one call: the one loop over micro-batches. In a pipeline it runs this stage's list
// of actions (plan/pipeline/schedules.h), each of which is a pass of one chunk for one micro-batch.
//
// Asynchronous schedules: a window of steps begins and ends, and a step ends while other steps are
// under way:
//
//   copies of the parameters   version v of a window lies in copy (first + v) mod versions
//   accumulators               those of step t of a window are t mod step_sums
//
// 2bw        NORM of step t: its sums go to all stages    UPDATE: with their total, which has come
// pipedream  UPDATE of step t: with the stage's own sums  and at the end of the window all stages
//                                                         add up the sums of all of its steps
//
// Every update changes the master, and writes parameters into the copy of its version.
#include "engine/far_check.h"
#include "engine/step.h"
#include "plan/pipeline/tied_weights.h"

#include <stdio.h>
#include <string.h>

static int64_t step_of_action(const zero_engine *engine, const zr_action *action)
{
    return action->micro_batch / engine->plan->settings.accumulation;
}

// Selects the copies of parameters and accumulators that the action reads, or that UPDATE writes.
static void set_copies(zero_engine *engine, const zr_action *action)
{
    engine->versions.copy = (engine->steps.copy + action->version) % engine->plan->versions;
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
            zr_engine_run_aside(
                engine, zr_op_copy(&(zr_bytes){plan->ranks * zr_flat_param_shard_bytes(flat_param)},
                                   at + (before - engine->versions.copy) * plan->full_bytes, at));
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
static zero_status update_tied_copies(zero_engine *engine, int64_t step, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    int64_t before = step ? zr_plan_tied_weights_taken(plan, step - 1) : 0,
            taken = zr_plan_tied_weights_taken(plan, step);
    if (taken == before)
        keep_replicas(engine, (int)((engine->steps.copy + step) % plan->versions));
    return take_tied_weights(engine, before, taken, error);
}

// Writes the version that the update makes. A skipped one makes it too: the weights as they are.
static zero_status make_parameter_version(zero_engine *engine, int64_t step, bool finite,
                                          zero_error *error)
{
    uint32_t update = finite ? 1u << ZR_FINITE | 1u << ZR_AT_ONCE : 0;
    update |= 1u << ZR_STALE | 1u << ZR_CHANGED;
    ZERO_TRY(zr_step_run_pass(engine, ZR_PASS_UPDATE, update, error));
    ZERO_TRY(update_tied_copies(engine, step, error));
    engine->now.turn = step;
    ZERO_TRY(zr_engine_publish(engine, 1u << ZR_CHANGED, error));
    return zr_step_check_messages(engine, ZR_PASS_PUBLISH, NULL, error);
}

// Makes the update by the sums of a step, while those of a later one may be under way.
static zero_status update_with_sums_of_step(zero_engine *engine, int64_t step, zero_error *error)
{
    const zr_step_sums later = engine->sums;
    zero_step_info *info = &engine->steps.infos[step];
    engine->sums = engine->steps.sums[step];
    ZERO_TRY(zr_step_run_pass(engine, ZR_PASS_TOTAL, 0, error));
    ZERO_TRY(zr_step_begin_update(engine, info, error));
    ZERO_TRY(make_parameter_version(engine, step, !info->skipped, error));
    ZERO_TRY(zr_step_end_update(engine, info, error));
    // A stage of pipedream skips updates by itself, but learning rate and checkpoints have one
    // count for all stages: that of steps.
    if (zr_plan_schedule(engine->plan) == ZR_PIPELINE_PIPEDREAM)
        engine->progress.updates += info->skipped;
    engine->sums = later;
    return ZERO_OK;
}

// Runs NORM or UPDATE.
static zero_status end_step(zero_engine *engine, const zr_action *action, zero_error *error)
{
    int64_t step = step_of_action(engine, action);
    bool alone = zr_plan_schedule(engine->plan) == ZR_PIPELINE_PIPEDREAM;
    set_copies(engine, action);
    engine->now.turn = step;
    if (action->act == ZR_ACT_NORM || alone) {
        ZERO_TRY(zr_step_run_pass(engine, ZR_PASS_BOUNDARY, 0, error));
        engine->steps.sums[step] = engine->sums; // kept until the step's update
        engine->sums = (zr_step_sums){0};
        zr_norms_begin_step(engine);
    }
    return action->act == ZR_ACT_NORM ? ZERO_OK : update_with_sums_of_step(engine, step, error);
}

// Adds up the stages' sums of each step (one stage has the loss) and describes the steps.
static zero_status describe_steps(zero_engine *engine, zero_error *error)
{
    const zr_steps *steps = &engine->steps;
    ZERO_TRY(zr_sum_words(engine->grid.pipeline, steps->sums, steps->together, ZR_STEP_SUMS_WORDS,
                          error));
    for (int64_t t = 0; t < steps->together; t++) {
        double factor, lr = steps->infos[t].lr;
        engine->sums = steps->sums[t];
        zr_step_describe(engine, &steps->infos[t], &factor);
        steps->infos[t].lr = lr;
    }
    return ZERO_OK;
}

// Begins a window of an asynchronous schedule: returns the actions (*count) of this stage, written
// anew if the window has fewer steps than the plan.
static const zr_action *begin_window(zero_engine *engine, int *count)
{
    const zr_plan *plan = engine->plan;
    zr_pipeline pipeline = plan->pipeline->pipeline;
    engine->steps.copy = engine->versions.copy;
    *count = plan->action_count;
    if (engine->steps.together == pipeline.steps)
        return plan->actions;
    pipeline.steps = (int)engine->steps.together;
    *count = zr_pipeline_list(&pipeline, plan->pipeline->stage, engine->steps.actions);
    return engine->steps.actions;
}

// Ends the window, and its steps, after its last action.
static zero_status end_window(zero_engine *engine, zero_error *error)
{
    const zr_steps *steps = &engine->steps;
    const zr_plan *plan = engine->plan;
    // The next window's version 0: under 2bw it is one update older than the master, and the other
    // copy is the master's.
    engine->versions.copy = (int)((steps->copy + steps->together) % plan->versions);
    ZERO_TRY(take_tied_weights(engine, zr_plan_tied_weights_taken(plan, steps->together - 1),
                               steps->together, error));
    engine->versions.lag = zr_plan_parameters_lag(plan);
    int64_t difference = zr_samples_difference(engine);
    ZERO_TRY(zr_comm_all_reduce_small(engine->grid.world, &difference, 1, ZERO_I64, ZR_SUM, error));
    ZERO_TRY(zr_samples_settle(engine, difference, error));
    if (zr_plan_schedule(plan) == ZR_PIPELINE_PIPEDREAM)
        ZERO_TRY(describe_steps(engine, error));
    ZERO_TRY(zr_tier_traffic_check(engine, error));
    return zr_step_end(engine, steps->infos, steps->together, error);
}

void zr_step_begin_work(zero_engine *engine, int chunk, int micro_batch)
{
    const zr_pipeline_part *part = engine->plan->pipeline;
    const zr_work work = {.stage = part->stage,
                          .stages = part->pipeline.stages,
                          .chunk = chunk,
                          .micro_batch = micro_batch};
    zr_comm_report_work(engine->grid.world, &work);
}

zero_status zr_step_say_work(const zero_engine *engine, int chunk, const char *what,
                             zero_status status, zero_error *error)
{
    const zr_pipeline_part *part = engine->plan->pipeline;
    // The message of another rank's failure has that one's place.
    if (!error || status == ZERO_OK || status == ZERO_ERR_PEER || status == ZERO_ERR_TIMEOUT)
        return status;
    if (!error->message[0]) // a unit need not say more than its status
        zr_fail(error, status, "%s", zero_status_text(status));
    size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof error->message - used,
             " (rank %d, pipeline stage %d of %d, chunk %d: %s)", engine->grid.world->rank,
             part->stage, part->pipeline.stages, chunk, what);
    zr_comm_report_work(engine->grid.world, NULL);
    return status;
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

// Says whether the action computes the loss of its micro-batch.
static bool reports_loss(const zr_plan *plan, const zr_action *action)
{
    const zr_chunk_plan *chunk = &plan->chunks[action->chunk];
    bool fused = plan->units[chunk->end_unit - 1].fused;
    return zr_chunk_is_last(plan, chunk) &&
           action->act == (fused ? ZR_ACT_BACKWARD : ZR_ACT_FORWARD);
}

// Runs the pass of the action's micro-batch, in its set of the chunk's activations.
static zero_status run_pass(zero_engine *engine, const zr_action *action, zero_error *error)
{
    static const zero_tensors none;
    const zr_plan *plan = engine->plan;
    const zr_chunk_plan *chunk = &plan->chunks[action->chunk];
    int k = action->micro_batch;
    int64_t accumulation = plan->settings.accumulation;
    bool outdated = engine->steps.outdated && k == 0;
    zr_step_begin_work(engine, action->chunk, k);
    if (zr_plan_is_asynchronous(plan)) // else an overlapped update may read them
        set_copies(engine, action);
    engine->now.chunk = action->chunk;
    engine->now.micro_batch = k % accumulation;
    engine->now.turn = k;
    engine->now.set = k % chunk->buffers.sets;
    zr_step_set_micro_batch(engine, k / accumulation,
                            engine->steps.batches ? &engine->steps.batches[k] : &none,
                            &engine->steps.losses[k]);
    if (action->act == ZR_ACT_FORWARD)
        ZERO_TRY(zr_far_send_batch(engine, error));
    if (action->act == ZR_ACT_FORWARD && action->chunk == 0)
        zr_tier_traffic_expect_micro_batch(engine, outdated);
    ZERO_TRY(
        zr_step_run_pass(engine, zr_action_pass(action), zr_step_holds(engine, outdated), error));
    if (reports_loss(plan, action))
        ZERO_TRY(zr_far_bring_loss(engine, error));
    engine->now.loss = engine->steps.losses[k];
    if (action->act != ZR_ACT_BACKWARD || !zr_chunk_is_last(plan, chunk))
        return ZERO_OK;
    ZERO_TRY(check_targets(engine, error));
    return zr_step_add_loss(engine, error);
}

// Runs an action and records it with the number of its micro-batch, or of its step, in what the
// loop makes.
static zero_status run_action(zero_engine *engine, const zr_action *action, zero_error *error)
{
    static const zr_activity phases[] = {[ZR_ACT_FORWARD] = ZR_ACTIVITY_forward,
                                         [ZR_ACT_BACKWARD] = ZR_ACTIVITY_backward,
                                         [ZR_ACT_WEIGHT] = ZR_ACTIVITY_weight,
                                         [ZR_ACT_NORM] = ZR_ACTIVITY_step,
                                         [ZR_ACT_UPDATE] = ZR_ACTIVITY_step};
    _Static_assert((int)ZR_RECORD_CHUNKS >= (int)ZR_MOST_CHUNKS,
                   "each chunk has a number in records");
    int64_t begin = zr_recorder_begin(engine->recorder);
    bool ends = action->act == ZR_ACT_NORM || action->act == ZR_ACT_UPDATE;
    int64_t of = ends ? engine->plan->settings.accumulation : 1;
    ZERO_TRY((ends ? end_step : run_pass)(engine, action, error));
    zr_step_end_phase(engine, phases[action->act], begin,
                      zr_record_action((int)(action->micro_batch / of), action->chunk));
    return ZERO_OK;
}

static zero_status run_actions(zero_engine *engine, const zr_action *actions, int count,
                               zero_error *error)
{
    for (int i = 0; i < count; i++) {
        zero_status status = run_action(engine, &actions[i], error);
        if (status == ZERO_OK)
            continue;
        char what[64];
        snprintf(what, sizeof what, "%s of micro-batch %d", zr_act_name(actions[i].act),
                 actions[i].micro_batch);
        return zr_step_say_work(engine, actions[i].chunk, what, status, error);
    }
    zr_step_begin_work(engine, -1, -1);
    return ZERO_OK;
}

// Says whether this rank has the first or the last unit, which read the batches.
static bool reads_batches(const zr_plan *plan)
{
    const zr_chunk_plan *first = &plan->chunks[0], *last = &plan->chunks[plan->chunk_count - 1];
    return !plan->pipeline || first->number == 0 || zr_chunk_is_last(plan, last);
}

// Runs steps of a pipeline: one, or a window of an asynchronous schedule.
static zero_status run_pipeline(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    int64_t count = engine->steps.together * plan->settings.accumulation;
    for (int64_t k = 0; k < count && reads_batches(plan); k++)
        ZERO_TRY(zr_far_check_batch(engine->queue->device, "steps of a pipeline",
                                    &engine->steps.batches[k], error));
    ZERO_TRY(zr_step_tell(engine, NULL, error));
    zr_step_begin_sums(engine);
    for (int64_t k = 0; k < count && reads_batches(plan); k++)
        engine->now.samples = zr_samples_fold(&engine->steps.batches[k], engine->now.samples);
    engine->steps.outdated = zr_step_begin_gathers(engine);
    zr_grid_hash_reset(&engine->grid);
    for (int64_t t = 0; t < engine->steps.together; t++)
        engine->steps.infos[t] = (zero_step_info){.step = engine->progress.step + t};
    bool asynchronous = zr_plan_is_asynchronous(plan);
    int action_count = plan->action_count;
    const zr_action *actions = asynchronous ? begin_window(engine, &action_count) : plan->actions;
    ZERO_TRY(run_actions(engine, actions, action_count, error));
    if (asynchronous)
        return end_window(engine, error);
    engine->now.micro_batch = count;
    return zr_step_complete(engine, engine->steps.infos, error);
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
    if (engine->plan->pipeline) {
        engine->steps.together = steps;
        engine->steps.batches = batches;
        engine->steps.infos = infos;
        return zr_step_end_waits(engine, run_pipeline(engine, error), error);
    }
    for (int64_t k = 0; k < engine->plan->settings.accumulation; k++) {
        double loss;
        ZERO_TRY(zero_forward(engine, &batches[k], &loss, error));
        ZERO_TRY(zero_backward(engine, error));
        ZERO_TRY(zero_step(engine, infos, error));
    }
    return ZERO_OK;
}
