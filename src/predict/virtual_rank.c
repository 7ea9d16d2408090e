#include "predict/virtual_rank.h"

// How unknown an operation is at least, if it was measured in another setting only.
static const double UNKNOWN_SETTING = 0.5;

zr_cost zr_virtual_rank_cost(const zr_virtual_rank *rank, zr_activity what, int64_t bytes,
                             int64_t flops, double times)
{
    double unknown;
    if (!bytes && !flops)
        return (zr_cost){0};
    double seconds =
        times * rank->factor * zr_rates_seconds(rank->rates, what, bytes, flops, &unknown);
    unknown = rank->exact ? unknown : ZR_MAX(unknown, UNKNOWN_SETTING);
    return (zr_cost){seconds, seconds * unknown};
}

zr_cost zr_virtual_link_cost(const zr_link_speed *link, zr_activity what, double bytes)
{
    int measured = link->rates ? link->rates->setting.together : 0;
    double unknown, crowd = measured && link->together ? (double)link->together / measured : 1,
                    seconds = zr_link_seconds(link->rates, what, bytes * crowd, &unknown);
    return (zr_cost){seconds, seconds * unknown};
}

void zr_virtual_rank_wait(zr_virtual_rank *rank, zr_time_part part, double until)
{
    if (until <= rank->now)
        return;
    rank->parts[part] += until - rank->now;
    rank->now = until;
}

void zr_virtual_rank_spend(zr_virtual_rank *rank, zr_time_part part, zr_cost cost)
{
    double slow = ZR_MAX(rank->slow_until - rank->now, 0), done = slow * rank->speed;
    double taken = cost.seconds <= done ? cost.seconds / rank->speed : slow + (cost.seconds - done);
    rank->unknown += cost.unknown;
    zr_virtual_rank_wait(rank, part, rank->now + taken);
}

void zr_cost_add(zr_cost *sum, zr_cost more)
{
    sum->seconds += more.seconds;
    sum->unknown += more.unknown;
}

zr_cost zr_virtual_tensor_cost(const zr_link_speed *link, zr_activity what, int64_t bytes)
{
    const zr_reach *reach = &link->reach;
    int64_t far = reach->strangers > 0
                      ? zr_reach_bytes(reach, ZERO_COMM_reduce_scatter, bytes, reach->size - 1)
                      : bytes;
    return zr_virtual_link_cost(link, what, (double)far);
}

// Returns what an exchange of tensor ranks costs inside of a call, with which nothing overlaps.
static zr_cost exchange_cost(const zr_virtual_rank *rank, const zr_operation *o)
{
    const zr_link_speed *link = &rank->question->tensor;
    if (!zr_link_is_there(link))
        return zr_virtual_rank_cost(rank, o->what, o->bytes, o->flops, o->calls);
    zr_cost cost = zr_virtual_tensor_cost(link, o->what, o->bytes);
    return (zr_cost){o->calls * cost.seconds, o->calls * cost.unknown};
}

// Returns the cost of a call: of its operations, and of what they leave unexplained.
static zr_call_cost call_cost(const zr_virtual_rank *rank, const zr_operation_list *list,
                              zr_call call)
{
    zr_call_cost cost = {{0}, {0}};
    int64_t count = 0;
    for (const zr_operation *o = list->at; o < list->at + list->count; o++) {
        if (zr_activity_track(o->what) == ZR_TRACK_COMM) {
            zr_cost_add(&cost.exchange, exchange_cost(rank, o));
            continue;
        }
        count += o->calls;
        zr_cost_add(&cost.compute,
                    zr_virtual_rank_cost(rank, o->what, o->bytes, o->flops, o->calls));
    }
    zr_cost_add(&cost.compute, zr_virtual_rank_cost(rank, zr_call_phase(call), count, 0, 1));
    return cost;
}

static void find_call_costs(zr_virtual_rank *rank, const zr_plan_operations *operations)
{
    for (int u = 0; u < operations->unit_count; u++)
        for (int call = 0; call < ZR_OPERATION_CALLS; call++)
            rank->calls[u * ZR_OPERATION_CALLS + call] =
                call_cost(rank, &operations->units[u].calls[call], (zr_call)call);
}

