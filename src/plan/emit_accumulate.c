// The order of accumulation: a micro-batch is the forward of every unit and then the backward of
// every unit, and the next one begins after it. First the visits are listed (plan/visit.h), along
// which gathers.c and reduction.c decide what happens when; then the passes are written.
//
// In a pipeline each chunk of units has its own passes: for forward, for backward, for the weights'
// part of a backward in two, and for evaluation. The order in which a stage runs them, such as
// 1F1B, is in plan/pipeline/schedules.c. A slot of a link between chunks is received as late, and
// sent as early, as the unit that reads or writes it allows.
//
//   forward    RECEIVE activations | first unit .. last unit | SEND activations
//   backward   RECEIVE gradients | last unit | GIVE .. first unit | SEND, GIVE activations
//
// What a chunk has received is its first unit's input, which backward reads too, so it is given
// back last: with a backward in two parts, after the weights' part.
#include "plan/emit.h"

#include "plan/plan_parts.h"

static const uint32_t ALL = UINT32_MAX; // flat parameters of a unit

static zr_visit *add_visit(zr_plan *plan, int u, int stream)
{
    zr_visit *visit = &plan->visits[plan->visit_count++];
    *visit = (zr_visit){.unit = u, .stream = stream, .reuses = -1};
    return visit;
}

// Adds the visit of a unit itself. reads: a bit for each of its flat parameters.
static zr_visit *add_unit_visit(zr_plan *plan, int u, zr_visit_kind kind, uint32_t reads)
{
    const zr_unit_plan *unit = &plan->units[u];
    zr_visit *visit = add_visit(plan, u, -1);
    visit->kind = kind;
    for (int i = 0; i < unit->flat_param_count; i++)
        if (!plan->flat_params[unit->flat_params[i]].streamed && reads >> i & 1)
            visit->flat_params[visit->flat_param_count++] = unit->flat_params[i];
    return visit;
}

// Adds the visits of streamed flat parameters, ascending in forward and descending in backward.
static void add_stream_visits(zr_plan *plan, int u, zr_visit_kind kind)
{
    bool backward = kind == ZR_VISIT_BACKWARD;
    const zr_unit_plan *unit = &plan->units[u];
    for (int i = 0; i < unit->flat_param_count; i++) {
        int flat_param = unit->flat_params[backward ? unit->flat_param_count - 1 - i : i];
        if (!plan->flat_params[flat_param].streamed)
            continue;
        zr_visit *visit = add_visit(plan, u, flat_param);
        visit->kind = kind;
        if (!backward || unit->sizes.backward_reads_streamed)
            visit->flat_params[visit->flat_param_count++] = flat_param;
    }
}

static void end_turn(zr_plan *plan, int first)
{
    for (int v = first; v < plan->visit_count; v++)
        plan->visits[v].turn_end = plan->visit_count - 1;
}

// Adds a turn; that of a last unit's forward_backward is one of backward. Returns where the streams
// of forward end: an evaluation runs the turn up to there.
static int add_turn(zr_plan *plan, int u, zr_visit_kind kind)
{
    int first = plan->visit_count;
    bool has_forward = kind != ZR_VISIT_BACKWARD || plan->units[u].fused;
    add_unit_visit(plan, u, kind, has_forward ? ALL : plan->units[u].sizes.backward_reads);
    if (has_forward)
        add_stream_visits(plan, u, ZR_VISIT_FORWARD);
    int forward_end = plan->visit_count;
    if (zr_visit_has_backward(kind))
        add_stream_visits(plan, u, ZR_VISIT_BACKWARD);
    end_turn(plan, first);
    return forward_end;
}

