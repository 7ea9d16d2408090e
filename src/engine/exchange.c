// Instructions that exchange data with other ranks: they gather parameters, sum gradients into
// their owners' accumulators, and publish and release versions.
#include "comm/versions.h"
#include "engine/execute.h"
#include "engine/gradients.h"
#include "engine/interpret.h"
#include "engine/parameters.h"
#include "plan/piece_sums.h"

#include <string.h>

static zr_window *window_of(zero_engine *engine, zr_space space)
{
    switch (space) {
    case ZR_SPACE_PARAMETERS: return &engine->params;
    case ZR_SPACE_GATHERED: return &engine->gathers;
    case ZR_SPACE_WHOLES: return &engine->wholes;
    default: return &engine->grads;
    }
}

static zero_status gather_replica(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_piece *piece = &engine->plan->pieces[i->piece];
    int64_t at = i->place.first + engine->copy * engine->plan->full_bytes;
    return zr_comm_start(&engine->params, ZERO_COMM_all_gather, i->piece, at, piece->shard,
                         piece->dtype, NULL, &engine->gathering[i->piece], error);
}

static zero_status gather_shards(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_piece *piece = &engine->plan->pieces[i->piece];
    bool staged = i->from.space == ZR_SPACE_STAGED_PARAMETERS;
    const void *own = staged ? zr_place_at(engine, i->from) : zr_own_parameters(engine, i->piece);
    if (piece->parameter_tier != ZERO_TIER_device)
        engine->offload.to_device += zr_piece_shard_bytes(piece);
    return zr_comm_start_gather(&engine->gathers, i->piece, i->place.first, piece->shard,
                                piece->dtype, own, &engine->gathering[i->piece], error);
}

// Copies the own sum to its place in the window first, unless it was summed up there.
static zero_status gather_sums(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_piece *piece = &engine->plan->pieces[i->piece];
    int64_t bytes = zr_piece_sum_bytes(piece);
    char *own = zr_place_at(engine, i->place) + engine->grid.data->rank * bytes;
    const void *sum = zr_own_shard_gradient(engine, i->piece);
    if (own != sum)
        memcpy(own, sum, (size_t)bytes);
    return zr_comm_start(window_of(engine, i->place.space), ZERO_COMM_all_gather, i->piece,
                         i->place.first, piece->shard, piece->accumulator_dtype, NULL,
                         &engine->gathering[i->piece], error);
}

zero_status zr_execute_gather(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    switch (i->place.space) {
    case ZR_SPACE_NONE:
        zr_comm_count_mapped(engine->grid.data, i->piece, engine->plan->pieces[i->piece].shard);
        return ZERO_OK;
    case ZR_SPACE_PARAMETERS: return gather_replica(engine, i, error);
    case ZR_SPACE_GATHERED: return gather_shards(engine, i, error);
    default: return gather_sums(engine, i, error);
    }
}

// All gradients are accumulated here: this micro-batch's sum over the ranks is added to earlier
// sums in fp32, and rounded once.
zero_status zr_execute_reduce(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_piece *piece = &engine->plan->pieces[i->piece];
    const zr_sum_slots place = zr_grads_sum_slots(engine);
    const zr_sum_target to = {zr_grads_reduced_shard(engine, i->piece, place.slot),
                              piece->accumulator_dtype, place.adds, piece->shard};
    if (piece->state_tier != ZERO_TIER_device)
        engine->offload.to_host += zr_piece_sum_bytes(piece);
    return zr_comm_start(&engine->grads, ZERO_COMM_reduce_scatter, i->piece, i->place.first,
                         piece->shard, piece->gradient_dtype, &to, &engine->reducing[i->piece],
                         error);
}

// Each copy of a piece has a slot and versions of its own.
static int version_slot(const zero_engine *engine, int piece)
{
    return engine->copy * engine->plan->piece_count + piece;
}

zero_status zr_execute_release(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_version_ops *versions = engine->grid.data->versions;
    return versions->release(&engine->params, version_slot(engine, i->piece),
                             engine->published[engine->copy], error);
}

zero_status zr_execute_publish(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_version_ops *versions = engine->grid.data->versions;
    return versions->publish(&engine->params, version_slot(engine, i->piece),
                             engine->published[engine->copy], error);
}

static zero_status await_exchange(zr_handle *handle, zero_error *error)
{
    return handle->pending ? zr_comm_wait(handle, error) : ZERO_OK;
}

zero_status zr_execute_await(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_version_ops *versions = engine->grid.data->versions;
    zr_offload *offload = &engine->offload;
    int index = i->slot.index;
    switch (i->slot.kind) {
    case ZR_SLOT_SUM: return await_exchange(&engine->reducing[index], error);
    case ZR_SLOT_GATHER: return await_exchange(&engine->gathering[index], error);
    case ZR_SLOT_READERS: return zr_comm_quiesce(window_of(engine, i->place.space), index, error);
    case ZR_SLOT_PUBLISHED:
        return versions->await_published(&engine->params, version_slot(engine, index),
                                         engine->published[engine->copy], error);
    case ZR_SLOT_RELEASED:
        return versions->await_released(&engine->params, version_slot(engine, index),
                                        engine->published[engine->copy], error);
    case ZR_SLOT_FETCHED: return zr_offload_await(engine, &offload->parameters[index], error);
    case ZR_SLOT_TRAVELLED: return zr_grads_await_travel(engine, index, error);
    case ZR_SLOT_PARKED: return zr_offload_await(engine, &offload->parking[index], error);
    case ZR_SLOT_KEPT:
        return zr_offload_await(engine, &offload->activation_checkpoint[index], error);
    case ZR_SLOT_GROUP: return zr_delayed_await_group(engine, index, error);
    default: return ZERO_OK;
    }
}
