// The passes of a pipeline: each chunk of units has its own for forward, for backward, for the
// weights' part of a backward in two, and for evaluation. The order in which a stage runs them,
// such as 1F1B, is in plan/pipeline/schedules.c.
#include "plan/emit.h"

static void emit_turns(zr_emitter *e, int first, int end, bool forward)
{
    const zr_plan *plan = e->plan;
    for (int v = first; v < end; v = plan->visits[v].turn_end + 1)
        zr_emit_turn(e, v, forward || plan->units[plan->visits[v].unit].fused);
}

static void emit_chunk(zr_emitter *e, zr_chunk_part part)
{
    const zr_chunk_plan *chunk = &e->plan->chunks[e->chunk];
    switch (part) {
    case ZR_CHUNK_FORWARD:
        emit_turns(e, chunk->first_visit, chunk->backward_visit, true);
        if (chunk->first_visit == chunk->backward_visit)
            zr_emit_link_in(e);
        break;
    case ZR_CHUNK_BACKWARD: emit_turns(e, chunk->backward_visit, chunk->weight_visit, false); break;
    case ZR_CHUNK_WEIGHT: emit_turns(e, chunk->weight_visit, chunk->end_visit, false); break;
    default: zr_emit_evaluation(e); break;
    }
}

const zr_order_emitter zr_emit_pipeline = {.chunk = emit_chunk};
