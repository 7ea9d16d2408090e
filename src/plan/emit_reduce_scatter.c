// Gradients of a micro-batch, around the visits of backward: they are opened, sealed, and
// reduce-scattered into the owners' accumulators, at every stage (contract 4). reduction.c has
// found when.
//
// Some of it travels between tiers, there and back:
//
//   sums     reduced ─> staged (host) ─> NVMe
//   parked   of a streamed flat parameter: contributions that wait for those of another unit (wte:
//            the head's for the embedding's) leave the open arena after the visit that made them,
//            and come back while the visit before the next contribution computes
#include "plan/emit.h"
#include "plan/accumulators.h"
#include "plan/plan_parts.h"

// Sums so far are fetched while the visit before the one that seals their flat parameter computes;
// the first visit that adds has no visit before it that could have done this. Returns the first of
// the visits whose sums are fetched with visit v; the last one is v + 1.
static int first_fetched_with(const zr_plan *plan, int v)
{
    const zr_visit *before = v > 0 ? &plan->visits[v - 1] : NULL;
    return before && zr_visit_adds(before) && before->pass_end > v ? v + 1 : v;
}

// Says whether the sums of flat parameter p so far come from NVMe for visit w.
static bool sums_come_for(const zr_plan *plan, int w, int p)
{
    return plan->settings.accumulation > 1 && zr_flat_param_sums_on_nvme(&plan->flat_params[p]) &&
           zr_visit_seals(plan, w, p);
}

static void reserve_fetched_sums(zr_emitter *e, int v)
{
    const zr_plan *plan = e->plan;
    for (int w = first_fetched_with(plan, v); w <= v + 1 && w < plan->visits[v].pass_end; w++) {
        const zr_unit_plan *unit = &plan->units[plan->visits[w].unit];
        for (int i = 0; i < unit->flat_param_count; i++)
            if (sums_come_for(plan, w, unit->flat_params[i]))
                zr_emit_sums(e, ZR_BUFFER_STAGED_SUMS, unit->flat_params[i]);
    }
}

static void fetch_sum(zr_emitter *e, int p)
{
    const zr_buffer_ref place = zr_emit_sums(e, ZR_BUFFER_STAGED_SUMS, p);
    zr_emit_await_bytes(e, ZR_LATER, p, place, ZR_NO_SLOT);
    zr_emit(e, &(zr_instruction){.code = ZR_FETCH,
                                 .when = ZR_LATER,
                                 .flat_param = p,
                                 .place = place,
                                 .bytes = zr_flat_param_sum_bytes(&e->plan->flat_params[p]),
                                 .slot = {ZR_SLOT_TRAVELLED, p}});
}

// Begins to fetch the sums of earlier micro-batches to the place where this one's is added to them.
static void fetch_sums(zr_emitter *e, int v)
{
    const zr_plan *plan = e->plan;
    int first = first_fetched_with(plan, v), last = ZR_MIN(v + 1, plan->visits[v].pass_end - 1);
    for (int p = 0; p < plan->flat_param_count && first <= last; p++)
        if (sums_come_for(plan, first, p) || sums_come_for(plan, last, p))
            fetch_sum(e, p);
}

// Runs before a sum is put into the host's buffer. Takes the bytes there, because a micro-batch
// that is added to nothing has fetched nothing.
static void take_staged(zr_emitter *e, int p)
{
    zr_emit_await_bytes(e, ZR_ALWAYS, p, zr_emit_sums(e, ZR_BUFFER_STAGED_SUMS, p),
                        ZR_SLOT_TRAVELLED);
    if (e->plan->settings.accumulation > 1)
        zr_emit_await(e, ZR_LATER, ZR_SLOT_TRAVELLED, p);
}

// Says whether a visit adds to contributions that wait for those of another unit.
static bool is_parked(const zr_plan *plan, int v)
{
    const zr_visit *visit = &plan->visits[v];
    return visit->stream >= 0 && visit->kind == ZR_VISIT_BACKWARD &&
           plan->flat_params[visit->stream].parked_first >= 0;
}

// Says whether a visit adds to contributions that an earlier unit has parked.
static bool visit_returns(const zr_plan *plan, int v)
{
    const zr_visit *visit = &plan->visits[v];
    return is_parked(plan, v) && plan->flat_params[visit->stream].first_backward != visit->unit;
}

