// The training step. Contract 8: what comes next follows only from the step's number or from
// scalars that all ranks share. What an engine is at decides which calls it takes: a step's in
// their order, changes only between steps and while no guard reads the states, and nothing after a
// failure.
#include "engine/far_check.h"
#include "engine/interpret.h"
#include "engine/step.h"

#include <math.h>

// Refuses `call` unless the engine is in this phase, which `before` brings it into, and has not
// failed.
static zero_status check_phase(const zero_engine *engine, zr_phase phase, const char *call,
                               const char *before, zero_error *error)
{
    if (engine->phase == phase)
        return ZERO_OK;
    if (engine->phase == ZR_FAILED)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s: this engine has failed before; only zero_destroy may be called", call);
    return zr_fail(error, ZERO_ERR_USAGE, "%s at step %lld: expected after %s", call,
                   (long long)engine->progress.step, before);
}

zero_status zr_engine_between_steps(const zero_engine *engine, const char *call, zero_error *error)
{
    ZERO_TRY(check_phase(engine, ZR_READY, call, "zero_initialize or zero_step", error));
    if (engine->now.micro_batch == 0)
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_USAGE,
        "%s inside of step %lld, after %lld of its %lld micro-batches: expected between steps",
        call, (long long)engine->progress.step + 1, (long long)engine->now.micro_batch,
        (long long)engine->plan->settings.accumulation);
}

zero_status zr_engine_may_change(const zero_engine *engine, const char *call, zero_error *error)
{
    ZERO_TRY(zr_engine_between_steps(engine, call, error));
    if (!engine->guard.await)
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_USAGE,
        "%s at step %lld while a checkpoint is being written: zero_end_checkpoint comes first",
        call, (long long)engine->progress.step);
}

bool zr_engine_can_guard(const zero_engine *engine)
{
    bool can = !engine->delayed && !zr_plan_is_asynchronous(engine->plan) &&
               !zr_plan_codes_states(engine->plan);
    for (int p = 0; p < engine->plan->flat_param_count; p++)
        can = can && engine->plan->flat_params[p].state_tier != ZERO_TIER_nvme &&
              engine->plan->flat_params[p].parameter_tier != ZERO_TIER_nvme;
    return can;
}

void zr_engine_guard(zero_engine *engine, const zr_guard *guard)
{
    engine->guard = guard ? *guard : (zr_guard){0};
    engine->far.guarded = guard ? zr_queue_mark(engine->queue) : (zr_mark){0};
}

// Refuses a call of one micro-batch where the engine is not in its phase, and in a pipeline, where
// several micro-batches are under way at once, so a step is one call.
static zero_status check_call(const zero_engine *engine, const char *call, zr_phase phase,
                              const char *before, zero_error *error)
{
    if (engine->plan->pipeline)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s: this engine is one stage of a pipeline of %d; zero_train_batch makes "
                       "its steps",
                       call, engine->plan->pipeline->pipeline.stages);
    return check_phase(engine, phase, call, before, error);
}

zero_status zr_step_missing(const char *call, const char *what, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE, "%s: %s is missing (NULL or empty)", call, what);
}

zero_status zr_step_refuse_inference(const zero_engine *engine, const char *call, zero_error *error)
{
    if (!engine->plan->settings.inference)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "%s: this engine was made for inference; zero_evaluate is its function", call);
}

void zr_step_end_phase(zero_engine *engine, zr_activity what, int64_t begin, int action)
{
    if (engine->recorder)
        engine->recorder->unit = -1;
    zr_recorder_add(engine->recorder, what, begin, 0, 0, action);
}

bool zr_step_begin_gathers(zero_engine *engine)
{
    bool outdated = engine->versions.gathered != engine->versions.newest;
    engine->versions.gathered = engine->versions.newest;
    return outdated;
}

uint32_t zr_step_holds(const zero_engine *engine, bool outdated)
{
    bool first = engine->now.micro_batch == 0, later = zr_grads_sum_slots(engine).adds > 0;
    bool last = engine->now.micro_batch == engine->plan->settings.accumulation - 1;
    return (uint32_t)first << ZR_FIRST | (uint32_t)later << ZR_LATER | (uint32_t)last << ZR_LAST |
           1u << (outdated ? ZR_OUTDATED : ZR_FRESH);
}

int64_t zr_engine_micro_batch(const zero_engine *engine)
{
    const zero_comm *data = engine->grid.data;
    return engine->now.micro_batch * data->size + data->rank;
}

void zr_step_begin_sums(zero_engine *engine)
{
    engine->sums = (zr_step_sums){0};
    engine->now.samples = 0;
    zr_norms_begin_step(engine);
    zr_carries_begin_step(engine);
    zr_tier_traffic_begin(engine);
}

