// Where stage 3 gathers (ranks that do not map one copy, or parameters that lie on host or NVMe): where in the gather window each visit's
// pieces come to lie, which stay there, and how own shards travel from NVMe to the host before (ZeRO-Infinity section 6.2).
//
//   gather window   [ kept pieces | places that visits take before they are gathered
//                                   and give back when they end ]
//
// While visit i computes, i+1 is gathered, and the parameters of the visits after it are on their way from NVMe:
//
//   acquire(i):  await gather i;  begin to fetch up to visit fetches_visit;
//                start gather i+1 (its fetch has ended)
#include "plan/plan_parts.h"
#include "plan/first_fit.h"

static void note_first_reads(zr_plan *plan)
{
    for (int v = plan->visit_count - 1; v >= 0; v--)
        for (int i = 0; i < plan->visits[v].piece_count; i++)
            plan->pieces[plan->visits[v].pieces[i]].first_read = v;
}

// Elements that stay gathered.
static int64_t keep_pieces(zr_plan *plan, bool all)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    int64_t elems = 0;
    for (int p = 0; p < plan->piece_count; p++) {
        zr_piece *piece = &plan->pieces[p];
        bool small = piece->parameter_tier != ZERO_TIER_device && piece->elems < tiering->persistent && elems + piece->padded <= tiering->persistent_most;
        if (!all && !small)
            continue;
        piece->kept_first = plan->gather_bytes;
        plan->gather_bytes += plan->ranks * zr_piece_shard_bytes(piece);
        elems += piece->padded;
    }
    return elems;
}

static int64_t elems_of(const zr_plan *plan, int v)
{
    int64_t elems = 0;
    for (int i = 0; i < plan->visits[v].piece_count && plan->visits[v].reuses < 0; i++)
        elems += plan->pieces[plan->visits[v].pieces[i]].kept_first < 0 ? plan->pieces[plan->visits[v].pieces[i]].padded : 0;
    return elems;
}

static int64_t gathered_bytes(const zr_plan *plan, int v)
{
    int64_t bytes = 0;
    for (int i = 0; i < plan->visits[v].piece_count && plan->visits[v].reuses < 0; i++) {
        const zr_piece *piece = &plan->pieces[plan->visits[v].pieces[i]];
        bytes += piece->kept_first < 0 ? plan->ranks * zr_piece_shard_bytes(piece) : 0;
    }
    return bytes;
}

// The next visit of the same unit, if it comes before more than `reuse` elements are gathered; -1: it does not, or there is none.
static int find_reuse(const zr_plan *plan, int v)
{
    int64_t between = 0;
    for (int w = v + 1; w < plan->visit_count && plan->visits[v].stream < 0 && between <= plan->settings.tiering.reuse; w++) {
        if (plan->visits[w].unit == plan->visits[v].unit && plan->visits[w].stream < 0)
            return w;
        between += elems_of(plan, w);
    }
    return -1;
}

static int reused_by(const zr_plan *plan, int v)
{
    int w = v + 1;
    while (w < plan->visit_count && plan->visits[w].reuses != v)
        w++;
    return w < plan->visit_count ? w : -1;
}

// Where the visit that it reuses has them: a unit's later visits read no piece that its first does not.
static void find_places(zr_plan *plan, zr_visit *visit)
{
    const zr_visit *first = &plan->visits[visit->reuses];
    for (int i = 0; i < visit->piece_count; i++)
        for (int k = 0; k < first->piece_count; k++)
            if (first->pieces[k] == visit->pieces[i])
                visit->gather_first[i] = first->gather_first[k];
}

static void take_place(zr_plan *plan, zr_first_fit *window, int v)
{
    zr_visit *visit = &plan->visits[v];
    if (visit->reuses >= 0) {
        find_places(plan, visit);
        return;
    }
    int64_t at = gathered_bytes(plan, v) ? plan->gather_bytes + zr_first_fit_take(window, v, gathered_bytes(plan, v)) : 0;
    for (int i = 0; i < visit->piece_count; i++) {
        const zr_piece *piece = &plan->pieces[visit->pieces[i]];
        visit->gathers[i] = piece->kept_first < 0 || piece->first_read == v;
        visit->gather_first[i] = piece->kept_first < 0 ? at : piece->kept_first;
        at += piece->kept_first < 0 ? plan->ranks * zr_piece_shard_bytes(piece) : 0;
    }
}

static void give_place_back(const zr_plan *plan, zr_first_fit *window, int v)
{
    int owner = plan->visits[v].reuses >= 0 ? plan->visits[v].reuses : v;
    if (gathered_bytes(plan, owner))
        zr_first_fit_give_back(window, owner);
}

