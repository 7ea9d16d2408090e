// Instructions of links: what goes from a chunk of a pipeline to the next one, and back. The slot
// is that of the current micro-batch.
#include "compute/compute.h"
#include "engine/buffers.h"
#include "engine/interpret.h"
#include "plan/accumulators.h"

zero_status zr_execute_receive(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int link = i->slot.index;
    int64_t bytes = engine->cursor.bytes_in >= 0 ? engine->cursor.bytes_in : i->bytes;
    return zr_channel_receive(&engine->channels, link, zr_engine_slot(engine, link), bytes, error);
}

zero_status zr_execute_take(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int link = i->slot.index;
    return zr_channel_take(&engine->channels, link, zr_engine_slot(engine, link), error);
}

zero_status zr_execute_send(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int link = i->slot.index;
    int64_t bytes = engine->cursor.bytes_out >= 0 ? engine->cursor.bytes_out : i->bytes;
    return zr_channel_send(&engine->channels, link, zr_engine_slot(engine, link), bytes, error);
}

zero_status zr_execute_give(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    int link = i->slot.index;
    return zr_channel_release(&engine->channels, link, zr_engine_slot(engine, link), error);
}

// Returns what comes through the slot, or from the own flat parameter at the other end.
static const void *other_end(const zero_engine *engine, const zr_instruction *i, bool sum)
{
    if (i->slot.kind == ZR_SLOT_LINK)
        return zr_engine_slot_at(engine, i->slot.index);
    return sum ? zr_own_shard_gradient(engine, i->stream) : zr_own_parameters(engine, i->stream);
}

zero_status zr_execute_tied_weight(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    bool sum = i->what == ZR_TIED_WEIGHT_GIVE_SUM || i->what == ZR_TIED_WEIGHT_ADD_SUM;
    void *own = sum ? (void *)zr_own_shard_gradient(engine, i->flat_param)
                    : zr_own_parameters(engine, i->flat_param);
    void *other = (void *)other_end(engine, i, sum);
    int64_t bytes =
        sum ? zr_flat_param_sum_bytes(flat_param) : zr_flat_param_shard_bytes(flat_param);
    if (i->what == ZR_TIED_WEIGHT_ADD_SUM)
        zr_run(engine->queue, zr_op_add(&(zr_sum){.stream = flat_param->accumulator_dtype,
                                                  .dtype = flat_param->accumulator_dtype,
                                                  .n = flat_param->shard},
                                        own, other, own));
    else if (i->what == ZR_TIED_WEIGHT_TAKE_PARAMETERS)
        zr_run(engine->queue, zr_op_copy(&(zr_bytes){bytes}, other, own));
    else
        zr_run(engine->queue, zr_op_copy(&(zr_bytes){bytes}, own, other));
    return ZERO_OK;
}
