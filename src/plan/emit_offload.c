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

static bool is_staged_in_visit(const zr_visit *visit, int i) { return visit->staged_first[i] >= 0; }

// A kept flat parameter travels once after the weights have changed.
void zr_emit_fetches(zr_emitter *e, int last_visit)
{
    for (int v = e->fetched + 1; v <= last_visit; v++) {
        const zr_visit *visit = &e->plan->visits[v];
        for (int i = 0; i < visit->flat_param_count; i++) {
            const zr_flat_param *flat_param = &e->plan->flat_params[visit->flat_params[i]];
            if (!is_staged_in_visit(visit, i))
                continue;
            zr_emit(
                e, &(zr_instruction){.code = ZR_FETCH,
                                     .when = flat_param->kept_first >= 0 ? ZR_OUTDATED : ZR_ALWAYS,
                                     .flat_param = visit->flat_params[i],
                                     .place = {ZR_BUFFER_STAGED_PARAMETERS, visit->staged_first[i]},
                                     .from = {ZR_BUFFER_STORED, flat_param->shard_first},
                                     .bytes = zr_flat_param_shard_bytes(flat_param),
                                     .slot = {ZR_SLOT_FETCHED, v * ZERO_MAX_FLAT_PARAMS + i}});
        }
    }
    e->fetched = ZR_MAX(e->fetched, last_visit);
}

static zr_buffer_ref staged_sum_place(const zr_flat_param *flat_param)
{
    return (zr_buffer_ref){ZR_BUFFER_STAGED_SUMS, flat_param->accumulator_first};
}

static void fetch_sum(zr_emitter *e, int p)
{
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    zr_emit_await_buffer(e, ZR_LATER, staged_sum_place(flat_param),
                         zr_flat_param_accumulator_bytes(&e->plan->settings, flat_param));
    zr_emit(e, &(zr_instruction){.code = ZR_FETCH,
                                 .when = ZR_LATER,
                                 .flat_param = p,
                                 .place = staged_sum_place(flat_param),
                                 .bytes = zr_flat_param_sum_bytes(flat_param),
                                 .slot = {ZR_SLOT_TRAVELLED, p}});
}

// Returns the next flat parameter after `after` whose sum is fetched with visit v; that visit or
// the next one seals it.
static int next_fetched(const zr_plan *plan, int v, int after)
{
    int next = plan->flat_param_count;
    for (int w = v; w <= v + 1 && w < plan->visits[v].pass_end; w++) {
        const zr_unit_plan *unit = &plan->units[plan->visits[w].unit];
        for (int i = 0; i < unit->flat_param_count; i++)
            if (unit->flat_params[i] > after &&
                plan->flat_params[unit->flat_params[i]].fetched_with == v)
                next = ZR_MIN(next, unit->flat_params[i]);
    }
    return next;
}

// Begins to fetch the sums of earlier micro-batches to the place where this one's is added to them.
void zr_emit_fetch_sums(zr_emitter *e, int v)
{
    if (!e->plan->staged_gradient_bytes)
        return;
    for (int p = next_fetched(e->plan, v, -1); p < e->plan->flat_param_count;
         p = next_fetched(e->plan, v, p))
        fetch_sum(e, p);
}

// Takes the place in the host's buffer here, because a micro-batch that is added to nothing has
// fetched nothing.
void zr_emit_take_staged(zr_emitter *e, int p)
{
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    const zr_slot slot = {ZR_SLOT_TRAVELLED, p};
    zr_emit_await_buffer(e, ZR_ALWAYS, staged_sum_place(flat_param),
                         zr_flat_param_accumulator_bytes(&e->plan->settings, flat_param));
    if (flat_param->fetched_with >= 0)
        zr_emit_await(e, ZR_LATER, slot.kind, slot.index);
    zr_emit_occupy(e, staged_sum_place(flat_param),
                   zr_flat_param_accumulator_bytes(&e->plan->settings, flat_param), slot);
}

void zr_emit_store_sum(zr_emitter *e, int p)
{
    const zr_flat_param *flat_param = &e->plan->flat_params[p];
    zr_emit(e, &(zr_instruction){.code = ZR_STORE,
                                 .flat_param = p,
                                 .from = staged_sum_place(flat_param),
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

static void move_parked(zr_emitter *e, zr_code code, int v)
{
    const zr_visit *visit = &e->plan->visits[v];
    int64_t bytes = zr_flat_param_open_bytes(&e->plan->flat_params[visit->stream]);
    const zr_buffer_ref open = {ZR_BUFFER_OPEN_SUMS, visit->open_first};
    const zr_buffer_ref stored = {ZR_BUFFER_STORED,
                                  e->plan->flat_params[visit->stream].parked_first};
    const zr_slot slot = {ZR_SLOT_PARKED, visit->stream};
    bool comes = code == ZR_FETCH;
    zr_emit_await(e, ZR_ALWAYS, slot.kind, slot.index);
    zr_emit(e, &(zr_instruction){.code = code,
                                 .flat_param = visit->stream,
                                 .place = comes ? open : stored,
                                 .from = comes ? stored : open,
                                 .bytes = bytes,
                                 .slot = slot});
    zr_emit_occupy(e, open, bytes, slot);
}

static void begin_return_of_parked(zr_emitter *e, int v)
{
    const zr_visit *visit = &e->plan->visits[v];
    zr_emit_await_buffer(e, ZR_ALWAYS, (zr_buffer_ref){ZR_BUFFER_OPEN_SUMS, visit->open_first},
                         zr_flat_param_open_bytes(&e->plan->flat_params[visit->stream]));
    move_parked(e, ZR_FETCH, v);
    e->returned = v;
}

// Begins to fetch what this visit adds to, unless the visit before has; then what the next visit
// adds to. Waits for the former.
void zr_emit_parked_return(zr_emitter *e, int v)
{
    const zr_plan *plan = e->plan;
    const zr_visit *now = &plan->visits[v];
    if (now->returns && e->returned < v)
        begin_return_of_parked(e, v);
    if (v + 1 < now->pass_end && plan->visits[v + 1].returns)
        begin_return_of_parked(e, v + 1);
    if (!now->returns)
        return;
    zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_PARKED, now->stream);
    zr_emit_bind(e, now->stream, (zr_buffer_ref){ZR_BUFFER_OPEN_SUMS, now->open_first});
}

void zr_emit_parked_leave(zr_emitter *e, int v)
{
    const zr_visit *now = &e->plan->visits[v];
    if (!now->parks)
        return;
    zr_emit_unbind(e, now->stream, ZR_BUFFER_OPEN_SUMS);
    move_parked(e, ZR_STORE, v);
}
