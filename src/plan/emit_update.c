// From the end of backward to parameters that units can read. Scalars that all ranks share decide
// what of it a step does (zr_when): whether its gradient is finite, and whether its update is made
// beside the next step.
#include "plan/emit.h"
#include "plan/piece_sums.h"
#include "plan/ties.h"

void zr_emit_boundary(zr_emitter *e)
{
    zr_emit_ties_sum(e);
    if (e->stage->boundary)
        e->stage->boundary(e);
    zr_emit_await_transfers(e);
    if (e->plan->settings.delayed)
        zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_GROUP, -1);
    zr_emit_norm(e);
    zr_emit(e, &(zr_instruction){.code = ZR_SCALARS, .piece = -1});
}

static void update(zr_emitter *e, zr_when when, zr_update_part part, int piece, zr_slot slot)
{
    zr_emit(e, &(zr_instruction){
                   .code = ZR_UPDATE, .when = when, .what = part, .piece = piece, .slot = slot});
}

// Waits until nobody reads the old parameters any more, sets buffers to the mean of what all ranks
// wrote, and runs the optimizer's walks over the groups.
void zr_emit_update(zr_emitter *e)
{
    const zr_plan *plan = e->plan;
    const zr_slot none = {0};
    for (int p = 0; p < plan->piece_count && e->stage->before_update; p++)
        if (zr_piece_collects(&plan->pieces[p]))
            e->stage->before_update(e, p);
    for (int p = 0; p < plan->piece_count; p++)
        if (zr_piece_collects(&plan->pieces[p]) && plan->pieces[p].kind == ZERO_BUFFER)
            update(e, ZR_FINITE, ZR_PART_MEAN, p, none);
    update(e, ZR_AT_ONCE, ZR_PART_GROUPS, -1, none);
    if (plan->settings.delayed)
        update(e, ZR_BEHIND, ZR_PART_COPY, -1, none);
}

// Publishes the parameters. An update beside the next step begins with the last group, because
// backward overwrites the last unit's gradients first; so when group 0 is done, all are.
void zr_emit_publish(zr_emitter *e)
{
    zr_emit_ties_publish(e);
    if (e->stage->publish)
        e->stage->publish(e);
    if (e->plan->settings.delayed)
        update(e, ZR_BESIDE, ZR_PART_GROUPS, -1, (zr_slot){ZR_SLOT_GROUP, 0});
}
