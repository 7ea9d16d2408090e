// Gradients of a micro-batch, around the visits of backward: they are opened, sealed, and
// reduce-scattered into the owners' accumulators, at every stage (contract 4). reduction.c has
// found when.
#include "plan/emit.h"
#include "plan/accumulators.h"

static bool opens(const zr_plan *plan, const zr_visit *visit, int p)
{
    const zr_flat_param *flat_param = &plan->flat_params[p];
    bool here = visit->stream >= 0 ? visit->stream == p : !flat_param->streamed;
    return here && flat_param->first_backward == visit->unit;
}

// Returns where the contributions to a flat parameter collect: those in fp32 in the window itself,
// unless they wait for another unit's.
static zr_buffer_ref collected(zr_emitter *e, int v, int p)
{
    bool apart = zr_flat_param_collects_apart(&e->plan->flat_params[p]);
    return apart ? zr_emit_open_sums(e, v, p) : zr_emit_sums(e, ZR_BUFFER_GRADIENTS, p);
}

// Opens a flat parameter before its first contribution of this micro-batch.
static void open_flat_param(zr_emitter *e, int v, int p)
{
    const zr_buffer_ref place = collected(e, v, p);
    zr_emit_await_bytes(e, ZR_ALWAYS, p, place,
                        place.buffer == ZR_BUFFER_GRADIENTS ? ZR_SLOT_READERS : ZR_NO_SLOT);
    zr_emit(e, &(zr_instruction){.code = ZR_OPEN, .flat_param = p, .place = place});
}

// A unit that runs forward again first has its bytes from before that call, so that its gradients
// do not wait for readers of what it has just summed.
void zr_emit_gradients_reserve(zr_emitter *e, int v)
{
    const zr_visit *visit = &e->plan->visits[v];
    const zr_unit_plan *unit = &e->plan->units[visit->unit];
    zr_emit_fetch_sums_reserve(e, v);
    for (int i = 0; i < unit->flat_param_count; i++)
        if (opens(e->plan, visit, unit->flat_params[i]))
            collected(e, v, unit->flat_params[i]);
}

void zr_emit_gradients_open(zr_emitter *e, int v)
{
    const zr_visit *visit = &e->plan->visits[v];
    const zr_unit_plan *unit = &e->plan->units[visit->unit];
    zr_emit_gradients_reserve(e, v);
    zr_emit_fetch_sums(e, v);
    for (int i = 0; i < unit->flat_param_count; i++)
        if (opens(e->plan, visit, unit->flat_params[i]))
            open_flat_param(e, v, unit->flat_params[i]);
    zr_emit_parked_return(e, v);
}

// Seals a flat parameter, to which all contributions of this micro-batch have been made, and begins
// the exchange. An overlapped update must have read the previous step's sum before.
static void seal_and_reduce(zr_emitter *e, int v, int p)
{
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    const zr_plan *plan = e->plan;
    const zr_buffer_ref gradient = zr_emit_sums(e, ZR_BUFFER_GRADIENTS, p);
    zr_emit_unbind(e, p, ZR_BUFFER_GRADIENTS);
    if (e->stage->seal)
        e->stage->seal(e, p);
    if (plan->settings.delayed && flat_param->state_first >= 0 && flat_param->shard_slice_count > 0)
        zr_emit_await(e, ZR_FIRST, ZR_SLOT_GROUP,
                      plan->shard_slices[flat_param->shard_slice_first].group);
    if (zr_flat_param_collects_apart(flat_param)) {
        zr_emit_await_bytes(e, ZR_ALWAYS, p, gradient, ZR_SLOT_READERS);
        zr_emit(e, &(zr_instruction){.code = ZR_ROUND,
                                     .flat_param = p,
                                     .place = gradient,
                                     .from = zr_emit_open_sums(e, v, p)});
    }
    if (zr_flat_param_sums_on_nvme(flat_param))
        zr_emit_take_staged(e, p);
    zr_emit(e, &(zr_instruction){.code = ZR_REDUCE,
                                 .flat_param = p,
                                 .place = gradient,
                                 .bytes = (plan->ranks - 1) *
                                          zr_flat_param_gradient_shard_bytes(flat_param),
                                 .slot = {ZR_SLOT_SUM, p}});
}

// Awaits the sum over the ranks and over earlier micro-batches, which then goes to where it is
// kept.
static void end_reduction(zr_emitter *e, int p)
{
    zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_SUM, p);
    if (!zr_flat_param_sums_on_nvme(&e->plan->flat_params[p]))
        return;
    zr_emit(e, &(zr_instruction){.code = ZR_SQUARES, .when = ZR_LAST, .flat_param = p});
    zr_emit_store_sum(e, p);
}

void zr_emit_reductions_end(zr_emitter *e, int v)
{
    for (; e->reduced < e->sealed; e->reduced++) {
        int p = e->plan->sealed[e->reduced];
        if (e->plan->flat_params[p].reduced_after > v)
            break;
        end_reduction(e, p);
    }
}

// Seals what this visit completes; then ends the reductions that are due at this visit.
void zr_emit_gradients_close(zr_emitter *e, int v)
{
    const zr_plan *plan = e->plan;
    zr_emit_parked_leave(e, v);
    for (; e->sealed < plan->sealed_count; e->sealed++) {
        int p = plan->sealed[e->sealed];
        if (plan->flat_params[p].sealed_at != v)
            break;
        seal_and_reduce(e, v, p);
    }
    zr_emit_reductions_end(e, v);
}

void zr_emit_norm(zr_emitter *e)
{
    for (int p = 0; p < e->plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &e->plan->flat_params[p];
        if (flat_param->kind == ZERO_TRAINABLE && zr_flat_param_collects(flat_param) &&
            !zr_flat_param_sums_on_nvme(flat_param))
            zr_emit(e, &(zr_instruction){.code = ZR_SQUARES, .flat_param = p});
    }
}