void zr_step_set_micro_batch(zero_engine *engine, int64_t offset, const zero_tensors *batch,
                             double *loss)
{
    zero_context *context = &engine->view.context;
    engine->view.batch = *batch;
    context->training = 1;
    context->shape = engine->plan->shape;
    context->step = (uint64_t)(engine->progress.step + offset);
    context->values = &engine->operands.values[offset];
    context->values->seed = context->seed;
    context->values->step = context->step;
    context->micro_batch = (uint64_t)zr_engine_micro_batch(engine);
    context->loss_factor =
        (float)(engine->progress.scale.scale /
                (double)(engine->plan->settings.accumulation * engine->plan->ranks));
    int64_t positions = context->shape.batch * context->shape.seq;
    engine->view.weight =
        (struct zr_loss_weight){engine->config->loss_mean, positions, .targets = positions};
    zr_far_place_batch(engine, loss);
}

zero_status zr_step_run_pass(zero_engine *engine, zr_pass_kind kind, uint32_t holds,
                             zero_error *error)
{
    ZERO_TRY(zr_program_run_pass(engine, kind, holds, error));
    return zr_step_check_messages(engine, kind, NULL, error);
}

zero_status zr_step_tell(zero_engine *engine, const zero_step_info *info, zero_error *error)
{
    for (int i = 0; i < engine->observer_count; i++) {
        const zr_observer *observer = &engine->observers[i];
        if (info && observer->step_done)
            ZERO_TRY(observer->step_done(observer->user, engine, info, error));
        if (!info && observer->step_begun)
            ZERO_TRY(observer->step_begun(observer->user, engine, error));
    }
    return ZERO_OK;
}

zero_status zero_forward(zero_engine *engine, const zero_tensors *batch, double *loss,
                         zero_error *error)
{
    ZR_NEED(error, engine);
    ZERO_TRY(check_call(engine, "zero_forward", ZR_READY, "zero_initialize or zero_step", error));
    if (!batch || !loss)
        return zr_step_missing("zero_forward", batch ? "loss" : "batch", error);
    ZERO_TRY(zr_step_refuse_inference(engine, "zero_forward", error));
    ZERO_TRY(zr_far_check_batch(engine->queue->device, "zero_forward", batch, error));
    bool first = engine->now.micro_batch == 0;
    if (first)
        ZERO_TRY(zr_step_end_waits(engine, zr_step_tell(engine, NULL, error), error));
    int64_t begin = zr_recorder_begin(engine->recorder);
    zr_step_set_micro_batch(engine, 0, batch, loss);
    ZERO_TRY(zr_step_end_waits(engine, zr_far_send_batch(engine, error), error));
    if (first)
        zr_step_begin_sums(engine);
    if (engine->grid.tensor)
        engine->now.samples = zr_samples_fold(batch, engine->now.samples);
    bool outdated = zr_step_begin_gathers(engine);
    zr_tier_traffic_expect_micro_batch(engine, outdated);
    zr_grid_hash_reset(&engine->grid);
    zr_program_begin(engine, ZR_PASS_MICRO_BATCH, zr_step_holds(engine, outdated));
    ZERO_TRY(zr_step_end_waits(
        engine, zr_program_run_until(engine, engine->cursor.pass->forward_end, error), error));
    ZERO_TRY(zr_step_end_waits(engine, zr_far_bring_loss(engine, error), error));
    engine->now.loss = *loss;
    zr_step_end_phase(engine, ZR_ACTIVITY_forward, begin, -1);
    engine->phase = ZR_FORWARD_DONE;
    return ZERO_OK;
}

zero_status zr_step_add_loss(zero_engine *engine, zero_error *error)
{
    const struct zr_loss_weight *weight = &engine->view.weight;
    if (weight->targets < 0 || weight->targets > weight->positions)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "zero_loss_factor: %lld targets were set for a micro-batch of %lld positions",
            (long long)weight->targets, (long long)weight->positions);
    if (!zr_grid_reports(&engine->grid))
        return ZERO_OK;
    if (weight->targets) // else there is no mean, whatever the unit reports
        zr_exact_add(&engine->sums.loss,
                     engine->now.loss * ((double)weight->targets / (double)weight->positions));
    engine->sums.targets += weight->targets;
    return ZERO_OK;
}

static zero_status run_backward(zero_engine *engine, zero_error *error)
{
    ZERO_TRY(zr_program_run_until(engine, engine->cursor.pass->count, error));
    ZERO_TRY(zr_step_check_messages(engine, ZR_PASS_MICRO_BATCH, NULL, error));
    return zr_step_add_loss(engine, error);
}

zero_status zero_backward(zero_engine *engine, zero_error *error)
{
    ZR_NEED(error, engine);
    ZERO_TRY(check_call(engine, "zero_backward", ZR_FORWARD_DONE, "zero_forward", error));
    int64_t begin = zr_recorder_begin(engine->recorder);
    ZERO_TRY(zr_step_end_waits(engine, run_backward(engine, error), error));
    zr_step_end_phase(engine, ZR_ACTIVITY_backward, begin, -1);
    engine->phase = ZR_BACKWARD_DONE;
    return ZERO_OK;
}

