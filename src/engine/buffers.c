// Where the data of a rank lies: the buffers and slots that the plan refers to, vectors of states
// in their stores, the own shards of flat parameters, and the gradients that were summed up for
// them.
#include "engine/engine_internal.h"
#include "plan/accumulators.h"

char *zr_buffer_at(const zero_engine *engine, zr_buffer_ref place)
{
    int64_t copy =
        place.buffer == ZR_BUFFER_PARAMETERS ? engine->versions.copy * engine->plan->full_bytes : 0;
    return engine->spaces[zr_space_of_buffer(place.buffer)].at + copy + place.first;
}

char *zr_staging_buffer_at(const zero_engine *engine, int staging_buffer, zr_vector vector)
{
    const zr_staging_buffer_plan *plan = &engine->plan->staging_buffer;
    return engine->spaces[ZR_SPACE_STAGING_BUFFERS].at + staging_buffer * plan->bytes +
           plan->first[vector];
}

int zr_engine_slot(const zero_engine *engine, int link)
{
    return (int)(engine->now.turn % engine->plan->links[link].slots);
}

char *zr_engine_slot_at(const zero_engine *engine, int link)
{
    return zr_channel_at(&engine->channels, link, zr_engine_slot(engine, link));
}

int zr_version_slot(const zero_engine *engine, int flat_param)
{
    return engine->versions.copy * engine->plan->flat_param_count + flat_param;
}

zr_span zr_own_shard(const zero_engine *engine, int flat_param)
{
    int64_t shard = engine->plan->flat_params[flat_param].shard;
    return (zr_span){engine->grid.data->rank * shard, shard};
}

zr_span zr_update_range(const zero_engine *engine, int flat_param)
{
    if (engine->plan->updates_whole)
        return (zr_span){0, engine->plan->flat_params[flat_param].padded};
    return zr_own_shard(engine, flat_param);
}

zr_span zr_shard_slice_span(const zero_engine *engine, const zr_shard_slice *shard_slice)
{
    return (zr_span){zr_update_range(engine, shard_slice->flat_param).first + shard_slice->first,
                     shard_slice->count};
}

void zr_for_parts(const zr_flat_param *flat_param, zr_span span, zr_part_fn take, void *user)
{
    for (int t = 0; t < flat_param->tensor_count; t++) {
        const zr_plan_tensor *tensor = &flat_param->tensors[t];
        int64_t first = ZR_MAX(span.first, tensor->first);
        int64_t end = ZR_MIN(span.first + span.count, tensor->first + tensor->count);
        if (first < end)
            take(user, tensor, first, end - first);
    }
}

zero_tier zr_vector_tier_of(const zero_engine *engine, int flat_param, zr_vector vector)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    return vector == ZR_VECTOR_PARAMETERS ? p->parameter_tier
                                          : zr_vector_tier(p->state_tier, vector);
}

zr_store *zr_vector_store(zero_engine *engine, int flat_param, zr_vector vector)
{
    zero_tier tier = zr_vector_tier_of(engine, flat_param, vector);
    return &engine->stores[zr_store_of_vector(tier, vector)];
}

// Returns the elements between two accumulators of a flat parameter. In memory, all accumulators of
// one shard lie together; on NVMe, each accumulator of all shards does.
static int64_t between_accumulators(const zero_engine *engine, const zr_flat_param *flat_param)
{
    return flat_param->state_tier == ZERO_TIER_nvme ? engine->plan->state_elems[ZERO_TIER_nvme]
                                                    : flat_param->shard;
}

zr_range zr_vector_range(const zero_engine *engine, int flat_param, zr_vector vector, int64_t first,
                         int64_t count)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    const zr_settings *settings = &engine->plan->settings;
    if (vector == ZR_VECTOR_PARAMETERS) {
        int64_t copy = engine->versions.copy * engine->plan->shard_bytes[p->parameter_tier];
        return (zr_range){copy + p->shard_first + zr_flat_param_own_bytes(p, first),
                          zr_flat_param_own_bytes(p, count)};
    }
    int64_t size = (int64_t)zero_dtype_bytes(zr_vector_dtype(engine, flat_param, vector));
    if (vector == ZR_VECTOR_GRADIENT)
        first +=
            engine->versions.sum_copy * zr_accumulators(settings) * between_accumulators(engine, p);
    if (vector == ZR_VECTOR_GRADIENT && p->state_tier != ZERO_TIER_nvme)
        return (zr_range){p->accumulator_first + first * size, count * size};
    if (vector == ZR_VECTOR_GRADIENT)
        return (zr_range){(p->state_first + first) * size, count * size};
    return (zr_range){zr_vector_bytes(settings, vector, p->state_first + first),
                      zr_vector_bytes(settings, vector, count)};
}

zr_range zr_accumulator_range(const zero_engine *engine, int flat_param, int slot)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    return zr_vector_range(engine, flat_param, ZR_VECTOR_GRADIENT,
                           slot * between_accumulators(engine, p), p->shard);
}

zero_dtype zr_vector_dtype(const zero_engine *engine, int flat_param, zr_vector vector)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    switch (vector) {
    case ZR_VECTOR_PARAMETERS: return p->dtype;
    case ZR_VECTOR_GRADIENT: return p->accumulator_dtype;
    case ZR_VECTOR_STATE0:
    case ZR_VECTOR_STATE1: return engine->plan->settings.precision.moments;
    default: return ZERO_F32;
    }
}

void *zr_vector_at(const zero_engine *engine, int flat_param, zr_vector vector, int64_t first)
{
    const zr_store *store = zr_vector_store((zero_engine *)engine, flat_param, vector);
    return zr_store_at(store, zr_vector_range(engine, flat_param, vector, first, 0).first);
}

void *zr_own_parameters(const zero_engine *engine, int flat_param)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    if (engine->plan->holding == ZR_HOLDS_SHARDS)
        return zr_vector_at(engine, flat_param, ZR_VECTOR_PARAMETERS, 0);
    return zr_buffer_at(engine, zr_flat_param_place(p)) +
           engine->grid.data->rank * zr_flat_param_shard_bytes(p);
}

char *zr_portion_at(const zr_portion *portion, int64_t element)
{
    return portion->data +
           (element - portion->span.first) * (int64_t)zero_dtype_bytes(portion->dtype);
}

zr_sum_slots zr_grads_sum_slots(const zero_engine *engine)
{
    return zr_sum_slots_of(&engine->plan->settings, engine->now.micro_batch);
}

// Where there is no accumulator (one micro-batch, whole gradients), the sum replaces this rank's
// own contribution, which only this rank reads.
char *zr_grads_reduced_shard(const zero_engine *engine, int flat_param, int slot)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    if (zr_flat_param_sums_on_nvme(p))
        return zr_buffer_at(engine, (zr_buffer_ref){ZR_BUFFER_STAGED_SUMS, p->accumulator_first});
    if (p->accumulator_first >= 0) {
        zr_store *store = zr_vector_store((zero_engine *)engine, flat_param, ZR_VECTOR_GRADIENT);
        return zr_store_at(store, zr_accumulator_range(engine, flat_param, slot).first);
    }
    char *whole = zr_buffer_at(engine, (zr_buffer_ref){ZR_BUFFER_GRADIENTS, p->grad_first});
    return whole + engine->grid.data->rank * zr_flat_param_gradient_shard_bytes(p);
}

const void *zr_update_gradient(const zero_engine *engine, int flat_param)
{
    if (engine->plan->updates_whole)
        return zr_buffer_at(engine, engine->plan->flat_params[flat_param].whole);
    return zr_grads_reduced_shard(engine, flat_param, 0);
}
