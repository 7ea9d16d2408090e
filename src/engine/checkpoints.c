// Activation checkpoints on host or NVMe: the boundary that enters a segment leaves the device once forward has written it, and comes back
// while the segment behind it runs backward. Checkpoint i passes through buffer i%2 (plan/activations.c).
#include "engine/internal.h"

static bool travels(const zero_engine *engine, int segment)
{
    return engine->plan->checkpoint_bytes > 0 && zr_checkpoint_bytes(engine->plan, segment) > 0;
}

static char *buffer_of(const zero_engine *engine, int segment)
{
    int unit = 0;
    while (engine->plan->units[unit].segment != segment)
        unit++;
    return engine->checkpoints.base + engine->plan->units[unit - 1].out_first;
}

static zr_range range_of(const zero_engine *engine, int segment)
{
    int64_t first = 0;
    for (int s = 1; s < segment; s++)
        first += zr_checkpoint_bytes(engine->plan, s);
    return (zr_range){first, zr_checkpoint_bytes(engine->plan, segment)};
}

static zero_status move(zero_engine *engine, int segment, bool out, zero_error *error)
{
    return zr_offload_move(engine, &engine->offload.checkpoints, range_of(engine, segment), buffer_of(engine, segment), out, &engine->offload.checkpoint[segment % 2], error);
}

zero_status zr_checkpoints_before_forward(zero_engine *engine, int unit, zero_error *error)
{
    if (!zr_plan_ends_segment(engine->plan, unit) || !engine->plan->checkpoint_bytes)
        return ZERO_OK;
    return zr_offload_await(engine, &engine->offload.checkpoint[(engine->plan->units[unit].segment + 1) % 2], error);
}

zero_status zr_checkpoints_after_forward(zero_engine *engine, int unit, zero_error *error)
{
    int next = engine->plan->units[unit].segment + 1;
    if (!zr_plan_ends_segment(engine->plan, unit) || !travels(engine, next))
        return ZERO_OK;
    return move(engine, next, true, error);
}

// The segment's own checkpoint is there, or begins to come; the one before it comes while this one runs.
zero_status zr_checkpoints_before_backward(zero_engine *engine, const zr_visit *visit, zero_error *error)
{
    int segment = engine->plan->units[visit->unit].segment;
    if (!engine->plan->checkpoint_bytes || engine->offload.checkpoint_segment == segment)
        return ZERO_OK;
    engine->offload.checkpoint_segment = segment;
    ZERO_TRY(zr_offload_await(engine, &engine->offload.checkpoint[segment % 2], error));
    return travels(engine, segment - 1) ? move(engine, segment - 1, false, error) : ZERO_OK;
}
