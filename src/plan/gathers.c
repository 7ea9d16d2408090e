// Where stage 3 gathers (ranks that do not map one copy, or parameters that lie on host or NVMe): where in the gather window each visit's
// pieces come to lie, which stay there, and how own shards travel from NVMe to the host before (ZeRO-Infinity section 6.2).
//
//   gather window   [ kept pieces | buffer 0: visits 0, 2, 4, ... | buffer 1: visits 1, 3, ... ]
//
// While visit i computes, i+1 is gathered, and the parameters of the visits after it are on their way from NVMe:
//
//   acquire(i):  await gather i;  begin to fetch up to visit fetches_visit;  start gather i+1 (its fetch has ended)
#include "plan/internal.h"
#include "plan/region.h"

static bool read_before(const zr_plan *plan, int v, int piece)
{
    for (int before = 0; before < v; before++)
        for (int i = 0; i < plan->visits[before].piece_count; i++)
            if (plan->visits[before].pieces[i] == piece)
                return true;
    return false;
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
    for (int i = 0; i < plan->visits[v].piece_count; i++)
        elems += plan->pieces[plan->visits[v].pieces[i]].kept_first < 0 ? plan->pieces[plan->visits[v].pieces[i]].padded : 0;
    return elems;
}

// Gathered one visit ahead, unless that is more than may be under way or gathered; so the two buffers alternate.
static void place_gathers(zr_plan *plan, int64_t kept)
{
    const zr_settings *settings = &plan->settings;
    int64_t buffer[2] = {0}, live = settings->tiering.live > 0 ? settings->tiering.live : INT64_MAX;
    for (int v = 0; v < plan->visit_count; v++) {
        zr_visit *visit = &plan->visits[v];
        int64_t elems = elems_of(plan, v), bytes = 0;
        visit->ahead = v > 0 && elems <= settings->prefetch_bucket && kept + elems + elems_of(plan, v - 1) <= live;
        for (int i = 0; i < visit->piece_count; i++) {
            const zr_piece *piece = &plan->pieces[visit->pieces[i]];
            visit->gathers[i] = piece->kept_first < 0 || !read_before(plan, v, visit->pieces[i]);
            visit->gather_first[i] = piece->kept_first < 0 ? bytes : piece->kept_first;
            bytes += piece->kept_first < 0 ? plan->ranks * zr_piece_shard_bytes(piece) : 0;
        }
        buffer[v % 2] = ZR_MAX(buffer[v % 2], bytes);
    }
    for (int v = 0; v < plan->visit_count; v++)
        for (int i = 0; i < plan->visits[v].piece_count; i++)
            if (plan->pieces[plan->visits[v].pieces[i]].kept_first < 0)
                plan->visits[v].gather_first[i] += plan->gather_bytes + (v % 2 ? buffer[0] : 0);
    plan->gather_bytes += buffer[0] + buffer[1];
    plan->gather_share = (plan->gather_bytes + plan->machine_ranks - 1) / plan->machine_ranks;
}

static bool travels(const zr_plan *plan, int v, int i)
{
    return plan->visits[v].gathers[i] && plan->pieces[plan->visits[v].pieces[i]].parameter_tier == ZERO_TIER_nvme;
}

static void take_staged(zr_plan *plan, zr_region *staged, int v)
{
    zr_visit *visit = &plan->visits[v];
    for (int i = 0; i < visit->piece_count; i++)
        if (travels(plan, v, i))
            visit->staged_first[i] = zr_region_take(staged, v * ZERO_MAX_PIECES + i, zr_piece_shard_bytes(&plan->pieces[visit->pieces[i]]));
}

static void give_back_staged(const zr_plan *plan, zr_region *staged, int v)
{
    for (int i = 0; i < plan->visits[v].piece_count; i++)
        if (travels(plan, v, i))
            zr_region_give_back(staged, v * ZERO_MAX_PIECES + i);
}

// The last visit whose parameters may be on their way while visit v is next to be gathered; v itself always may.
static int last_fetched(const zr_plan *plan, int v)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    int64_t elems = 0, most = tiering->elems_ahead > 0 ? tiering->elems_ahead : INT64_MAX;
    int last = ZR_MIN(v, plan->visit_count - 1);
    while (last + 1 < plan->visit_count && last < v + tiering->visits_ahead && elems + elems_of(plan, last + 1) <= most)
        elems += elems_of(plan, ++last);
    return last;
}

static zero_status place_fetches(zr_plan *plan, zero_error *error)
{
    zr_region staged;
    ZERO_TRY(zr_region_begin(&staged, plan->visit_count * ZERO_MAX_PIECES, error));
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
    zr_region_end(&staged);
    return ZERO_OK;
}

zero_status zr_plan_gathers(zr_plan *plan, bool keep_all, zero_error *error)
{
    if (plan->settings.stage < 3 || plan->mapped)
        return ZERO_OK;
    place_gathers(plan, keep_pieces(plan, keep_all));
    return place_fetches(plan, error);
}
