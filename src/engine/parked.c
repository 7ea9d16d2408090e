// Contributions to a streamed piece that wait for those of another unit (wte: the head's for the embedding's): after the visit that made
// them they leave the open arena for the parked vector, and come back while the visit before the next contribution computes.
#include "engine/internal.h"

static zr_range range_of(const zr_piece *piece)
{
    return (zr_range){piece->parked_first, piece->padded * (int64_t)sizeof(float)};
}

static char *place_of(const zero_engine *engine, const zr_visit *visit)
{
    return engine->open.base + visit->open_first;
}

static zero_status move(zero_engine *engine, const zr_visit *visit, bool out, zero_error *error)
{
    const zr_piece *piece = &engine->plan->pieces[visit->stream];
    return zr_offload_move(engine, &engine->offload.parked, range_of(piece), place_of(engine, visit), out, &engine->offload.parking[visit->stream], error);
}

zero_status zr_parked_await(zero_engine *engine, const float *place, int64_t elems, zero_error *error)
{
    const char *begin = (const char *)place, *end = (const char *)(place + elems);
    for (int p = 0; p < engine->plan->piece_count && engine->plan->parked_bytes; p++) {
        zr_transfer *transfer = &engine->offload.parking[p];
        const char *data = transfer->data;
        if (transfer->store && data < end && begin < data + range_of(&engine->plan->pieces[p]).count)
            ZERO_TRY(zr_offload_await(engine, transfer, error));
    }
    return ZERO_OK;
}

static zero_status begin_return(zero_engine *engine, int visit, zero_error *error)
{
    const zr_visit *returning = &engine->plan->visits[visit];
    const zr_piece *piece = &engine->plan->pieces[returning->stream];
    ZERO_TRY(zr_parked_await(engine, (const float *)(const void *)place_of(engine, returning), piece->padded, error));
    return move(engine, returning, false, error);
}

// The plan's order: visit v's own, unless the visit before has begun it, then that of v+1.
zero_status zr_parked_bring(zero_engine *engine, int visit, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    const zr_visit *now = &plan->visits[visit];
    if (now->returns && engine->offload.returned < visit)
        ZERO_TRY(begin_return(engine, visit, error));
    if (visit + 1 < plan->visit_count && plan->visits[visit + 1].returns) {
        ZERO_TRY(begin_return(engine, visit + 1, error));
        engine->offload.returned = visit + 1;
    }
    return now->returns ? zr_offload_await(engine, &engine->offload.parking[now->stream], error) : ZERO_OK;
}

zero_status zr_parked_take(zero_engine *engine, int visit, zero_error *error)
{
    const zr_visit *now = &engine->plan->visits[visit];
    return now->parks ? move(engine, now, true, error) : ZERO_OK;
}
