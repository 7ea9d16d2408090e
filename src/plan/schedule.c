// The static schedule (contract 8): in which order parameters are needed, and which messages follow from it.
#include "base/message.h"
#include "plan/internal.h"

static zr_visit *add_visit(zr_plan *plan, int u, int stream)
{
    zr_visit *visit = &plan->visits[plan->visit_count++];
    *visit = (zr_visit){.unit = u, .stream = stream, .fetches_visit = -1, .reuses = -1};
    for (int i = 0; i < ZERO_MAX_PIECES; i++)
        visit->staged_first[i] = -1;
    return visit;
}

static void add_unit_visit(zr_plan *plan, int u, bool recompute, bool backward, bool reads_all)
{
    const zr_unit_plan *unit = &plan->units[u];
    zr_visit *visit = add_visit(plan, u, -1);
    visit->recompute = recompute;
    visit->backward = backward;
    for (int i = 0; i < unit->piece_count; i++)
        if (!plan->pieces[unit->pieces[i]].streamed && (reads_all || unit->sizes.backward_reads >> i & 1))
            visit->pieces[visit->piece_count++] = unit->pieces[i];
}

// Ascending in forward, descending in backward.
static void add_streams(zr_plan *plan, int u, bool backward)
{
    const zr_unit_plan *unit = &plan->units[u];
    for (int i = 0; i < unit->piece_count; i++) {
        int piece = unit->pieces[backward ? unit->piece_count - 1 - i : i];
        if (!plan->pieces[piece].streamed)
            continue;
        zr_visit *visit = add_visit(plan, u, piece);
        visit->backward = backward;
        if (!backward || unit->sizes.backward_reads_streamed)
            visit->pieces[visit->piece_count++] = piece;
    }
}

static void end_run(zr_plan *plan, int first)
{
    for (int v = first; v < plan->visit_count; v++)
        plan->visits[v].run_end = plan->visit_count - 1;
}

static void add_run(zr_plan *plan, int u, bool recompute, bool backward)
{
    int first = plan->visit_count;
    add_unit_visit(plan, u, recompute, backward, !backward || recompute);
    if (!backward || recompute)
        add_streams(plan, u, false);
    if (backward)
        add_streams(plan, u, true);
    end_run(plan, first);
}

// The last unit's forward_backward: what an evaluation runs of it ends before backward's streams.
static void add_fused_run(zr_plan *plan, int u)
{
    int first = plan->visit_count;
    add_unit_visit(plan, u, false, true, true);
    add_streams(plan, u, false);
    plan->forward_visits = plan->visit_count;
    add_streams(plan, u, true);
    end_run(plan, first);
}

// What of a segment was computed long ago is computed again when its backward begins: its last unit in one run with its backward.
static void add_backward(zr_plan *plan, int u)
{
    const zr_unit_plan *unit = &plan->units[u];
    bool again = unit->segment < plan->segment_count - 1 && zr_plan_ends_segment(plan, u);
    int first = u;
    while (again && first > 0 && plan->units[first - 1].segment == unit->segment)
        first--;
    for (int before = first; before < u; before++)
        add_run(plan, before, true, false);
    add_run(plan, u, again, true);
}

static size_t most_visits(const zr_plan *plan)
{
    size_t most = 0;
    for (int u = 0; u < plan->unit_count; u++)
        most += 3 + 4 * (size_t)plan->units[u].piece_count;
    return most;
}

zero_status zr_plan_visits(zr_plan *plan, zero_error *error)
{
    plan->visits = zr_alloc(sizeof *plan->visits * most_visits(plan), error);
    if (!plan->visits)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < plan->unit_count; u++) {
        if (plan->units[u].fused)
            add_fused_run(plan, u);
        else
            add_run(plan, u, false, false);
    }
    if (!plan->units[plan->unit_count - 1].fused)
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

static void seal(zr_traffic_plan *traffic, const zr_plan *plan, int visit, int *next)
{
    for (; *next < plan->sealed_count && plan->pieces[plan->sealed[*next]].sealed_at == visit; (*next)++)
        message(traffic, plan, ZERO_COMM_reduce_scatter, plan->sealed[*next], plan->pieces[plan->sealed[*next]].gradient_dtype, plan->ranks - 1);
}

static void micro_batch(zr_traffic_plan *traffic, const zr_plan *plan)
{
    int next = 0;
    for (int v = 0; v < plan->visit_count; v++) {
        acquire(traffic, plan, v, plan->visit_count);
        seal(traffic, plan, v, &next);
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
