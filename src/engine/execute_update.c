// The instruction UPDATE: the walks of an update, or the beginning of a delayed one; the mean of
// buffers; parameters rounded from the master.
#include "engine/coded_weights.h"
#include "engine/far_states.h"
#include "engine/interpret.h"

// Makes the parameters that units read from the master, which an earlier walk has updated.
static zero_status publish_shard_slice(void *user, zero_engine *engine,
                                       const zr_shard_slice *shard_slice,
                                       const zr_range_states *states, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[shard_slice->flat_param];
    zr_make_parameters(zr_tier_queue(engine, flat_param->state_tier), flat_param,
                       shard_slice->count, states->master, states->parameters);
    return ZERO_OK;
}

// Sets a buffer to the mean of what the micro-batches of all ranks wrote. Buffers and their sums
// are fp32 and on the device.
static zero_status assign_mean(zero_engine *engine, int flat_param, zero_error *error)
{
    zr_span range = zr_update_range(engine, flat_param);
    const float *sum = zr_update_gradient(engine, flat_param);
    float *value = (float *)zr_own_parameters(engine, flat_param) +
                   (range.first - zr_own_shard(engine, flat_param).first);
    float mean = 1.0f / (float)(engine->plan->settings.accumulation * engine->plan->ranks);
    ZERO_TRY(zr_guard_await(engine, flat_param, error));
    zr_engine_run_aside(engine,
                        zr_op_scale(&(zr_scaling){ZERO_F32, range.count, mean}, sum, value));
    return ZERO_OK;
}

static zero_status copy_master(zero_engine *engine, zero_error *error)
{
    zr_tier_traffic_expect(engine, &engine->plan->moves.copy);
    engine->versions.lag = false;
    return zr_groups_walk(engine, &(zr_walk){.vectors = zr_copy_walk, .take = publish_shard_slice},
                          error);
}

zero_status zr_execute_update(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    if (i->what == ZR_PART_MEAN)
        return assign_mean(engine, i->flat_param, error);
    if (i->what == ZR_PART_COPY)
        return copy_master(engine, error);
    if (i->slot.kind != ZR_SLOT_GROUP)
        return zr_update_groups(engine, error);
    // The bytes of an update that overlaps the next step count with that step, so those of this
    // step are compared before it begins.
    ZERO_TRY(zr_tier_traffic_check(engine, error));
    return zr_delayed_begin(engine, error);
}
