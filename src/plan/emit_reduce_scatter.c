// Gradients of a micro-batch, around the visits of backward: they are opened, sealed, and
// reduce-scattered into the owners' accumulators, at every stage (contract 4). reduction.c has
// found when and where.
#include "plan/emit.h"
#include "plan/accumulators.h"

static int64_t window_bytes(const zr_flat_param *flat_param, int ranks)
{
    return ranks * zr_flat_param_gradient_shard_bytes(flat_param);
}

// Takes the flat parameter's place in the window, once earlier readers have drained it. Whole
// gradients have a place each, so only their own readers were there.
static void take_gradient_window(zr_emitter *e, int p)
{
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    const zr_buffer_ref place = {ZR_BUFFER_GRADIENTS, flat_param->grad_first};
    int64_t bytes = window_bytes(flat_param, e->plan->ranks);
    if (zr_plan_whole_gradients(e->plan)) {
        zr_emit_await_readers(e, ZR_ALWAYS, ZR_BUFFER_GRADIENTS, p);
        return;
    }
    zr_emit_await_buffer(e, ZR_ALWAYS, place, bytes);
    zr_emit_occupy(e, place, bytes, (zr_slot){ZR_SLOT_READERS, p});
}

static int64_t open_sum_place(const zr_emitter *e, int visit, int p)
{
    const zr_visit *now = &e->plan->visits[visit];
    return now->stream == p ? now->open_first : e->plan->flat_params[p].open_first;
}

// Opens a flat parameter before its first contribution of this micro-batch. Contributions in fp32
// collect in the window itself, unless they collect apart (reduction.c).
static void open_flat_param(zr_emitter *e, int visit, int p)
{
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    zr_buffer_ref place = {ZR_BUFFER_GRADIENTS, flat_param->grad_first};
    if (flat_param->open_first < 0) {
        take_gradient_window(e, p);
    } else {
        place = (zr_buffer_ref){ZR_BUFFER_OPEN_SUMS, open_sum_place(e, visit, p)};
        zr_emit_await_buffer(e, ZR_ALWAYS, place, zr_flat_param_open_bytes(flat_param));
    }
    zr_emit(e, &(zr_instruction){.code = ZR_OPEN, .flat_param = p, .place = place});
}

void zr_emit_gradients_open(zr_emitter *e, int v)
{
    const zr_visit *visit = &e->plan->visits[v];
    const zr_unit_plan *unit = &e->plan->units[visit->unit];
    zr_emit_fetch_sums(e, v);
    for (int i = 0; i < unit->flat_param_count; i++) {
        int p = unit->flat_params[i];
        const zr_flat_param *flat_param = &e->plan->flat_params[p];
        bool here = visit->stream >= 0 ? visit->stream == p : !flat_param->streamed;
        if (here && flat_param->first_backward == visit->unit)
            open_flat_param(e, v, p);
    }
    zr_emit_parked_return(e, v);
}

// Seals a flat parameter, to which all contributions of this micro-batch have been made, and begins
// the exchange. An overlapped update must have read the previous step's sum before.
static void seal_and_reduce(zr_emitter *e, int v, int p)
{
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    const zr_plan *plan = e->plan;
    const zr_buffer_ref place = {ZR_BUFFER_GRADIENTS, flat_param->grad_first};
    zr_emit_unbind(e, p, ZR_BUFFER_GRADIENTS);
    if (e->stage->seal)
        e->stage->seal(e, p);
    if (plan->settings.delayed && flat_param->state_first >= 0 && flat_param->shard_slice_count > 0)
        zr_emit_await(e, ZR_FIRST, ZR_SLOT_GROUP,
                      plan->shard_slices[flat_param->shard_slice_first].group);
    if (flat_param->open_first >= 0) {
        take_gradient_window(e, p);
        zr_emit(e, &(zr_instruction){.code = ZR_ROUND,
                                     .flat_param = p,
                                     .place = place,
                                     .from = {ZR_BUFFER_OPEN_SUMS, open_sum_place(e, v, p)}});
    }
    if (zr_flat_param_sums_on_nvme(flat_param))
        zr_emit_take_staged(e, p);
    zr_emit(e, &(zr_instruction){.code = ZR_REDUCE,
                                 .flat_param = p,
                                 .place = place,
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