static zero_status reserve_slots(zr_virtual_rank *rank, zr_slot_kind kind, int count,
                                 zero_error *error)
{
    rank->begun[kind] = zr_alloc((size_t)ZR_MAX(count, 1) * sizeof *rank->begun[kind], error);
    return rank->begun[kind] ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status allocate_rank_tables(zr_virtual_rank *rank, zero_error *error)
{
    enum { KEPT_BUFFERS = 2 };
    const zr_plan *plan = rank->plan;
    rank->calls =
        zr_alloc((size_t)plan->unit_count * ZR_OPERATION_CALLS * sizeof *rank->calls, error);
    if (!rank->calls)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(reserve_slots(rank, ZR_SLOT_SUM, plan->flat_param_count, error));
    ZERO_TRY(reserve_slots(rank, ZR_SLOT_GATHER, plan->flat_param_count, error));
    ZERO_TRY(reserve_slots(rank, ZR_SLOT_TRAVELLED, plan->flat_param_count, error));
    ZERO_TRY(reserve_slots(rank, ZR_SLOT_PARKED, plan->flat_param_count, error));
    ZERO_TRY(reserve_slots(rank, ZR_SLOT_FETCHED, plan->program.fetch_count, error));
    return reserve_slots(rank, ZR_SLOT_KEPT, KEPT_BUFFERS, error);
}

// The thread of a rank that exchanges is none of `threads`.
static bool has_spare_core(const zr_forecast_question *question)
{
    const zr_rate_setting *setting = &question->setting;
    return !question->cores || question->cores > setting->threads * setting->together;
}

zero_status zr_virtual_rank_open(const zr_forecast_question *question, int stage,
                                 zr_virtual_rank *out, zero_error *error)
{
    bool exact;
    const zr_rates *rates = zr_rate_book_find(question->book, &question->setting, &exact);
    *out = (zr_virtual_rank){
        .question = question,
        .plan = question->plans[stage],
        .rates = rates,
        .factor = rates ? zr_rates_factor(rates, &question->setting) : 1,
        .exact = exact,
        .spare = has_spare_core(question),
        .speed = 1,
    };
    ZERO_TRY(allocate_rank_tables(out, error));
    find_call_costs(out, &question->operations[stage]);
    return zr_virtual_walks_find(out, error);
}

void zr_virtual_rank_close(zr_virtual_rank *rank)
{
    zr_free(rank->calls);
    zr_free(rank->squares);
    zr_free(rank->group_ends);
    for (int walk = 0; walk < ZR_VIRTUAL_WALKS; walk++)
        zr_free(rank->walks[walk]);
    for (int kind = 0; kind < ZR_SLOT_KIND_COUNT; kind++)
        zr_free(rank->begun[kind]);
}

void zr_virtual_rank_micro_batch(zr_virtual_rank *rank, zr_pass_kind kind, int64_t micro_batch,
                                 bool outdated)
{
    const zr_settings *settings = &rank->plan->settings;
    bool first = micro_batch == 0, later = zr_sum_slots_of(settings, micro_batch).adds > 0,
         last = micro_batch == settings->accumulation - 1;
    uint32_t holds = (uint32_t)first << ZR_FIRST | (uint32_t)later << ZR_LATER |
                     (uint32_t)last << ZR_LAST | 1u << (outdated ? ZR_OUTDATED : ZR_FRESH);
    zr_virtual_rank_run(rank, kind, holds);
}

void zr_virtual_rank_take_tied_weights(zr_virtual_rank *rank, int64_t tied_weights)
{
    for (int64_t i = 0; i < tied_weights; i++)
        zr_virtual_rank_run(rank, ZR_PASS_TIED_WEIGHTS, 1u << ZR_CHANGED);
}

// Every step here has a finite gradient. Parameters are written by a walk of their own where
// updates overlap the next step, and in asynchronous schedules into the copy of a version.
void zr_virtual_rank_end_step(zr_virtual_rank *rank, int64_t tied_weights)
{
    bool overlapped = rank->plan->settings.delayed,
         stale = overlapped || zr_plan_is_asynchronous(rank->plan);
    uint32_t update = 1u << ZR_FINITE | 1u << ZR_CHANGED | (uint32_t)!overlapped << ZR_AT_ONCE |
                      (uint32_t)stale << ZR_STALE;
    zr_virtual_rank_run(rank, ZR_PASS_UPDATE, update);
    zr_virtual_rank_take_tied_weights(rank, tied_weights);
    zr_virtual_rank_run(rank, ZR_PASS_PUBLISH,
                        1u << ZR_CHANGED | (uint32_t)overlapped << ZR_OVERLAPPED);
}
