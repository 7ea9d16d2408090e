// What stage 3 gathers when, if ranks do not map one copy, or parameters lie on host or NVMe: which
// flat parameters stay gathered, which visits gather ahead or find what an earlier one has left,
// and how far ahead own shards travel from NVMe to the host (ZeRO-Infinity section 6.2). Where all
// of this lies is found later (assign.c).
//
//   gather window   [ kept flat parameters | what visits gather, and others after them ]
//
// While visit i computes, i+1 is gathered, and the parameters of later visits are on their way from
// NVMe:
//
//   acquire(i):  await gather i;  begin to fetch as far ahead as i+1 allows;
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

static bool is_reused(const zr_plan *plan, int v)
{
    int w = v + 1;
    while (w < plan->visit_count && plan->visits[w].reuses != v)
        w++;
    return w < plan->visit_count;
}

typedef struct gathering { // the walk over the visits
    zr_plan *plan;
    int64_t live; // elements that may be gathered at once
    int64_t kept; // of these: what stays gathered all the time
    int64_t held; // of these: what stays for a later visit of its unit
    int64_t most; // of any one visit: what stays has to leave room for it
    int turn;     // the latest visit of a unit itself, which lasts as long as the unit's turn
} gathering;

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
static void choose_ahead(gathering *g, int v)
{
    zr_plan *plan = g->plan;
    if (v + 1 >= plan->visits[v].pass_end)
        return;
    int64_t of_unit = g->turn != v ? gathered_elems(plan, g->turn) : 0;
    int64_t now = g->kept + g->held + gathered_elems(plan, v) + of_unit;
    int64_t more = gathered_elems(plan, v + 1);
    plan->visits[v + 1].ahead = more <= plan->settings.prefetch_bucket && now + more <= g->live;
}

static void end_turn(gathering *g)
{
    int reused = g->plan->visits[g->turn].reuses;
    if (is_reused(g->plan, g->turn))
        g->held += gathered_elems(g->plan, g->turn);
    else if (reused >= 0)
        g->held -= gathered_elems(g->plan, reused);
}

static void choose_gathers(zr_plan *plan, int64_t kept)
{
    int64_t live = plan->settings.tiering.live;
    gathering g = {.plan = plan, .kept = kept, .live = live > 0 ? live : INT64_MAX};
    for (int v = 0; v < plan->visit_count; v++)
        g.most = ZR_MAX(g.most, gathered_elems(plan, v));
    for (int v = 0; v < plan->visit_count; v++) {
        if (plan->visits[v].stream < 0)
            g.turn = v;
        keep_for_later(&g, v);
        choose_ahead(&g, v);
        if (plan->visits[v].turn_end == v)
            end_turn(&g);
    }
}

// This many elements keep the disk busy where the visits ahead are small.
enum { LEAST_AHEAD = 1 << 20 };

int zr_last_fetched(const zr_plan *plan, int v, int end)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    int64_t elems = 0, most = tiering->elems_ahead > 0 ? tiering->elems_ahead : INT64_MAX;
    int last = ZR_MIN(v, end - 1);
    while (last + 1 < end && (last < v + tiering->visits_ahead || elems < LEAST_AHEAD) &&
           elems + gathered_elems(plan, last + 1) <= most)
        elems += gathered_elems(plan, ++last);
    return last;
}

void zr_plan_gathers(zr_plan *plan, bool keep_all)
{
    if (plan->holding != ZR_HOLDS_SHARDS)
        return;
    note_first_reads(plan);
    choose_gathers(plan, keep_flat_params(plan, keep_all));
}