void zr_step_describe(const zero_engine *engine, zero_step_info *info, double *factor)
{
    const zr_plan *plan = engine->plan;
    int64_t targets = engine->sums.targets;
    double weights = (double)targets / (double)engine->view.weight.positions,
           micro_batches = (double)(plan->settings.accumulation * plan->ranks);
    // A step without targets has no gradient to divide.
    *factor = engine->progress.scale.scale * (targets ? weights / micro_batches : 1);
    info->loss = targets ? zr_exact_value(&engine->sums.loss) / weights : 0;
    info->grad_norm = sqrt(zr_exact_value(&engine->sums.norm)) / *factor;
    info->lr = zr_schedule_lr(&engine->config->schedule, engine->progress.updates);
    info->skipped = !isfinite(info->grad_norm);
}

zero_status zr_step_begin_update(zero_engine *engine, zero_step_info *info, zero_error *error)
{
    double factor;
    // The length of a run is not known before, so each step checks it.
    ZERO_TRY(zr_config_check_length(engine->config, engine->progress.updates + 1, error));
    zr_step_describe(engine, info, &factor);
    engine->update.lr = info->lr;
    double limit = engine->config->clipping, norm = info->grad_norm + 1e-6;
    double clip = limit > 0 && limit < norm ? limit / norm : 1;
    engine->update.scale = (float)(clip / factor);
    engine->progress.gradient_scale = factor;
    info->loss_scale =
        engine->config->loss_scale.kind == ZR_SCALE_NONE ? 0 : engine->progress.scale.scale;
    return ZERO_OK;
}

zero_status zr_step_end_update(zero_engine *engine, const zero_step_info *info, zero_error *error)
{
    engine->progress.updates += !info->skipped;
    return zr_loss_scale_next(&engine->config->loss_scale, info->skipped, &engine->progress.scale,
                              error);
}

// Runs this step's part of the update and finishes the previous delayed one; then publishes.
static zero_status run_step_boundary(zero_engine *engine, zero_step_info *info, zero_error *error)
{
    ZERO_TRY(zr_step_run_pass(engine, ZR_PASS_BOUNDARY, 0, error));
    ZERO_TRY(zr_step_begin_update(engine, info, error));
    bool delays =
        engine->delayed && engine->progress.step + 1 >= engine->config->offload.delayed_from;
    bool finite = !info->skipped, overlapped = finite && delays, at_once = finite && !overlapped;
    bool stale = engine->versions.lag || (at_once && engine->delayed);
    uint32_t holds = (uint32_t)finite << ZR_FINITE | (uint32_t)at_once << ZR_AT_ONCE |
                     (uint32_t)stale << ZR_STALE | (uint32_t)(finite || stale) << ZR_CHANGED;
    ZERO_TRY(zr_step_run_pass(engine, ZR_PASS_UPDATE, holds, error));
    ZERO_TRY(zr_engine_publish(
        engine, (uint32_t)overlapped << ZR_OVERLAPPED | (holds & 1u << ZR_CHANGED), error));
    ZERO_TRY(zr_step_check_messages(engine, ZR_PASS_PUBLISH, NULL, error));
    ZERO_TRY(zr_tier_traffic_check(engine, error));
    return zr_step_end_update(engine, info, error);
}

zero_status zr_step_end(zero_engine *engine, zero_step_info *infos, int64_t count,
                        zero_error *error)
{
    const zr_plan *plan = engine->plan;
    engine->now.micro_batch = 0;
    zero_status status = zr_ledger_check(&engine->ledger, error);
    for (int64_t i = 0; i < count && status == ZERO_OK; i++) {
        infos[i].step = ++engine->progress.step;
        infos[i].updated = !infos[i].skipped;
        infos[i].samples = plan->shape.batch * plan->settings.accumulation * plan->ranks;
        status = zr_step_tell(engine, &infos[i], error);
    }
    return zr_step_end_waits(engine, status, error);
}

zero_status zr_step_complete(zero_engine *engine, zero_step_info *info, zero_error *error)
{
    int64_t begin = zr_recorder_begin(engine->recorder);
    ZERO_TRY(zr_step_end_waits(engine, run_step_boundary(engine, info, error), error));
    zr_step_end_phase(engine, ZR_ACTIVITY_step, begin, -1);
    return zr_step_end(engine, info, 1, error);
}

zero_status zero_step(zero_engine *engine, zero_step_info *info, zero_error *error)
{
    ZR_NEED(error, engine);
    ZERO_TRY(check_call(engine, "zero_step", ZR_BACKWARD_DONE, "zero_backward", error));
    if (!info)
        return zr_step_missing("zero_step", "info", error);
    *info = (zero_step_info){.step = engine->progress.step};
    engine->phase = ZR_READY;
    if (++engine->now.micro_batch < engine->plan->settings.accumulation)
        return ZERO_OK;
    return zr_step_complete(engine, info, error);
}

zero_status zero_finish_update(zero_engine *engine, zero_error *error)
{
    ZR_NEED(error, engine);
    ZERO_TRY(zr_engine_between_steps(engine, "zero_finish_update", error));
    ZERO_TRY(zr_step_end_waits(engine, zr_delayed_join(engine, error), error));
    if (!engine->versions.lag)
        return ZERO_OK;
    // Ranks that still evaluate have to finish reading the old parameters first.
    ZERO_TRY(zr_step_end_waits(engine, zr_engine_await_readers(engine, error), error));
    return zr_step_end_waits(engine, zr_engine_parameters_changed(engine, error), error);
}
