// Where stage 3 gathers, if ranks do not map one copy, or parameters lie on host or NVMe: the place
// of each visit's flat parameters in the gather window, which flat parameters stay there, and how
// own shards travel from NVMe to the host before that (ZeRO-Infinity section 6.2).
//
//   gather window   [ kept flat parameters | places that visits take before they are gathered
//                                   and give back when they end ]
//
// While visit i computes, i+1 is gathered, and the parameters of later visits are on their way from
// NVMe:
//
//   acquire(i):  await gather i;  begin to fetch up to visit fetches_visit;
//                start gather i+1 (its fetch has ended)
#include "plan/plan_parts.h"

static void note_first_reads(zr_plan *plan)
{
    for (int v = plan->visit_count - 1; v >= 0; v--)
        for (int i = 0; i < plan->visits[v].flat_param_count; i++)
            plan->flat_params[plan->visits[v].flat_params[i]].first_read = v;
}

// Chooses the flat parameters that stay gathered; returns the number of their elements.
static int64_t keep_flat_params(zr_plan *plan, bool all)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    int64_t elems = 0;
    for (int p = 0; p < plan->flat_param_count; p++) {
        zr_flat_param *flat_param = &plan->flat_params[p];
        bool small = flat_param->parameter_tier != ZERO_TIER_device &&
                     flat_param->elems < tiering->persistent &&
                     elems + flat_param->padded <= tiering->persistent_most;
        if (!all && !small)
            continue;
        flat_param->kept_first = plan->gather_bytes;
        plan->gather_bytes += plan->ranks * zr_flat_param_shard_bytes(flat_param);
        elems += flat_param->padded;
    }
    return elems;
}

static int64_t gathered_elems(const zr_plan *plan, int v)
{
    int64_t elems = 0;
    for (int i = 0; i < plan->visits[v].flat_param_count && plan->visits[v].reuses < 0; i++)
        elems += plan->flat_params[plan->visits[v].flat_params[i]].kept_first < 0
                     ? plan->flat_params[plan->visits[v].flat_params[i]].padded
                     : 0;
    return elems;
}

static int64_t gathered_bytes(const zr_plan *plan, int v)
{
    int64_t bytes = 0;
    for (int i = 0; i < plan->visits[v].flat_param_count && plan->visits[v].reuses < 0; i++) {
        const zr_flat_param *flat_param = &plan->flat_params[plan->visits[v].flat_params[i]];
        bytes +=
            flat_param->kept_first < 0 ? plan->ranks * zr_flat_param_shard_bytes(flat_param) : 0;
    }
    return bytes;
}

// Returns the next visit of the same unit in the pass, if at most `reuse` elements are gathered
// before it; else -1.
static int find_reuse(const zr_plan *plan, int v)
{
    int64_t between = 0;
    for (int w = v + 1; w < plan->visits[v].pass_end && plan->visits[v].stream < 0 &&
                        between <= plan->settings.tiering.reuse;
         w++) {
        if (plan->visits[w].unit == plan->visits[v].unit && plan->visits[w].stream < 0)
            return w;
        between += gathered_elems(plan, w);
    }
    return -1;
}

static int find_reusing_visit(const zr_plan *plan, int v)
{
    int w = v + 1;
    while (w < plan->visit_count && plan->visits[w].reuses != v)
        w++;
    return w < plan->visit_count ? w : -1;
}

// Finds the places of a visit's flat parameters where the visit that it reuses has them. That one
// has them all, because a unit's later visits read no flat parameter that its first does not read.
static void copy_reused_places(zr_plan *plan, zr_visit *visit)
{
    const zr_visit *first = &plan->visits[visit->reuses];
    for (int i = 0; i < visit->flat_param_count; i++)
        for (int k = 0; k < first->flat_param_count; k++)
            if (first->flat_params[k] == visit->flat_params[i])
                visit->gather_first[i] = first->gather_first[k];
}