// Adds the backward of a unit. Where a segment has to be computed again, this happens when the
// backward of its last unit begins, and that unit does both in one turn.
static void add_backward(zr_plan *plan, int u)
{
    const zr_unit_plan *unit = &plan->units[u];
    bool again = zr_plan_computes_again(plan, unit->segment) && zr_plan_ends_segment(plan, u);
    int first = u;
    while (again && first > 0 && plan->units[first - 1].segment == unit->segment)
        first--;
    for (int before = first; before < u; before++)
        add_turn(plan, before, ZR_VISIT_RECOMPUTE);
    add_turn(plan, u, again ? ZR_VISIT_RECOMPUTE_BACKWARD : ZR_VISIT_BACKWARD);
    for (int v = plan->visit_count; v-- > 0 && plan->visits[v].unit == u && unit->split;)
        plan->visits[v].of_input = zr_visit_has_backward(plan->visits[v].kind);
}

// Adds the second part of the backward of a unit, which has no streamed flat parameters.
static void add_weight_visit(zr_plan *plan, int u)
{
    zr_visit *visit = add_unit_visit(plan, u, ZR_VISIT_BACKWARD, plan->units[u].sizes.weight_reads);
    visit->of_weights = true;
    visit->turn_end = plan->visit_count - 1;
}

static size_t most_visits(const zr_plan *plan)
{
    size_t most = 0;
    for (int u = 0; u < plan->unit_count; u++)
        most += 4 + 4 * (size_t)plan->units[u].flat_param_count;
    return most;
}

static void end_pass(zr_plan *plan, int first, int end)
{
    for (int v = first; v < end; v++)
        plan->visits[v].pass_end = end;
}

// Says where passes end: nothing is gathered, and no sum is under way, from one to the next.
static void end_passes(zr_plan *plan, const zr_chunk_plan *chunk)
{
    if (!plan->pipeline) {
        end_pass(plan, 0, plan->visit_count);
        return;
    }
    end_pass(plan, chunk->first_visit, chunk->backward_visit);
    end_pass(plan, chunk->backward_visit, chunk->weight_visit);
    end_pass(plan, chunk->weight_visit, chunk->end_visit);
}

static void add_chunk(zr_plan *plan, zr_chunk_plan *chunk)
{
    int first = chunk->first_unit, end = chunk->end_unit;
    chunk->first_visit = plan->visit_count;
    for (int u = first; u < end; u++)
        if (!plan->units[u].fused)
            add_turn(plan, u, ZR_VISIT_FORWARD);
    chunk->backward_visit = chunk->forward_end = plan->visit_count;
    if (plan->units[end - 1].fused)
        chunk->forward_end = add_turn(plan, end - 1, ZR_VISIT_BACKWARD);
    for (int u = end - 1; u >= first && !plan->settings.inference; u--)
        if (!plan->units[u].fused)
            add_backward(plan, u);
    chunk->weight_visit = plan->visit_count;
    for (int u = end - 1; u >= first; u--)
        if (plan->units[u].split)
            add_weight_visit(plan, u);
    chunk->end_visit = plan->visit_count;
    end_passes(plan, chunk);
}

zero_status zr_plan_visits(zr_plan *plan, zero_error *error)
{
    plan->visits = zr_alloc(sizeof *plan->visits * most_visits(plan), error);
    if (!plan->visits)
        return ZERO_ERR_MEMORY;
    for (int c = 0; c < plan->chunk_count; c++)
        add_chunk(plan, &plan->chunks[c]);
    return ZERO_OK;
}

// Receives; where tensor ranks have sent shares, these are brought together in the slot.
static void emit_receive(zr_emitter *e, int link)
{
    zr_emit_link(e, ZR_RECEIVE, link);
    if (link >= 0 && e->plan->pipeline->divides)
        zr_emit(e, &(zr_instruction){.code = ZR_JOIN,
                                     .flat_param = -1,
                                     .bytes =
                                         (e->plan->tensor_ranks - 1) * e->plan->links[link].message,
                                     .slot = {ZR_SLOT_LINK, link}});
}

static bool is_backward(zr_call what)
{
    return what == ZR_CALL_BACKWARD || what == ZR_CALL_INPUT || what == ZR_CALL_BOTH;
}

