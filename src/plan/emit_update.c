// From the end of backward to parameters that units can read. Scalars that all ranks share decide
// which parts of it a step does (zr_when): whether its gradient is finite, and whether its update
// is made while the next step runs.
#include "plan/emit.h"
#include "plan/accumulators.h"
#include "plan/pipeline/tied_weights.h"

static void emit_scalars(zr_emitter *e, zr_scalars_part part, int link)
{
    const zr_slot slot = link < 0 ? (zr_slot){0} : (zr_slot){ZR_SLOT_LINK, link};
    zr_emit(e, &(zr_instruction){.code = ZR_SCALARS, .what = part, .flat_param = -1, .slot = slot});
}

// Sends what the scalars are, or does with what comes as `part` says.
static void pass_scalars(zr_emitter *e, zr_scalars_part part, int link)
{
    bool gives = part == ZR_SCALARS_GIVE;
    zr_emit_link(e, gives ? ZR_TAKE : ZR_RECEIVE, link);
    emit_scalars(e, part, link);
    zr_emit_link(e, gives ? ZR_SEND : ZR_GIVE, link);
}

// 2bw: the first stage, which ends a step last, adds up the sums of all stages, and sends them what
// comes out. So nobody waits: all others have sent theirs before, and need these for an update that
// follows the first stage's next step.
static void exchange_scalars(zr_emitter *e)
{
    const zr_plan *plan = e->plan;
    if (plan->sums_link < 0)
        return;
    if (plan->pipeline->stage > 0) {
        pass_scalars(e, ZR_SCALARS_GIVE, zr_plan_sums_to_first(plan, plan->pipeline->stage));
        return;
    }
    for (int s = 1; s < plan->pipeline->pipeline.stages; s++)
        pass_scalars(e, ZR_SCALARS_ADD, zr_plan_sums_to_first(plan, s));
    for (int s = 1; s < plan->pipeline->pipeline.stages; s++)
        pass_scalars(e, ZR_SCALARS_GIVE, zr_plan_sums_from_first(plan, s));
}

// Waits until sums are where they are kept.
static void await_transfers(zr_emitter *e)
{
    for (int p = 0; p < e->plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &e->plan->flat_params[p];
        if (zr_flat_param_sums_on_nvme(flat_param))
            zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_TRAVELLED, p);
    }
}

// Adds the squares of those gradients that lie in memory.
static void emit_norm(zr_emitter *e)
{
    for (int p = 0; p < e->plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &e->plan->flat_params[p];
        if (flat_param->kind == ZERO_TRAINABLE && zr_flat_param_collects(flat_param) &&
            !zr_flat_param_sums_on_nvme(flat_param))
            zr_emit(e, &(zr_instruction){.code = ZR_SQUARES, .flat_param = p});
    }
}

// Where a schedule is asynchronous, no stage waits for another one here, and what the update needs
// of all data ranks is gathered when it is made, because other micro-batches come in between.
void zr_emit_boundary(zr_emitter *e)
{
    bool alone = zr_plan_is_asynchronous(e->plan);
    zr_emit_tied_weights_sum(e);
    if (e->stage->boundary && !alone)
        e->stage->boundary(e);
    await_transfers(e);
    if (e->plan->settings.delayed)
        zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_GROUP, -1);
    emit_norm(e);
    emit_scalars(e, alone ? ZR_SCALARS_OF_PIPELINE_STAGE : ZR_SCALARS_OF_ALL, -1);
    exchange_scalars(e);
}

void zr_emit_total(zr_emitter *e)
{
    const zr_plan *plan = e->plan;
    if (plan->sums_link >= 0 && plan->pipeline->stage > 0)
        pass_scalars(e, ZR_SCALARS_TAKE, zr_plan_sums_from_first(plan, plan->pipeline->stage));
}

static void emit_update_part(zr_emitter *e, zr_when when, zr_update_part part, int flat_param,
                             zr_slot slot)
{
    zr_emit(
        e,
        &(zr_instruction){
            .code = ZR_UPDATE, .when = when, .what = part, .flat_param = flat_param, .slot = slot});
}

// Waits until nobody reads the old parameters any more, sets buffers to the mean of what all ranks
// wrote, and runs the optimizer's walks over the groups.
void zr_emit_update(zr_emitter *e)
{
    const zr_plan *plan = e->plan;
    const zr_slot none = {0};
    bool alone = zr_plan_is_asynchronous(plan);
    if (alone && e->stage->boundary)
        e->stage->boundary(e);
    for (int p = 0; p < plan->flat_param_count && e->stage->before_update; p++)
        if (zr_flat_param_collects(&plan->flat_params[p]))
            e->stage->before_update(e, p);
    // A late tied copy is written between the updates and its gathers.
    for (int p = 0; p < plan->flat_param_count && !e->stage->before_update; p++)
        if (plan->flat_params[p].late)
            zr_emit_await_readers(e, ZR_CHANGED, ZR_BUFFER_PARAMETERS, p);
    for (int p = 0; p < plan->flat_param_count; p++)
        if (zr_flat_param_collects(&plan->flat_params[p]) &&
            plan->flat_params[p].kind == ZERO_BUFFER)
            emit_update_part(e, ZR_FINITE, ZR_PART_MEAN, p, none);
    emit_update_part(e, ZR_AT_ONCE, ZR_PART_GROUPS, -1, none);
    if (plan->settings.delayed || alone)
        emit_update_part(e, ZR_STALE, ZR_PART_COPY, -1, none);
}

// Publishes the parameters. An update that overlaps the next step begins with the last group,
// because backward overwrites the last unit's gradients first; so when group 0 is done, all are.
void zr_emit_publish(zr_emitter *e)
{
    zr_emit_tied_weights_publish(e);
    if (e->stage->publish)
        e->stage->publish(e);
    if (e->plan->settings.delayed)
        emit_update_part(e, ZR_OVERLAPPED, ZR_PART_GROUPS, -1, (zr_slot){ZR_SLOT_GROUP, 0});
}
