// The static schedule (contract 8): in which order parameters are needed, and which messages follow from it.
#include "base/message.h"
#include "plan/internal.h"

static void add_visit(zr_plan *plan, int u, bool recompute, bool backward)
{
    const zr_unit_plan *unit = &plan->units[u];
    zr_visit *visit = &plan->visits[plan->visit_count++];
    *visit = (zr_visit){.unit = u, .recompute = recompute, .backward = backward, .fetches_visit = -1};
    for (int i = 0; i < unit->piece_count; i++) {
        visit->staged_first[i] = -1;
        if (!backward || recompute || unit->sizes.backward_reads >> i & 1)
            visit->pieces[visit->piece_count++] = unit->pieces[i];
    }
}

// What of a segment was computed long ago is computed again when its backward begins: its last unit in one visit with its backward.
static void add_backward(zr_plan *plan, int u)
{
    const zr_unit_plan *unit = &plan->units[u];
    bool again = unit->segment < plan->segment_count - 1 && zr_plan_ends_segment(plan, u);
    int first = u;
    while (again && first > 0 && plan->units[first - 1].segment == unit->segment)
        first--;
    for (int before = first; before < u; before++)
        add_visit(plan, before, true, false);
    add_visit(plan, u, again, true);
}

zero_status zr_plan_visits(zr_plan *plan, zero_error *error)
{
    plan->visits = zr_alloc(sizeof *plan->visits * (size_t)plan->unit_count * 3, error);
    if (!plan->visits)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < plan->unit_count; u++)
        add_visit(plan, u, false, false);
    plan->forward_visits = plan->visit_count;
    for (int u = plan->unit_count - 1; u >= 0 && !plan->settings.inference; u--)
        if (!plan->units[u].fused)
            add_backward(plan, u);
    return ZERO_OK;
}

// dtype: of what moves; shards: that this rank fetches.
static void message(zr_traffic_plan *traffic, const zr_plan *plan, zero_comm_op op, int piece, zero_dtype dtype, int shards)
{
    int64_t shard = plan->pieces[piece].shard;
    traffic->hash = zr_message_fold(traffic->hash, op, piece, shard);
    traffic->messages++;
    traffic->calls[op]++;
    traffic->bytes[op] += shards * shard * (int64_t)zero_dtype_bytes(dtype);
}

// Nothing moves where a piece is mapped, or kept since an earlier visit (of the first forward after the weights have changed). Ranks
// that share what they gather divide the shards of other machines: this many each where machines have equal ranks.
static int shards_gathered(const zr_plan *plan, const zr_visit *visit, int i)
{
    if (plan->mapped || !visit->gathers[i])
        return 0;
    if (plan->machine_ranks > 1)
        return (plan->ranks - 1) / plan->machine_ranks;
    return plan->ranks - 1;
}

static void gather_visit(zr_traffic_plan *traffic, const zr_plan *plan, int v)
{
    for (int i = 0; i < plan->visits[v].piece_count; i++) {
        int piece = plan->visits[v].pieces[i];
        message(traffic, plan, ZERO_COMM_all_gather, piece, plan->pieces[piece].dtype, shards_gathered(plan, &plan->visits[v], i));
    }
}

// What acquiring visit v emits: itself where pieces are mapped or it was not gathered ahead, and the next one ahead.
static void acquire(zr_traffic_plan *traffic, const zr_plan *plan, int v, int visits)
{
    if (plan->settings.stage < 3)
        return;
    if (!plan->visits[v].ahead)
        gather_visit(traffic, plan, v);
    if (v + 1 < visits && plan->visits[v + 1].ahead)
        gather_visit(traffic, plan, v + 1);
}

static void seal(zr_traffic_plan *traffic, const zr_plan *plan, int unit)
{
    for (int p = 0; p < plan->piece_count; p++)
        if (plan->pieces[p].last_backward == unit)
            message(traffic, plan, ZERO_COMM_reduce_scatter, p, plan->pieces[p].gradient_dtype, plan->ranks - 1);
}

static void micro_batch(zr_traffic_plan *traffic, const zr_plan *plan)
{
    for (int v = 0; v < plan->visit_count; v++) {
        const zr_visit *visit = &plan->visits[v];
        acquire(traffic, plan, v, plan->visit_count);
        if (visit->backward || plan->units[visit->unit].fused)
            seal(traffic, plan, visit->unit);
    }
}

static void gather_trained(zr_traffic_plan *traffic, const zr_plan *plan, bool gradients)
{
    for (int p = 0; p < plan->piece_count; p++) {
        const zr_piece *piece = &plan->pieces[p];
        if (piece->first_backward >= 0)
            message(traffic, plan, ZERO_COMM_all_gather, p, gradients ? piece->accumulator_dtype : piece->dtype, plan->ranks - 1);
    }
}

void zr_plan_messages(zr_plan *plan)
{
    for (int s = 0; s < ZR_SEGMENT_COUNT; s++)
        plan->segments[s] = (zr_traffic_plan){.hash = ZR_MESSAGE_SEED};
    if (!plan->settings.inference)
        micro_batch(&plan->segments[ZR_SEGMENT_MICRO_BATCH], plan);
    if (plan->settings.stage == 0)
        gather_trained(&plan->segments[ZR_SEGMENT_BOUNDARY], plan, true);
    if (plan->settings.stage == 1 || plan->settings.stage == 2)
        gather_trained(&plan->segments[ZR_SEGMENT_UPDATE], plan, false);
    for (int v = 0; v < plan->forward_visits; v++)
        acquire(&plan->segments[ZR_SEGMENT_EVAL], plan, v, plan->forward_visits);
}