static void take_place(zr_plan *plan, zr_first_fit *window, int v)
{
    zr_visit *visit = &plan->visits[v];
    if (visit->reuses >= 0) {
        copy_reused_places(plan, visit);
        return;
    }
    int64_t at = gathered_bytes(plan, v)
                     ? plan->gather_bytes + zr_first_fit_take(window, v, gathered_bytes(plan, v))
                     : 0;
    for (int i = 0; i < visit->flat_param_count; i++) {
        const zr_flat_param *flat_param = &plan->flat_params[visit->flat_params[i]];
        visit->gathers[i] = flat_param->kept_first < 0 || flat_param->first_read == v;
        visit->gather_first[i] = flat_param->kept_first < 0 ? at : flat_param->kept_first;
        at += flat_param->kept_first < 0 ? plan->ranks * zr_flat_param_shard_bytes(flat_param) : 0;
    }
}

static void give_place_back(const zr_plan *plan, zr_first_fit *window, int v)
{
    int owner = plan->visits[v].reuses >= 0 ? plan->visits[v].reuses : v;
    if (gathered_bytes(plan, owner))
        zr_first_fit_give_back(window, owner);
}

typedef struct gathering { // the walk over the visits
    zr_plan *plan;
    zr_first_fit window;
    int64_t live; // elements that may be gathered at once
    int64_t kept; // of these: what stays gathered all the time
    int64_t held; // of these: what stays for a later visit of its unit
    int64_t most; // of any one visit: what stays has to leave room for it
    int turn;     // the latest visit of a unit itself, which lasts as long as the unit's turn
} gathering;

static zero_status gathering_begin(gathering *g, zr_plan *plan, int64_t kept, zero_error *error)
{
    int64_t live = plan->settings.tiering.live;
    *g = (gathering){.plan = plan, .kept = kept, .live = live > 0 ? live : INT64_MAX};
    for (int v = 0; v < plan->visit_count; v++)
        g->most = ZR_MAX(g->most, gathered_elems(plan, v));
    // Places are taken by the current unit, the current visit and the next one, and by those that
    // stay for a later visit.
    return zr_first_fit_begin(&g->window, plan->visit_count, error);
}

static void gathering_end(gathering *g)
{
    zr_plan *plan = g->plan;
    plan->gather_bytes += g->window.bytes;
    plan->gather_share = (plan->gather_bytes + plan->machine_ranks - 1) / plan->machine_ranks;
    zr_first_fit_end(&g->window);
}

// Keeps what visit v gathers for a later visit of its unit, where there is room for it in addition
// to any visit in between.
static void keep_for_later(gathering *g, int v)
{
    zr_plan *plan = g->plan;
    int later = plan->visits[v].reuses < 0 ? find_reuse(plan, v) : -1;
    if (later >= 0 && g->kept + g->held + gathered_elems(plan, v) + g->most <= g->live)
        plan->visits[later].reuses = v;
}

// Gathers visit v+1 during v, unless that exceeds what may be gathered ahead, or gathered at all.
static void place_next(gathering *g, int v)
{
    zr_plan *plan = g->plan;
    if (v + 1 >= plan->visits[v].pass_end)
        return;
    zr_visit *next = &plan->visits[v + 1];
    int64_t of_unit = g->turn != v ? gathered_elems(plan, g->turn) : 0;
    int64_t now = g->kept + g->held + gathered_elems(plan, v) + of_unit;
    int64_t more = gathered_elems(plan, v + 1);
    next->ahead = more <= plan->settings.prefetch_bucket && now + more <= g->live;
    if (next->ahead)
        take_place(plan, &g->window, v + 1);
}

static void release_window_place(gathering *g)
{
    zr_plan *plan = g->plan;
    int reused = plan->visits[g->turn].reuses;
    if (find_reusing_visit(plan, g->turn) >= 0) {
        g->held += gathered_elems(plan, g->turn);
        return;
    }
    if (reused >= 0)
        g->held -= gathered_elems(plan, reused);
    give_place_back(plan, &g->window, g->turn);
}

