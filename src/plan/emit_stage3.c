// Stage 3 (P_os+g+p): parameters are split too.
//
// Where the ranks share a machine, each flat parameter exists once and all ranks map it: acquiring
// waits for its version, and nothing moves (contract 7). Elsewhere, and where parameters lie on
// host or NVMe, a visit's flat parameters are gathered one visit ahead (gathers.c decides). Flat
// parameters that stay gathered are gathered once after the weights have changed: the small ones
// among offloaded flat parameters, and all of them for ZeRO++'s secondary partition (hpZ).
//
//   from NVMe   own shard ─> staged (host) ─> gather window (device)
#include "plan/emit.h"
#include "plan/network.h"
#include "plan/plan_parts.h"

// Counts a flat parameter that is here already as a message of no bytes, because every acquire is a
// message.
static void count_acquired(zr_emitter *e, zr_when when, int flat_param)
{
    zr_emit(e, &(zr_instruction){.code = ZR_GATHER, .when = when, .flat_param = flat_param});
}

static void mapped_acquire(zr_emitter *e, int visit, int visits)
{
    const zr_visit *wanted = &e->plan->visits[visit];
    for (int i = 0; i < wanted->flat_param_count; i++) {
        int p = wanted->flat_params[i];
        zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_PUBLISHED, p);
        count_acquired(e, ZR_ALWAYS, p);
        zr_emit_bind(e, p, zr_flat_param_place(&e->plan->flat_params[p]));
    }
}

// When the last gradient of a step is sealed, also declares that this rank reads the flat
// parameter's parameters no more in this step.
static void mapped_seal(zr_emitter *e, int flat_param)
{
    zr_emit(e, &(zr_instruction){.code = ZR_RELEASE,
                                 .when = ZR_LAST,
                                 .flat_param = flat_param,
                                 .slot = {ZR_SLOT_RELEASED, flat_param}});
}

static void mapped_before_update(zr_emitter *e, int flat_param)
{
    zr_emit_await(e, ZR_CHANGED, ZR_SLOT_RELEASED, flat_param);
}

static void mapped_publish(zr_emitter *e)
{
    for (int p = 0; p < e->plan->flat_param_count; p++)
        zr_emit(e, &(zr_instruction){
                       .code = ZR_PUBLISH, .flat_param = p, .slot = {ZR_SLOT_PUBLISHED, p}});
}

static bool is_kept(const zr_plan *plan, const zr_visit *visit, int i)
{
    return plan->flat_params[visit->flat_params[i]].kept_first >= 0;
}

bool zr_visit_gathers(const zr_plan *plan, int v, int i)
{
    const zr_visit *visit = &plan->visits[v];
    bool first_read = plan->flat_params[visit->flat_params[i]].first_read == v;
    return visit->reuses < 0 && (!is_kept(plan, visit, i) || first_read);
}

bool zr_visit_stages(const zr_plan *plan, int v, int i)
{
    const zr_flat_param *flat_param = &plan->flat_params[plan->visits[v].flat_params[i]];
    return zr_visit_gathers(plan, v, i) && flat_param->parameter_tier == ZERO_TIER_nvme;
}

static int64_t own_shard_bytes(const zr_plan *plan, int p)
{
    const zr_flat_param *flat_param = &plan->flat_params[p];
    return zr_flat_param_own_bytes(flat_param, flat_param->shard);
}

// Names the own shard of a visit's flat parameter i in the host's buffer.
static zr_buffer_ref staged_shard(zr_emitter *e, int v, int i)
{
    const zr_plan *plan = e->plan;
    return zr_emit_value(e, ZR_BUFFER_STAGED_PARAMETERS,
                         zr_value_of_visit(plan, v, ZR_VALUE_STAGED + i),
                         own_shard_bytes(plan, plan->visits[v].flat_params[i]));
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
                                      .place = staged_shard(e, v, i),
                                      .from = {ZR_BUFFER_STORED, flat_param->shard_first},
                                      .bytes = own_shard_bytes(e->plan, visit->flat_params[i]),
                                      .slot = {ZR_SLOT_FETCHED, v * ZERO_MAX_FLAT_PARAMS + i}});
        }
    }
    e->fetched = ZR_MAX(e->fetched, last_visit);
}

// Returns where the own shard of a visit's flat parameter i lies when it is gathered.
static zr_buffer_ref own_shard(zr_emitter *e, int v, int i)
{
    const zr_visit *visit = &e->plan->visits[v];
    if (zr_visit_stages(e->plan, v, i))
        return staged_shard(e, v, i);
    return (zr_buffer_ref){ZR_BUFFER_SHARDS,
                           e->plan->flat_params[visit->flat_params[i]].shard_first};
}