// Before a call of the emitter's unit: receives from other chunks, and takes what goes to them.
static void begin_links(zr_emitter *e, zr_call what)
{
    const zr_chunk_plan *chunk = &e->plan->chunks[e->chunk];
    bool first = e->unit == chunk->first_unit, last = e->unit == chunk->end_unit - 1;
    if (what == ZR_CALL_FORWARD && first)
        emit_receive(e, chunk->input);
    if (what == ZR_CALL_FORWARD && last)
        zr_emit_link(e, ZR_TAKE, chunk->output);
    if (is_backward(what) && last)
        emit_receive(e, chunk->gradient_in);
    if (is_backward(what) && first)
        zr_emit_link(e, ZR_TAKE, chunk->gradient_out);
}

// After a call of the emitter's unit: sends to other chunks, and gives back what came from them.
static void end_links(zr_emitter *e, zr_call what)
{
    const zr_chunk_plan *chunk = &e->plan->chunks[e->chunk];
    bool first = e->unit == chunk->first_unit, last = e->unit == chunk->end_unit - 1;
    bool done = what == ZR_CALL_WEIGHT || (is_backward(what) && !e->plan->units[e->unit].split) ||
                (what == ZR_CALL_FORWARD && !e->trains);
    if (what == ZR_CALL_FORWARD && last)
        zr_emit_link(e, ZR_SEND, chunk->output);
    if (is_backward(what) && first)
        zr_emit_link(e, ZR_SEND, chunk->gradient_out);
    if (is_backward(what) && last)
        zr_emit_link(e, ZR_GIVE, chunk->gradient_in);
    if (done && first)
        zr_emit_link(e, ZR_GIVE, chunk->input);
}

static void begin_visit(zr_emitter *e, int v, int visits)
{
    e->stage->acquire(e, v, visits);
    if (e->trains && e->plan->visits[v].stream >= 0 &&
        zr_visit_has_backward(e->plan->visits[v].kind))
        zr_emit_gradients_open(e, v);
}

static void end_visit(zr_emitter *e, int v)
{
    const zr_visit *visit = &e->plan->visits[v];
    for (int i = 0; i < visit->flat_param_count; i++)
        zr_emit_unbind(e, visit->flat_params[i], ZR_BUFFER_PARAMETERS);
}

// Writes a call of one of the unit's functions. Visits [first, end) are its body: streamed flat
// parameters that come and go. What the turn's last visit seals is sealed after the call, together
// with what the unit's own visit seals.
static void emit_call(zr_emitter *e, zr_call what, int first, int end, int visits)
{
    begin_links(e, what);
    int call = e->pass->count;
    zr_emit(e, &(zr_instruction){.code = ZR_CALL, .what = what, .flat_param = -1});
    for (int v = first; v < end; v++) {
        const zr_visit *visit = &e->plan->visits[v];
        begin_visit(e, v, visits);
        zr_emit_mark(e, ZR_BEGUN, visit->stream);
        end_visit(e, v);
        if (e->trains && visit->turn_end != v)
            zr_emit_gradients_close(e, v);
        zr_emit_mark(e, ZR_ENDED, visit->stream);
    }
    if (e->status == ZERO_OK)
        e->pass->at[call].body = e->pass->count - call - 1;
    end_links(e, what);
}

// Returns the first visit of the turn's streamed flat parameters in backward, or the end of the
// turn.
static int first_backward_stream(const zr_plan *plan, int v, int end)
{
    int w = v + 1;
    while (w < end && plan->visits[w].kind != ZR_VISIT_BACKWARD)
        w++;
    return w;
}