// Names the open sums of a visit's flat parameter.
static zr_buffer_ref open_sums(zr_emitter *e, int v, int p)
{
    if (e->plan->visits[v].stream != p || !visit_returns(e->plan, v))
        return zr_emit_sums(e, ZR_BUFFER_OPEN_SUMS, p);
    return zr_emit_value(e, ZR_BUFFER_OPEN_SUMS, zr_value_of_visit(e->plan, v, ZR_VALUE_RETURNED),
                         zr_flat_param_open_bytes(&e->plan->flat_params[p]));
}

static void move_parked(zr_emitter *e, zr_code code, int v)
{
    int p = e->plan->visits[v].stream;
    const zr_buffer_ref open = open_sums(e, v, p);
    const zr_buffer_ref stored = {ZR_BUFFER_STORED, e->plan->flat_params[p].parked_first};
    bool comes = code == ZR_FETCH;
    if (comes)
        zr_emit_await_bytes(e, ZR_ALWAYS, p, open, ZR_SLOT_PARKED);
    zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_PARKED, p);
    zr_emit(e, &(zr_instruction){.code = code,
                                 .flat_param = p,
                                 .place = comes ? open : stored,
                                 .from = comes ? stored : open,
                                 .bytes = zr_flat_param_open_bytes(&e->plan->flat_params[p]),
                                 .slot = {ZR_SLOT_PARKED, p}});
    e->returned = comes ? v : e->returned;
}

// Begins to fetch what this visit adds to, unless the visit before has; then what the next visit
// adds to. Waits for the former.
static void return_parked(zr_emitter *e, int v)
{
    const zr_plan *plan = e->plan;
    const zr_visit *now = &plan->visits[v];
    if (visit_returns(plan, v) && e->returned < v)
        move_parked(e, ZR_FETCH, v);
    if (v + 1 < now->pass_end && visit_returns(plan, v + 1))
        move_parked(e, ZR_FETCH, v + 1);
    if (!visit_returns(plan, v))
        return;
    zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_PARKED, now->stream);
    zr_emit_bind(e, now->stream, open_sums(e, v, now->stream));
}

static void leave_parked(zr_emitter *e, int v)
{
    const zr_visit *now = &e->plan->visits[v];
    if (!is_parked(e->plan, v) || zr_visit_seals(e->plan, v, now->stream))
        return;
    zr_emit_unbind(e, now->stream, ZR_BUFFER_OPEN_SUMS);
    move_parked(e, ZR_STORE, v);
}

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
    return apart ? open_sums(e, v, p) : zr_emit_sums(e, ZR_BUFFER_GRADIENTS, p);
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
    reserve_fetched_sums(e, v);
    for (int i = 0; i < unit->flat_param_count; i++)
        if (opens(e->plan, visit, unit->flat_params[i]))
            collected(e, v, unit->flat_params[i]);
}

void zr_emit_gradients_open(zr_emitter *e, int v)
{
    const zr_visit *visit = &e->plan->visits[v];
    const zr_unit_plan *unit = &e->plan->units[visit->unit];
    zr_emit_gradients_reserve(e, v);
    fetch_sums(e, v);
    for (int i = 0; i < unit->flat_param_count; i++)
        if (opens(e->plan, visit, unit->flat_params[i]))
            open_flat_param(e, v, unit->flat_params[i]);
    return_parked(e, v);
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
                                     .from = open_sums(e, v, p)});
    }
    if (zr_flat_param_sums_on_nvme(flat_param))
        take_staged(e, p);
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
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_SUM, p);
    if (!zr_flat_param_sums_on_nvme(flat_param))
        return;
    zr_emit(e, &(zr_instruction){.code = ZR_SQUARES, .when = ZR_LAST, .flat_param = p});
    zr_emit(e, &(zr_instruction){.code = ZR_STORE,
                                 .flat_param = p,
                                 .from = zr_emit_sums(e, ZR_BUFFER_STAGED_SUMS, p),
                                 .bytes = zr_flat_param_sum_bytes(flat_param),
                                 .slot = {ZR_SLOT_TRAVELLED, p}});
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
    leave_parked(e, v);
    for (; e->sealed < plan->sealed_count; e->sealed++) {
        int p = plan->sealed[e->sealed];
        if (plan->flat_params[p].sealed_at != v)
            break;
        seal_and_reduce(e, v, p);
    }
    zr_emit_reductions_end(e, v);
}