// What a visit gathers is one value. A visit that reuses an earlier one's finds all of its flat
// parameters there, because a unit's later visits read no flat parameter that its first does not
// read.
static zr_buffer_ref place_gathered(zr_emitter *e, int v, int p)
{
    const zr_plan *plan = e->plan;
    int owner = plan->visits[v].reuses >= 0 ? plan->visits[v].reuses : v;
    const zr_visit *gathers = &plan->visits[owner];
    int64_t bytes = 0, first = 0;
    if (plan->flat_params[p].kept_first >= 0)
        return (zr_buffer_ref){ZR_BUFFER_GATHERED, plan->flat_params[p].kept_first};
    for (int i = 0; i < gathers->flat_param_count; i++) {
        if (gathers->flat_params[i] == p)
            first = bytes;
        if (!is_kept(plan, gathers, i))
            bytes += plan->ranks *
                     zr_flat_param_shard_bytes(&plan->flat_params[gathers->flat_params[i]]);
    }
    zr_buffer_ref place = zr_emit_value(e, ZR_BUFFER_GATHERED,
                                        zr_value_of_visit(plan, owner, ZR_VALUE_GATHERED), bytes);
    place.first = first;
    return place;
}

static void gather_flat_param(zr_emitter *e, int v, int i, zr_when when)
{
    int p = e->plan->visits[v].flat_params[i];
    int64_t bytes = zr_plan_gathered(e->plan) * own_shard_bytes(e->plan, p);
    if (is_kept(e->plan, &e->plan->visits[v], i))
        zr_emit_await_readers(e, when, ZR_BUFFER_GATHERED, p);
    else
        zr_emit_await_bytes(e, when, p, place_gathered(e, v, p), ZR_SLOT_READERS);
    if (zr_visit_stages(e->plan, v, i))
        zr_emit_await(e, when, ZR_SLOT_FETCHED, v * ZERO_MAX_FLAT_PARAMS + i);
    zr_emit(e, &(zr_instruction){.code = ZR_GATHER,
                                 .when = when,
                                 .flat_param = p,
                                 .place = place_gathered(e, v, p),
                                 .from = own_shard(e, v, i),
                                 .bytes = bytes,
                                 .slot = {ZR_SLOT_GATHER, p}});
}

void zr_emit_gather_visit(zr_emitter *e, int v)
{
    const zr_visit *visit = &e->plan->visits[v];
    for (int i = 0; i < visit->flat_param_count; i++) {
        bool kept = is_kept(e->plan, visit, i), gathers = zr_visit_gathers(e->plan, v, i);
        if (gathers)
            gather_flat_param(e, v, i, kept ? ZR_OUTDATED : ZR_ALWAYS);
        if (!gathers || kept)
            count_acquired(e, gathers ? ZR_FRESH : ZR_ALWAYS, visit->flat_params[i]);
    }
}

void zr_emit_bind_gathered(zr_emitter *e, int v)
{
    const zr_visit *visit = &e->plan->visits[v];
    for (int i = 0; i < visit->flat_param_count; i++) {
        if (zr_visit_gathers(e->plan, v, i))
            zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_GATHER, visit->flat_params[i]);
        zr_emit_bind(e, visit->flat_params[i], place_gathered(e, v, visit->flat_params[i]));
    }
}

// Begins to fetch what may be on its way while visit v is the next to be gathered. The first visit
// of a pass needs this itself; later ones find it done.
static void fetch_ahead(zr_emitter *e, int v, int pass_end, int visits)
{
    zr_emit_fetches(e, ZR_MIN(zr_last_fetched(e->plan, v, pass_end), visits - 1));
}

// Acquires a visit's flat parameters. A visit that was too large to be gathered ahead is gathered
// now. While it computes, the next visit is gathered, and parameters of later ones come from NVMe.
static void gathered_acquire(zr_emitter *e, int v, int visits)
{
    const zr_visit *visit = &e->plan->visits[v];
    fetch_ahead(e, v, visit->pass_end, visits);
    if (!visit->ahead)
        zr_emit_gather_visit(e, v);
    zr_emit_bind_gathered(e, v);
    fetch_ahead(e, v + 1, visit->pass_end, visits);
    if (v + 1 < visits && e->plan->visits[v + 1].ahead)
        zr_emit_gather_visit(e, v + 1);
}

const zr_stage_emitter zr_emit_mapped = {
    .acquire = mapped_acquire,
    .seal = mapped_seal,
    .before_update = mapped_before_update,
    .publish = mapped_publish,
};

const zr_stage_emitter zr_emit_gathered = {.acquire = gathered_acquire};