static void emit_calls_of_unit(zr_emitter *e, int v, int end)
{
    const zr_visit *visit = &e->plan->visits[v];
    int middle = first_backward_stream(e->plan, v, end);
    if (e->plan->units[visit->unit].fused) {
        zr_emit_gradients_open(e, v);
        emit_call(e, ZR_CALL_BOTH, v + 1, end, visit->pass_end);
        return;
    }
    if (visit->kind != ZR_VISIT_BACKWARD)
        emit_call(e, zr_visit_recomputes(visit->kind) ? ZR_CALL_AGAIN : ZR_CALL_FORWARD, v + 1,
                  middle, visit->pass_end);
    if (!zr_visit_has_backward(visit->kind))
        return;
    if (!visit->of_input)
        zr_emit_gradients_open(e, v);
    emit_call(e,
              visit->of_input     ? ZR_CALL_INPUT
              : visit->of_weights ? ZR_CALL_WEIGHT
                                  : ZR_CALL_BACKWARD,
              middle, end, visit->pass_end);
}

void zr_emit_turn(zr_emitter *e, int v, bool forward)
{
    int unit = e->plan->visits[v].unit, end = e->plan->visits[v].turn_end;
    e->unit = unit;
    if (!forward)
        zr_emit_activation_checkpoint_before_backward(e, unit);
    begin_visit(e, v, e->plan->visits[v].pass_end);
    if (zr_visit_adds(&e->plan->visits[v]))
        zr_emit_gradients_reserve(e, v);
    if (forward)
        zr_emit_activation_checkpoint_before_forward(e, unit);
    emit_calls_of_unit(e, v, end + 1);
    end_visit(e, v);
    if (e->plan->visits[v].of_input)
        zr_emit_reductions_end(e, end);
    else
        zr_emit_gradients_close(e, end);
    if (forward)
        zr_emit_activation_checkpoint_after_forward(e, unit);
}

static void emit_turns(zr_emitter *e, int first, int end, bool forward)
{
    const zr_plan *plan = e->plan;
    for (int v = first; v < end; v = plan->visits[v].turn_end + 1)
        zr_emit_turn(e, v, forward || plan->units[plan->visits[v].unit].fused);
}

// Writes a micro-batch. Forward ends with the last unit's turn, which includes its backward if the
// two are one call.
static void emit_micro_batch(zr_emitter *e)
{
    const zr_plan *plan = e->plan;
    int backward = plan->chunks[0].backward_visit;
    if (plan->units[plan->unit_count - 1].fused)
        backward = plan->visits[backward].turn_end + 1;
    emit_turns(e, 0, backward, true);
    e->pass->forward_end = e->pass->count;
    emit_turns(e, backward, plan->visit_count, false);
}

void zr_emit_evaluation(zr_emitter *e)
{
    const zr_plan *plan = e->plan;
    const zr_chunk_plan *chunk = &plan->chunks[e->chunk];
    for (int v = chunk->first_visit, end; v < chunk->forward_end; v = end) {
        end = ZR_MIN(plan->visits[v].turn_end + 1, chunk->forward_end);
        e->unit = plan->visits[v].unit;
        begin_visit(e, v, chunk->forward_end);
        emit_call(e, ZR_CALL_FORWARD, v + 1, end, chunk->forward_end);
        end_visit(e, v);
    }
}

static void emit_chunk(zr_emitter *e, zr_chunk_part part)
{
    const zr_chunk_plan *chunk = &e->plan->chunks[e->chunk];
    switch (part) {
    case ZR_CHUNK_FORWARD:
        emit_turns(e, chunk->first_visit, chunk->backward_visit, true);
        if (chunk->first_visit == chunk->backward_visit) { // its only unit does both in one call
            e->unit = chunk->first_unit;
            emit_receive(e, chunk->input);
        }
        break;
    case ZR_CHUNK_BACKWARD: emit_turns(e, chunk->backward_visit, chunk->weight_visit, false); break;
    case ZR_CHUNK_WEIGHT: emit_turns(e, chunk->weight_visit, chunk->end_visit, false); break;
    default: zr_emit_evaluation(e); break;
    }
}

const zr_order_emitter zr_emit_accumulate = {
    .micro_batch = emit_micro_batch,
    .evaluation = zr_emit_evaluation,
};

const zr_order_emitter zr_emit_pipeline = {.chunk = emit_chunk};
