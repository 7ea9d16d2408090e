// Instructions that exchange data with other ranks: they gather parameters, sum gradients into
// their owners' accumulators, and publish and release versions.
#include "comm/agreement.h"
#include "comm/window.h"
#include "engine/buffers.h"
#include "engine/interpret.h"
#include "plan/accumulators.h"

#include <string.h>

static zr_window *window_of_buffer(zero_engine *engine, zr_buffer_id buffer)
{
    switch (buffer) {
    case ZR_BUFFER_PARAMETERS: return &engine->params;
    case ZR_BUFFER_GATHERED: return &engine->gathers;
    case ZR_BUFFER_FULL_GRADS: return &engine->wholes;
    default: return &engine->grads;
    }
}

static zero_status gather_replica(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    int64_t at = i->place.first + engine->copy * engine->plan->full_bytes;
    return zr_comm_start(&engine->params, ZERO_COMM_all_gather, i->flat_param, at,
                         flat_param->shard, flat_param->dtype, NULL,
                         &engine->gathering[i->flat_param], error);
}

static zero_status gather_shards(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    bool staged = i->from.buffer == ZR_BUFFER_STAGED_PARAMETERS;
    const void *own =
        staged ? zr_buffer_at(engine, i->from) : zr_own_parameters(engine, i->flat_param);
    if (flat_param->parameter_tier != ZERO_TIER_device)
        engine->offload.to_device += zr_flat_param_shard_bytes(flat_param);
    return zr_comm_start_gather(&engine->gathers, i->flat_param, i->place.first, flat_param->shard,
                                flat_param->dtype, own, &engine->gathering[i->flat_param], error);
}

// Copies the own sum to its place in the window first, unless it was summed up there.
static zero_status gather_sums(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    int64_t bytes = zr_flat_param_sum_bytes(flat_param);
    char *own = zr_buffer_at(engine, i->place) + engine->grid.data->rank * bytes;
    const void *sum = zr_own_shard_gradient(engine, i->flat_param);
    if (own != sum)
        memcpy(own, sum, (size_t)bytes);
    return zr_comm_start(window_of_buffer(engine, i->place.buffer), ZERO_COMM_all_gather,
                         i->flat_param, i->place.first, flat_param->shard,
                         flat_param->accumulator_dtype, NULL, &engine->gathering[i->flat_param],
                         error);
}

zero_status zr_execute_gather(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    switch (i->place.buffer) {
    case ZR_BUFFER_NONE:
        zr_comm_count_mapped(engine->grid.data, i->flat_param,
                             engine->plan->flat_params[i->flat_param].shard);
        return ZERO_OK;
    case ZR_BUFFER_PARAMETERS: return gather_replica(engine, i, error);
    case ZR_BUFFER_GATHERED: return gather_shards(engine, i, error);
    default: return gather_sums(engine, i, error);
    }
}

// All gradients are accumulated here: this micro-batch's sum over the ranks is added to earlier
// sums in fp32, and rounded once.
zero_status zr_execute_reduce(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    const zr_sum_slots place = zr_grads_sum_slots(engine);
    const zr_sum_target to = {zr_grads_reduced_shard(engine, i->flat_param, place.slot),
                              flat_param->accumulator_dtype, place.adds, flat_param->shard};
    if (flat_param->state_tier != ZERO_TIER_device)
        engine->offload.to_host += zr_flat_param_sum_bytes(flat_param);
    return zr_comm_start(&engine->grads, ZERO_COMM_reduce_scatter, i->flat_param, i->place.first,
                         flat_param->shard, flat_param->gradient_dtype, &to,
                         &engine->reducing[i->flat_param], error);
}

// Each copy of a flat parameter has a slot and versions of its own.
static int version_slot(const zero_engine *engine, int flat_param)
{
    return engine->copy * engine->plan->flat_param_count + flat_param;
}

zero_status zr_execute_release(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_version_ops *versions = engine->grid.data->versions;
    return versions->release(&engine->params, version_slot(engine, i->flat_param),
                             engine->published[engine->copy], error);
}

zero_status zr_execute_publish(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_version_ops *versions = engine->grid.data->versions;
    return versions->publish(&engine->params, version_slot(engine, i->flat_param),
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
    case ZR_SLOT_READERS:
        return zr_comm_quiesce(window_of_buffer(engine, i->place.buffer), index, error);
    case ZR_SLOT_PUBLISHED:
        return versions->await_published(&engine->params, version_slot(engine, index),
                                         engine->published[engine->copy], error);
    case ZR_SLOT_RELEASED:
        return versions->await_released(&engine->params, version_slot(engine, index),
                                        engine->published[engine->copy], error);
    case ZR_SLOT_FETCHED: return zr_offload_await(engine, &offload->parameters[index], error);
    case ZR_SLOT_TRAVELLED: return zr_transfers_await_sums(engine, index, error);
    case ZR_SLOT_PARKED: return zr_offload_await(engine, &offload->parking[index], error);
    case ZR_SLOT_KEPT:
        return zr_offload_await(engine, &offload->activation_checkpoint[index], error);
    case ZR_SLOT_GROUP: return zr_delayed_await_group(engine, index, error);
    default: return ZERO_OK;
    }
}