static zero_status place_gathers(zr_plan *plan, int64_t kept, zero_error *error)
{
    gathering g;
    ZERO_TRY(gathering_begin(&g, plan, kept, error));
    for (int v = 0; v < plan->visit_count; v++) {
        const zr_visit *visit = &plan->visits[v];
        if (visit->stream < 0)
            g.turn = v;
        keep_for_later(&g, v);
        if (!visit->ahead)
            take_place(plan, &g.window, v);
        place_next(&g, v);
        if (visit->stream >= 0)
            give_place_back(plan, &g.window, v);
        if (visit->turn_end == v)
            release_window_place(&g);
    }
    gathering_end(&g);
    return ZERO_OK;
}

static bool gathers_from_nvme(const zr_plan *plan, int v, int i)
{
    return plan->visits[v].gathers[i] &&
           plan->flat_params[plan->visits[v].flat_params[i]].parameter_tier == ZERO_TIER_nvme;
}

static void take_staged(zr_plan *plan, zr_first_fit *staged, int v)
{
    zr_visit *visit = &plan->visits[v];
    for (int i = 0; i < visit->flat_param_count; i++)
        if (gathers_from_nvme(plan, v, i))
            visit->staged_first[i] = zr_first_fit_take(
                staged, v * ZERO_MAX_FLAT_PARAMS + i,
                zr_flat_param_shard_bytes(&plan->flat_params[visit->flat_params[i]]));
}

static void give_back_staged(const zr_plan *plan, zr_first_fit *staged, int v)
{
    for (int i = 0; i < plan->visits[v].flat_param_count; i++)
        if (gathers_from_nvme(plan, v, i))
            zr_first_fit_give_back(staged, v * ZERO_MAX_FLAT_PARAMS + i);
}

// This many elements keep the disk busy where the visits ahead are small.
enum { LEAST_AHEAD = 1 << 20 };

// Returns the last visit, of a pass that ends at `end`, whose parameters may be on their way while
// visit v is the next to be gathered. Those of v itself always may.
static int last_fetched(const zr_plan *plan, int v, int end)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    int64_t elems = 0, most = tiering->elems_ahead > 0 ? tiering->elems_ahead : INT64_MAX;
    int last = ZR_MIN(v, end - 1);
    while (last + 1 < end && (last < v + tiering->visits_ahead || elems < LEAST_AHEAD) &&
           elems + gathered_elems(plan, last + 1) <= most)
        elems += gathered_elems(plan, ++last);
    return last;
}

static zero_status place_fetches(zr_plan *plan, zero_error *error)
{
    zr_first_fit staged;
    ZERO_TRY(zr_first_fit_begin(&staged, plan->visit_count * ZERO_MAX_FLAT_PARAMS, error));
    int fetched = -1;
    for (int v = 0; v < plan->visit_count; v++) {
        zr_visit *visit = &plan->visits[v];
        // The first visit of a pass needs this before it is gathered; for later visits it was done
        // when the one before was acquired.
        for (int last = last_fetched(plan, v, visit->pass_end); fetched < last;)
            take_staged(plan, &staged, ++fetched);
        if (v == 0 || plan->visits[v - 1].pass_end == v)
            visit->first_fetches = fetched;
        give_back_staged(plan, &staged, v);
        visit->fetches_visit = ZR_MAX(fetched, last_fetched(plan, v + 1, visit->pass_end));
        while (fetched < visit->fetches_visit)
            take_staged(plan, &staged, ++fetched);
    }
    plan->staged_parameter_bytes = staged.bytes;
    zr_first_fit_end(&staged);
    return ZERO_OK;
}

zero_status zr_plan_gathers(zr_plan *plan, bool keep_all, zero_error *error)
{
    if (plan->holding != ZR_HOLDS_SHARDS)
        return ZERO_OK;
    note_first_reads(plan);
    ZERO_TRY(place_gathers(plan, keep_flat_params(plan, keep_all), error));
    return place_fetches(plan, error);
}
