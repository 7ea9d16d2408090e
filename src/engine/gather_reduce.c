// Instructions that exchange data with other ranks: they gather parameters, sum gradients into
// their owners' accumulators, publish and release versions, and move what crosses links of a
// pipeline. A link's slot is that of the current micro-batch.
#include "engine/interpret.h"
#include "plan/accumulators.h"

static zr_window *window_of_buffer(zero_engine *engine, zr_buffer_id buffer)
{
    return &engine->spaces[zr_space_of_buffer(buffer)].window;
}

static zr_handle *handle_of(const zero_engine *engine, const zr_instruction *i)
{
    return &engine->slots[i->slot.kind][i->slot.index].exchange;
}

// Gathers into the gather window; or into a machine's copy of what is frozen, where the own shard
// lies already.
static zero_status gather_shards(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    bool staged = i->from.buffer == ZR_BUFFER_STAGED_PARAMETERS;
    const void *own =
        staged ? zr_buffer_at(engine, i->from) : zr_own_parameters(engine, i->flat_param);
    if (flat_param->parameter_tier != ZERO_TIER_device)
        engine->offload.to_device += zr_flat_param_own_bytes(flat_param, flat_param->shard);
    return zr_comm_start_gather(window_of_buffer(engine, i->place.buffer), i->flat_param,
                                i->place.first, flat_param->shard, flat_param->dtype,
                                flat_param->coded ? flat_param->weight_bits : 0, own,
                                handle_of(engine, i), error);
}

// Gathers replicas of parameters, or sums, in the window in which they lie. The own sum is copied
// to its place there first, unless it was summed up there.
static zero_status gather_in_window(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    zr_window *window = window_of_buffer(engine, i->place.buffer);
    char *at = zr_buffer_at(engine, i->place);
    bool sums = i->place.buffer != ZR_BUFFER_PARAMETERS;
    if (sums) {
        int64_t bytes = zr_flat_param_sum_bytes(flat_param);
        char *own = at + engine->grid.data->rank * bytes;
        const void *sum = zr_grads_reduced_shard(engine, i->flat_param, 0);
        if (own != sum)
            zr_engine_run_aside(engine, zr_op_copy(&(zr_bytes){bytes}, sum, own));
    }
    return zr_comm_start(window, ZERO_COMM_all_gather, i->flat_param, at - window->mine,
                         flat_param->shard,
                         sums ? flat_param->accumulator_dtype : flat_param->dtype, NULL,
                         handle_of(engine, i), error);
}

zero_status zr_execute_gather(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    switch (i->place.buffer) {
    case ZR_BUFFER_NONE:
        zr_comm_count_mapped(engine->grid.data, i->flat_param,
                             engine->plan->flat_params[i->flat_param].shard);
        return ZERO_OK;
    case ZR_BUFFER_FROZEN:
    case ZR_BUFFER_GATHERED: return gather_shards(engine, i, error);
    default: return gather_in_window(engine, i, error);
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
    if (flat_param->gradient_bits)
        return zr_comm_start_blocks(window_of_buffer(engine, ZR_BUFFER_GRADIENTS), i->flat_param,
                                    i->place.first, flat_param->shard, flat_param->gradient_bits,
                                    &to, handle_of(engine, i), error);
    return zr_comm_start(window_of_buffer(engine, ZR_BUFFER_GRADIENTS), ZERO_COMM_reduce_scatter,
                         i->flat_param, i->place.first, flat_param->shard,
                         flat_param->gradient_dtype, &to, handle_of(engine, i), error);
}

zero_status zr_execute_version(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_version_ops *versions = engine->grid.data->versions;
    return (i->code == ZR_PUBLISH ? versions->publish : versions->release)(
        window_of_buffer(engine, ZR_BUFFER_PARAMETERS), zr_version_slot(engine, i->flat_param),
        engine->versions.published[engine->versions.copy], error);
}

// RECEIVE, TAKE, SEND and GIVE.
zero_status zr_execute_link(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_channels *channels = &engine->channels;
    const zr_cursor *cursor = &engine->cursor;
    int link = i->slot.index, slot = zr_engine_slot(engine, link);
    int64_t visited = i->code == ZR_RECEIVE ? cursor->bytes_in : cursor->bytes_out;
    int64_t bytes = visited >= 0 ? visited : i->bytes;
    switch (i->code) {
    case ZR_RECEIVE: return zr_channel_receive(channels, link, slot, bytes, error);
    case ZR_TAKE: return zr_channel_take(channels, link, slot, error);
    case ZR_SEND: return zr_channel_send(channels, link, slot, bytes, error);
    default: return zr_channel_release(channels, link, slot, error);
    }
}

// Returns the own shard of a flat parameter, or its sum.
static void *own_shard_of(const zero_engine *engine, int flat_param, bool sum)
{
    return sum ? zr_grads_reduced_shard(engine, flat_param, 0)
               : zr_own_parameters(engine, flat_param);
}

zero_status zr_execute_tied_weight(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    zr_queue *queue = engine->queue;
    zero_dtype type = flat_param->accumulator_dtype;
    bool sum = i->what == ZR_TIED_WEIGHT_GIVE_SUM || i->what == ZR_TIED_WEIGHT_ADD_SUM;
    void *own = own_shard_of(engine, i->flat_param, sum);
    // What comes through the slot, or the own flat parameter at the other end.
    void *other = i->slot.kind == ZR_SLOT_LINK ? zr_engine_slot_at(engine, i->slot.index)
                                               : own_shard_of(engine, i->stream, sum);
    int64_t bytes = sum ? zr_flat_param_sum_bytes(flat_param)
                        : zr_flat_param_own_bytes(flat_param, flat_param->shard);
    if (i->what == ZR_TIED_WEIGHT_ADD_SUM)
        zr_run(queue, zr_op_add(&(zr_sum){type, type, flat_param->shard}, own, other, own));
    else if (i->what == ZR_TIED_WEIGHT_TAKE_PARAMETERS)
        zr_run(queue, zr_op_copy(&(zr_bytes){bytes}, other, own));
    else
        zr_run(queue, zr_op_copy(&(zr_bytes){bytes}, own, other));
    return ZERO_OK;
}
