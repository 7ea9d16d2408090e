// What travels between tiers, there and back:
//
//   parameters   NVMe ─> staged (host) ─> gather window (device)
//   gradients    reduced ─> staged (host) ─> NVMe
//   parked       of a streamed flat parameter: contributions that wait for those of another unit
//   (wte: the
//                head's for the embedding's) leave the open arena after the visit that made them,
//                and come back while the visit before the next contribution computes
#include "plan/emit.h"
#include "plan/accumulators.h"
#include "plan/plan_parts.h"

zr_buffer_ref zr_emit_staged_shard(zr_emitter *e, int v, int i)
{
    const zr_plan *plan = e->plan;
    return zr_emit_value(
        e, ZR_BUFFER_STAGED_PARAMETERS, zr_value_of_visit(plan, v, ZR_VALUE_STAGED + i),
        zr_flat_param_shard_bytes(&plan->flat_params[plan->visits[v].flat_params[i]]));
}

// A kept flat parameter travels once after the weights have changed.
void zr_emit_fetches(zr_emitter *e, int last_visit)
{
    for (int v = e->fetched + 1; v <= last_visit; v++) {
        const zr_visit *visit = &e->plan->visits[v];
        for (int i = 0; i < visit->flat_param_count; i++) {
            const zr_flat_param *flat_param = &e->plan->flat_params[visit->flat_params[i]];
            if (!zr_visit_stages(e->plan, v, i))
                continue;
            zr_emit(e,
                    &(zr_instruction){.code = ZR_FETCH,
                                      .when = flat_param->kept_first >= 0 ? ZR_OUTDATED : ZR_ALWAYS,
                                      .flat_param = visit->flat_params[i],
                                      .place = zr_emit_staged_shard(e, v, i),
                                      .from = {ZR_BUFFER_STORED, flat_param->shard_first},
                                      .bytes = zr_flat_param_shard_bytes(flat_param),
                                      .slot = {ZR_SLOT_FETCHED, v * ZERO_MAX_FLAT_PARAMS + i}});
        }
    }
    e->fetched = ZR_MAX(e->fetched, last_visit);
}

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

void zr_emit_fetch_sums_reserve(zr_emitter *e, int v)
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
void zr_emit_fetch_sums(zr_emitter *e, int v)
{
    const zr_plan *plan = e->plan;
    int first = first_fetched_with(plan, v), last = ZR_MIN(v + 1, plan->visits[v].pass_end - 1);
    for (int p = 0; p < plan->flat_param_count && first <= last; p++)
        if (sums_come_for(plan, first, p) || sums_come_for(plan, last, p))
            fetch_sum(e, p);
}

// Takes the bytes in the host's buffer here, because a micro-batch that is added to nothing has
// fetched nothing.
void zr_emit_take_staged(zr_emitter *e, int p)
{
    zr_emit_await_bytes(e, ZR_ALWAYS, p, zr_emit_sums(e, ZR_BUFFER_STAGED_SUMS, p),
                        ZR_SLOT_TRAVELLED);
    if (e->plan->settings.accumulation > 1)
        zr_emit_await(e, ZR_LATER, ZR_SLOT_TRAVELLED, p);
}

void zr_emit_store_sum(zr_emitter *e, int p)
{
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    zr_emit(e, &(zr_instruction){.code = ZR_STORE,
                                 .flat_param = p,
                                 .from = zr_emit_sums(e, ZR_BUFFER_STAGED_SUMS, p),
                                 .bytes = zr_flat_param_sum_bytes(flat_param),
                                 .slot = {ZR_SLOT_TRAVELLED, p}});
}

void zr_emit_await_transfers(zr_emitter *e)
{
    for (int p = 0; p < e->plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &e->plan->flat_params[p];
        if (zr_flat_param_sums_on_nvme(flat_param))
            zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_TRAVELLED, p);
    }
}

// Says whether a visit adds to contributions that wait for those of another unit.
static bool is_parked(const zr_plan *plan, int v)
{
    const zr_visit *visit = &plan->visits[v];
    return visit->stream >= 0 && visit->kind == ZR_VISIT_BACKWARD &&
           plan->flat_params[visit->stream].parked_first >= 0;
}

bool zr_visit_returns(const zr_plan *plan, int v)
{
    const zr_visit *visit = &plan->visits[v];
    return is_parked(plan, v) && plan->flat_params[visit->stream].first_backward != visit->unit;
}

zr_buffer_ref zr_emit_open_sums(zr_emitter *e, int v, int p)
{
    if (e->plan->visits[v].stream != p || !zr_visit_returns(e->plan, v))
        return zr_emit_sums(e, ZR_BUFFER_OPEN_SUMS, p);
    return zr_emit_value(e, ZR_BUFFER_OPEN_SUMS, zr_value_of_visit(e->plan, v, ZR_VALUE_RETURNED),
                         zr_flat_param_open_bytes(&e->plan->flat_params[p]));
}

static void move_parked(zr_emitter *e, zr_code code, int v)
{
    int p = e->plan->visits[v].stream;
    const zr_buffer_ref open = zr_emit_open_sums(e, v, p);
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
void zr_emit_parked_return(zr_emitter *e, int v)
{
    const zr_plan *plan = e->plan;
    const zr_visit *now = &plan->visits[v];
    if (zr_visit_returns(plan, v) && e->returned < v)
        move_parked(e, ZR_FETCH, v);
    if (v + 1 < now->pass_end && zr_visit_returns(plan, v + 1))
        move_parked(e, ZR_FETCH, v + 1);
    if (!zr_visit_returns(plan, v))
        return;
    zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_PARKED, now->stream);
    zr_emit_bind(e, now->stream, zr_emit_open_sums(e, v, now->stream));
}

void zr_emit_parked_leave(zr_emitter *e, int v)
{
    const zr_visit *now = &e->plan->visits[v];
    if (!is_parked(e->plan, v) || zr_visit_seals(e->plan, v, now->stream))
        return;
    zr_emit_unbind(e, now->stream, ZR_BUFFER_OPEN_SUMS);
    move_parked(e, ZR_STORE, v);
}