// Gathered one visit ahead, unless that is more than may be under way or gathered. A unit's own visit lasts as long as its turn.
static zero_status place_gathers(zr_plan *plan, int64_t kept, zero_error *error)
{
    const zr_settings *settings = &plan->settings;
    int64_t live = settings->tiering.live > 0 ? settings->tiering.live : INT64_MAX, held = 0, most = 0;
    for (int v = 0; v < plan->visit_count; v++)
        most = ZR_MAX(most, elems_of(plan, v)); // what stays leaves room for any visit
    zr_first_fit window;
    ZERO_TRY(zr_first_fit_begin(&window, plan->visit_count, error)); // the unit's, the visit's, the next unit's or visit's; and those that stay for a later one
    for (int v = 0, unit = 0, later; v < plan->visit_count; v++) {
        zr_visit *visit = &plan->visits[v], *next = v + 1 < plan->visit_count ? &plan->visits[v + 1] : NULL;
        unit = visit->stream < 0 ? v : unit;
        later = visit->reuses < 0 ? find_reuse(plan, v) : -1;
        if (later >= 0 && kept + held + elems_of(plan, v) + most <= live)
            plan->visits[later].reuses = v;
        if (!visit->ahead)
            take_place(plan, &window, v);
        if (next) {
            int64_t now = held + elems_of(plan, v) + (unit != v ? elems_of(plan, unit) : 0);
            next->ahead = elems_of(plan, v + 1) <= settings->prefetch_bucket && kept + now + elems_of(plan, v + 1) <= live;
            if (next->ahead)
                take_place(plan, &window, v + 1);
        }
        if (visit->stream >= 0)
            give_place_back(plan, &window, v);
        if (visit->turn_end != v)
            continue;
        if (reused_by(plan, unit) >= 0) {
            held += elems_of(plan, unit);
            continue;
        }
        held -= plan->visits[unit].reuses >= 0 ? elems_of(plan, plan->visits[unit].reuses) : 0;
        give_place_back(plan, &window, unit);
    }
    plan->gather_bytes += window.bytes;
    plan->gather_share = (plan->gather_bytes + plan->machine_ranks - 1) / plan->machine_ranks;
    zr_first_fit_end(&window);
    return ZERO_OK;
}

static bool travels(const zr_plan *plan, int v, int i)
{
    return plan->visits[v].gathers[i] && plan->pieces[plan->visits[v].pieces[i]].parameter_tier == ZERO_TIER_nvme;
}

static void take_staged(zr_plan *plan, zr_first_fit *staged, int v)
{
    zr_visit *visit = &plan->visits[v];
    for (int i = 0; i < visit->piece_count; i++)
        if (travels(plan, v, i))
            visit->staged_first[i] = zr_first_fit_take(staged, v * ZERO_MAX_PIECES + i, zr_piece_shard_bytes(&plan->pieces[visit->pieces[i]]));
}

static void give_back_staged(const zr_plan *plan, zr_first_fit *staged, int v)
{
    for (int i = 0; i < plan->visits[v].piece_count; i++)
        if (travels(plan, v, i))
            zr_first_fit_give_back(staged, v * ZERO_MAX_PIECES + i);
}

enum { LEAST_AHEAD = 1 << 20 }; // elements on their way, where the visits ahead are small: as many as keep the disk busy

// The last visit whose parameters may be on their way while visit v is next to be gathered; v itself always may.
static int last_fetched(const zr_plan *plan, int v)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    int64_t elems = 0, most = tiering->elems_ahead > 0 ? tiering->elems_ahead : INT64_MAX;
    int last = ZR_MIN(v, plan->visit_count - 1);
    while (last + 1 < plan->visit_count && (last < v + tiering->visits_ahead || elems < LEAST_AHEAD) && elems + elems_of(plan, last + 1) <= most)
        elems += elems_of(plan, ++last);
    return last;
}

static zero_status place_fetches(zr_plan *plan, zero_error *error)
{
    zr_first_fit staged;
    ZERO_TRY(zr_first_fit_begin(&staged, plan->visit_count * ZERO_MAX_PIECES, error));
    int fetched = -1;
    for (int v = 0; v < plan->visit_count; v++) {
        for (int last = last_fetched(plan, v); fetched < last;) // before visit 0 is gathered; of later ones it was done before
            take_staged(plan, &staged, ++fetched);
        give_back_staged(plan, &staged, v);
        plan->visits[v].fetches_visit = ZR_MAX(fetched, last_fetched(plan, v + 1));
        while (fetched < plan->visits[v].fetches_visit)
            take_staged(plan, &staged, ++fetched);
    }
    plan->first_fetches = last_fetched(plan, 0);
    plan->staged_parameter_bytes = staged.bytes;
    zr_first_fit_end(&staged);
    return ZERO_OK;
}

zero_status zr_plan_gathers(zr_plan *plan, bool keep_all, zero_error *error)
{
    if (plan->settings.stage < 3 || plan->mapped)
        return ZERO_OK;
    note_first_reads(plan);
    ZERO_TRY(place_gathers(plan, keep_pieces(plan, keep_all), error));
    return place_fetches(plan, error);
}
