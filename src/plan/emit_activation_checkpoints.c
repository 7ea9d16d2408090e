// Activation checkpoints that go through the two buffers: the boundary that enters a segment goes
// to its store once forward has written it, and comes back while the next segment runs backward.
// That of segment s goes through buffer s%2 (activations.c). Where tensor ranks divide it, only
// this rank's share goes and comes, and the shares are brought together when the segment runs
// again.
#include "plan/emit.h"

static bool checkpoint_travels(const zr_plan *plan, int segment)
{
    return zr_activation_checkpoint_bytes(plan, segment) > 0;
}

static int64_t first_in_store(const zr_plan *plan, int segment)
{
    const zr_chunk_plan *chunk = zr_plan_chunk_of(plan, zr_plan_segment_first(plan, segment));
    int64_t first = chunk->stored_first;
    for (int s = chunk->first_segment; s < segment; s++)
        first += zr_activation_checkpoint_bytes(plan, s);
    return first;
}

static zr_buffer_ref place_of_buffer(const zr_plan *plan, int segment)
{
    const zr_unit_plan *entering = &plan->units[zr_plan_segment_first(plan, segment) - 1];
    return (zr_buffer_ref){ZR_BUFFER_ACTIVATION_CHECKPOINTS, entering->out_first};
}

static zr_buffer_ref place_of_share(const zr_plan *plan, int segment)
{
    zr_buffer_ref place = place_of_buffer(plan, segment);
    if (plan->checkpoint_shares > 1)
        place.first += plan->tensor_rank * zr_activation_checkpoint_bytes(plan, segment);
    return place;
}

static void move_checkpoint(zr_emitter *e, zr_code code, int segment)
{
    const zr_plan *plan = e->plan;
    const zr_buffer_ref buffer = place_of_share(plan, segment);
    const zr_buffer_ref stored = {ZR_BUFFER_STORED, first_in_store(plan, segment)};
    bool comes = code == ZR_FETCH;
    zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_KEPT, segment % 2);
    zr_emit(e, &(zr_instruction){.code = code,
                                 .flat_param = -1,
                                 .place = comes ? buffer : stored,
                                 .from = comes ? stored : buffer,
                                 .bytes = zr_activation_checkpoint_bytes(plan, segment),
                                 .slot = {ZR_SLOT_KEPT, segment % 2}});
}

static void join_checkpoint_shares(zr_emitter *e, int segment)
{
    const zr_plan *plan = e->plan;
    int others = plan->checkpoint_shares - 1;
    zr_emit(e, &(zr_instruction){.code = ZR_JOIN,
                                 .flat_param = -1,
                                 .place = place_of_buffer(plan, segment),
                                 .from = place_of_share(plan, segment),
                                 .bytes = others * zr_activation_checkpoint_bytes(plan, segment)});
}

// Before a unit writes an activation checkpoint, waits until its buffer has been written out.
void zr_emit_activation_checkpoint_before_forward(zr_emitter *e, int unit)
{
    int next = e->plan->units[unit].segment + 1;
    bool enters = zr_plan_ends_segment(e->plan, unit) && next < e->plan->segment_count;
    if (enters && e->plan->activation_checkpoint_bytes)
        zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_KEPT, next % 2);
}

void zr_emit_activation_checkpoint_after_forward(zr_emitter *e, int unit)
{
    int next = e->plan->units[unit].segment + 1;
    if (zr_plan_ends_segment(e->plan, unit) && checkpoint_travels(e->plan, next))
        move_checkpoint(e, ZR_STORE, next);
}

// Waits for the segment's own activation checkpoint, and fetches the one before while this segment
// runs. The fetch begins first, because it can go on while ranks bring shares together. The first
// segment of a pass has nobody before it that could have fetched its own.
void zr_emit_activation_checkpoint_before_backward(zr_emitter *e, int unit)
{
    int segment = e->plan->units[unit].segment;
    if (!e->plan->activation_checkpoint_bytes || e->segment == segment)
        return;
    if (e->segment < 0 && checkpoint_travels(e->plan, segment))
        move_checkpoint(e, ZR_FETCH, segment);
    e->segment = segment;
    zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_KEPT, segment % 2);
    if (checkpoint_travels(e->plan, segment - 1) &&
        segment > e->plan->chunks[e->chunk].first_segment)
        move_checkpoint(e, ZR_FETCH, segment - 1);
    if (e->plan->checkpoint_shares > 1 && checkpoint_travels(e->plan, segment))
        join_checkpoint_shares(e, segment);
}
