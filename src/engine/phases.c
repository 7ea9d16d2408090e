// What an engine is at. It decides which calls the engine takes: a step's in their order, changes
// only between steps and while no guard reads the states, and nothing after a failure. The other
// ranks of a pipeline hear of it, for their messages.
#include "engine/step.h"

#include <stdio.h>
#include <string.h>

zero_status zr_step_end_waits(zero_engine *engine, zero_status status, const zero_error *error)
{
    if (status != ZERO_OK) {
        engine->phase = ZR_FAILED;
        zero_comm_abort(engine->grid.world,
                        error && error->message[0] ? error->message : zero_status_text(status));
    }
    return status;
}

zero_status zr_step_check_phase(const zero_engine *engine, zr_phase phase, const char *call,
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
    ZERO_TRY(zr_step_check_phase(engine, ZR_READY, call, "zero_initialize or zero_step", error));
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
    bool can = !engine->delayed && !zr_plan_is_asynchronous(engine->plan);
    for (int p = 0; p < engine->plan->flat_param_count; p++)
        can = can && engine->plan->flat_params[p].state_tier != ZERO_TIER_nvme &&
              engine->plan->flat_params[p].parameter_tier != ZERO_TIER_nvme;
    return can;
}

void zr_engine_guard(zero_engine *engine, const zr_guard *guard)
{
    engine->guard = guard ? *guard : (zr_guard){0};
}

zero_status zr_guard_await(zero_engine *engine, int flat_param, zero_error *error)
{
    return engine->guard.await ? engine->guard.await(engine->guard.user, flat_param, error)
                               : ZERO_OK;
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
