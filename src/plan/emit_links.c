// What comes from the chunks before and after, and goes to them. A slot of a link is received as
// late, and sent as early, as the unit that reads or writes it allows.
//
//   forward    RECEIVE activations | first unit .. last unit | SEND activations
//   backward   RECEIVE gradients | last unit | GIVE .. first unit | SEND, GIVE activations
//
// What a chunk has received is its first unit's input, which backward reads too, so it is given
// back last: with a backward in two parts, after the weights' part.
#include "plan/emit.h"

void zr_emit_link(zr_emitter *e, zr_code code, int link)
{
    if (link < 0)
        return;
    zr_emit(e, &(zr_instruction){.code = code,
                                 .flat_param = -1,
                                 .bytes = e->plan->links[link].message,
                                 .slot = {ZR_SLOT_LINK, link}});
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

static const zr_chunk_plan *current_chunk(const zr_emitter *e)
{
    return &e->plan->chunks[e->chunk];
}

static bool is_first(const zr_emitter *e) { return e->unit == current_chunk(e)->first_unit; }

static bool is_last(const zr_emitter *e) { return e->unit == current_chunk(e)->end_unit - 1; }

static bool is_backward(zr_call what)
{
    return what == ZR_CALL_BACKWARD || what == ZR_CALL_INPUT || what == ZR_CALL_BOTH;
}

void zr_emit_link_in(zr_emitter *e)
{
    e->unit = current_chunk(e)->first_unit;
    emit_receive(e, current_chunk(e)->input);
}

void zr_emit_link_before(zr_emitter *e, zr_call what)
{
    const zr_chunk_plan *chunk = current_chunk(e);
    if (what == ZR_CALL_FORWARD && is_first(e))
        emit_receive(e, chunk->input);
    if (what == ZR_CALL_FORWARD && is_last(e))
        zr_emit_link(e, ZR_TAKE, chunk->output);
    if (is_backward(what) && is_last(e))
        emit_receive(e, chunk->gradient_in);
    if (is_backward(what) && is_first(e))
        zr_emit_link(e, ZR_TAKE, chunk->gradient_out);
}

void zr_emit_link_after(zr_emitter *e, zr_call what)
{
    const zr_chunk_plan *chunk = current_chunk(e);
    bool done = what == ZR_CALL_WEIGHT || (is_backward(what) && !e->plan->units[e->unit].split) ||
                (what == ZR_CALL_FORWARD && !e->trains);
    if (what == ZR_CALL_FORWARD && is_last(e))
        zr_emit_link(e, ZR_SEND, chunk->output);
    if (is_backward(what) && is_first(e))
        zr_emit_link(e, ZR_SEND, chunk->gradient_out);
    if (is_backward(what) && is_last(e))
        zr_emit_link(e, ZR_GIVE, chunk->gradient_in);
    if (done && is_first(e))
        zr_emit_link(e, ZR_GIVE, chunk->input);
}
