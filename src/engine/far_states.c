#include "engine/far_states.h"

#include "engine/engine_internal.h"

static bool is_off_the_device(const zr_plan *plan)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    return tiering->optimizer != ZERO_TIER_device || tiering->parameters != ZERO_TIER_device;
}

zero_status zr_far_states_open(zero_engine *engine, zero_error *error)
{
    const zr_queue *queue = engine->queue;
    if (!is_off_the_device(engine->plan))
        return ZERO_OK;
    return zr_queue_open(queue->backend->host, NULL, queue->threads, &engine->host_queue, error);
}

void zr_far_states_close(zero_engine *engine)
{
    if (engine->host_queue != engine->queue)
        zr_queue_close(engine->host_queue);
}

zero_status zr_queues_record(zero_engine *engine, zr_recorder *recorder, zero_error *error)
{
    zr_queue *queue = engine->queue, *host = engine->host_queue;
    zr_queue_unwrap(queue, engine->recording);
    zr_queue_unwrap(host, engine->host_recording);
    engine->recording = engine->host_recording = NULL;
    if (!recorder)
        return ZERO_OK;
    ZERO_TRY(zr_queue_record(queue, recorder, &engine->recording, error));
    return host == queue ? ZERO_OK
                         : zr_queue_record(host, recorder, &engine->host_recording, error);
}

zr_queue *zr_tier_queue(const zero_engine *engine, zero_tier tier)
{
    return tier == ZERO_TIER_device ? engine->queue : engine->host_queue;
}

zero_status zr_far_states_settle(zero_engine *engine, zero_error *error)
{
    return engine->host_queue == engine->queue ? ZERO_OK : zr_far_settle(engine, error);
}

char *zr_slice_parameters(const zero_engine *engine, const zr_shard_slice *slice)
{
    int p = slice->flat_param;
    char *own = zr_own_parameters(engine, p);
    // The own shard may begin inside of what this rank updates.
    int64_t first = zr_shard_slice_span(engine, slice).first - zr_own_shard(engine, p).first;
    return own ? own + zr_flat_param_own_bytes(&engine->plan->flat_params[p], first) : NULL;
}

void zr_parameters_move(zero_engine *engine, int group, int staging_buffer, bool up)
{
    const zr_plan *plan = engine->plan;
    const zr_group *of = &plan->groups[group];
    char *staged = zr_staging_buffer_at(engine, staging_buffer, ZR_VECTOR_PARAMETERS);
    for (int s = of->shard_slice_first; s < of->shard_slice_first + of->shard_slice_count; s++) {
        const zr_shard_slice *slice = &plan->shard_slices[s];
        char *own = zr_slice_parameters(engine, slice);
        zr_bytes bytes = {zr_vector_bytes(&plan->settings, ZR_VECTOR_PARAMETERS, slice->count)};
        zr_engine_run_aside(engine, zr_op_copy(&bytes, up ? staged : own, up ? own : staged));
        staged += bytes.bytes;
    }
    engine->offload.crossing[staging_buffer] = zr_queue_mark(engine->queue);
}

zero_status zr_parameters_put(zero_engine *engine, const char *from, char *to, int64_t bytes,
                              zero_error *error)
{
    zr_engine_run_aside(engine, zr_op_copy(&(zr_bytes){bytes}, from, to));
    return zr_far_settle(engine, error);
}

zero_status zr_parameters_await(zero_engine *engine, int staging_buffer, zero_error *error)
{
    zr_mark *mark = &engine->offload.crossing[staging_buffer];
    zero_status status = mark->queue ? zr_far_await(engine, *mark, error) : ZERO_OK;
    *mark = (zr_mark){0};
    return status;
}
