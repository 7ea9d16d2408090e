// Walks over a rank's elements, group by group, on whatever tiers they lie. The update uses it, and
// so does everything that reads or writes vectors on NVMe between steps.
//
// A vector in memory is used where it lies. A vector on NVMe travels, and so do parameters that
// cross between a far device and the host (far_states.h): group g uses staging buffer g % staging
// buffer.count.
//
//   group 0   read ........ | update | write ........
//   group 1                 | read ..| update | write ........        read_ahead, write_behind
//   group 2                          | read ..| update | write ...
#include "engine/engine_internal.h"
#include "engine/far_states.h"

void zr_offload_record(zr_recorder *recorder, const zr_io_request *request)
{
    const int64_t *bounds = request->extents->bounds;
    zr_activity what = request->write ? ZR_ACTIVITY_disk_write : ZR_ACTIVITY_disk_read;
    zr_recorder_add_overlapped(recorder, what, request->began, request->ended,
                               bounds[request->begin + request->count] - bounds[request->begin]);
}

zero_status zr_offload_await(zero_engine *engine, zr_transfer *transfer, zero_error *error)
{
    if (!transfer->store)
        return ZERO_OK;
    int64_t begin = zr_recorder_begin(engine->recorder);
    zero_status status = zr_transfer_wait(transfer, error);
    zr_recorder_add(engine->recorder, ZR_ACTIVITY_disk_wait, begin, 0, 0, -1);
    zr_offload_record(engine->recorder, &transfer->request);
    return status;
}

zero_status zr_guard_await(zero_engine *engine, int flat_param, zero_error *error)
{
    return engine->guard.await ? engine->guard.await(engine->guard.user, flat_param, error)
                               : ZERO_OK;
}

// Waits for what was begun with a vector in a staging buffer.
static zero_status await_vector(zero_engine *engine, const zr_walk *walk, int staging_buffer,
                                zr_vector vector, zero_error *error)
{
    zr_transfer *transfer = &engine->offload.staging_buffer[staging_buffer][vector];
    if (walk->overlapped) // which moves no parameters
        return walk->overlapped->await(engine, transfer, error);
    if (vector == ZR_VECTOR_PARAMETERS)
        ZERO_TRY(zr_parameters_await(engine, staging_buffer, error));
    return zr_offload_await(engine, transfer, error);
}

// Begins to move a vector of the group that travels.
static zero_status move_vector(zero_engine *engine, const zr_walk *walk, int g, zr_vector v,
                               bool write, zero_error *error)
{
    const zr_group *group = &engine->plan->groups[g];
    int staging_buffer = g % engine->plan->staging_buffer.count;
    if (zr_group_crosses(engine->plan, group, v)) {
        zr_parameters_move(engine, g, staging_buffer, write);
        return ZERO_OK;
    }
    if (!walk->overlapped)
        ZERO_TRY(zr_far_states_settle(engine, error));
    // In every vector the shard slices of a group follow each other.
    const zr_shard_slice *first = &engine->plan->shard_slices[group->shard_slice_first];
    zr_store *store = zr_vector_store(engine, first->flat_param, v);
    return (write ? store->ops->commit : store->ops->fetch)(
        store, zr_vector_range(engine, first->flat_param, v, first->first, group->count),
        zr_staging_buffer_at(engine, staging_buffer, v),
        &engine->offload.staging_buffer[staging_buffer][v], error);
}

// Begins to move those vectors of the group that the walk reads (or writes) and that travel. It
// first waits for what was begun before in the same staging buffer.
static zero_status move_group(zero_engine *engine, const zr_walk *walk, int g, bool write,
                              zero_error *error)
{
    const zr_group *group = &engine->plan->groups[g];
    uint32_t vectors = write ? walk->vectors.writes : walk->vectors.reads;
    for (int v = 0; v < ZR_VECTOR_COUNT; v++) {
        if (!zr_group_travels(engine->plan, group, v))
            continue;
        ZERO_TRY(await_vector(engine, walk, g % engine->plan->staging_buffer.count, v, error));
        if (vectors >> v & 1)
            ZERO_TRY(move_vector(engine, walk, g, v, write, error));
    }
    return ZERO_OK;
}

// Waits for what was begun in the staging buffer of a group, where there are any.
static zero_status await_staging_buffer(zero_engine *engine, const zr_walk *walk, int g,
                                        zero_error *error)
{
    int count = engine->plan->staging_buffer.count;
    for (int v = 0; v < ZR_VECTOR_COUNT && count; v++)
        ZERO_TRY(await_vector(engine, walk, g % count, v, error));
    return ZERO_OK;
}

static void *advance_bytes(const void *from, int64_t bytes)
{
    return from ? (char *)from + bytes : NULL;
}

static void *advance_unless_null(const void *from, zero_dtype dtype, int64_t elements)
{
    return advance_bytes(from, elements * (int64_t)zero_dtype_bytes(dtype));
}

static void *shard_slice_vector(const zero_engine *engine, int g, const zr_shard_slice *slice,
                                zr_vector vector)
{
    const zr_group *group = &engine->plan->groups[g];
    const zr_flat_param *flat_param = &engine->plan->flat_params[slice->flat_param];
    if (!zr_plan_has_vector(engine->plan, vector))
        return NULL;
    if (zr_group_travels(engine->plan, group, vector))
        return zr_staging_buffer_at(engine, g % engine->plan->staging_buffer.count, vector) +
               zr_vector_bytes(&engine->plan->settings, vector,
                               flat_param->state_first + slice->first - group->first);
    if (vector == ZR_VECTOR_PARAMETERS)
        return zr_slice_parameters(engine, slice);
    if (vector == ZR_VECTOR_GRADIENT)
        return advance_unless_null(zr_update_gradient(engine, slice->flat_param),
                                   flat_param->accumulator_dtype, slice->first);
    return zr_vector_at(engine, slice->flat_param, vector, slice->first);
}

static zr_range_states states_of_shard_slice(const zero_engine *engine, int g,
                                             const zr_shard_slice *slice)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[slice->flat_param];
    void *parameters = shard_slice_vector(engine, g, slice, ZR_VECTOR_PARAMETERS),
         *master = shard_slice_vector(engine, g, slice, ZR_VECTOR_MASTER);
    return (zr_range_states){
        .gradient_dtype = flat_param->accumulator_dtype,
        .parameters_dtype = flat_param->dtype,
        .master = master ? master : parameters,
        .parameters = master ? parameters : NULL,
        .state0 = shard_slice_vector(engine, g, slice, ZR_VECTOR_STATE0),
        .state1 = shard_slice_vector(engine, g, slice, ZR_VECTOR_STATE1),
        .states_dtype = engine->plan->settings.precision.moments,
        .scales0 = shard_slice_vector(engine, g, slice, ZR_VECTOR_SCALES0),
        .scales1 = shard_slice_vector(engine, g, slice, ZR_VECTOR_SCALES1),
        .average = shard_slice_vector(engine, g, slice, ZR_VECTOR_AVERAGE),
        .direction = shard_slice_vector(engine, g, slice, ZR_VECTOR_DIRECTION),
        .gradient = shard_slice_vector(engine, g, slice, ZR_VECTOR_GRADIENT),
    };
}

// Counts what the update of a group moves between device and host. Stores count their own bytes to
// and from NVMe.
static void count_crossing(zero_engine *engine, const zr_group *group,
                           const zr_walk_vectors *vectors)
{
    zr_moved moved = {0};
    zr_group_moves(engine->plan, group, vectors, &moved);
    // An overlapped update moves no parameters, so it does not write what the step writes here.
    if (!(moved.to_device | moved.to_host))
        return;
    engine->offload.to_device += moved.to_device;
    engine->offload.to_host += moved.to_host;
}

static zero_status walk_group(zero_engine *engine, const zr_walk *walk, int g, zero_error *error)
{
    const zr_group *group = &engine->plan->groups[g];
    for (int s = group->shard_slice_first; s < group->shard_slice_first + group->shard_slice_count;
         s++) {
        const zr_shard_slice *shard_slice = &engine->plan->shard_slices[s];
        const zr_range_states states = states_of_shard_slice(engine, g, shard_slice);
        if (!walk->overlapped)
            ZERO_TRY(zr_guard_await(engine, shard_slice->flat_param, error));
        ZERO_TRY(walk->take(walk->user, engine, shard_slice, &states, error));
    }
    return ZERO_OK;
}

// Returns the group that is the i-th of a walk.
static int nth_group_of_walk(const zero_engine *engine, const zr_walk *walk, int i)
{
    return walk->overlapped ? engine->plan->group_count - 1 - i : i;
}

zero_status zr_groups_walk(zero_engine *engine, const zr_walk *walk, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    const zr_tiering *tiering = &plan->settings.tiering;
    int fetched = -1;
    for (int i = 0; i < plan->group_count; i++) {
        int g = nth_group_of_walk(engine, walk, i),
            last = ZR_MIN(i + (tiering->read_ahead ? 1 : 0), plan->group_count - 1);
        while (fetched < i)
            ZERO_TRY(
                move_group(engine, walk, nth_group_of_walk(engine, walk, ++fetched), false, error));
        ZERO_TRY(await_staging_buffer(engine, walk, g, error));
        while (fetched < last)
            ZERO_TRY(
                move_group(engine, walk, nth_group_of_walk(engine, walk, ++fetched), false, error));
        ZERO_TRY(walk_group(engine, walk, g, error));
        count_crossing(engine, &plan->groups[g], &walk->vectors);
        ZERO_TRY(move_group(engine, walk, g, true, error));
        if (!tiering->write_behind)
            ZERO_TRY(await_staging_buffer(engine, walk, g, error));
        if (walk->overlapped)
            walk->overlapped->group_done(engine, g);
        else
            zr_comm_progress(engine->grid.world, engine->progress.step);
    }
    for (int staging_buffer = 0; staging_buffer < plan->staging_buffer.count; staging_buffer++)
        ZERO_TRY(await_staging_buffer(engine, walk, staging_buffer, error));
    return ZERO_OK;
}

zero_status zr_staging_buffers_each(zero_engine *engine, int flat_param, zr_vector vector,
                                    bool changed, zr_portion_fn take, void *user, zero_error *error)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    zr_store *store = zr_vector_store(engine, flat_param, vector);
    zr_transfer *transfer = &engine->offload.staging_buffer[0][vector];
    zr_portion portion = {.dtype = zr_vector_dtype(engine, flat_param, vector),
                          .data = zr_staging_buffer_at(engine, 0, vector)};
    for (int s = p->shard_slice_first; s < p->shard_slice_first + p->shard_slice_count; s++) {
        const zr_shard_slice *slice = &engine->plan->shard_slices[s];
        zr_range range = zr_vector_range(engine, flat_param, vector, slice->first, slice->count);
        portion.span =
            (zr_span){zr_own_shard(engine, flat_param).first + slice->first, slice->count};
        ZERO_TRY(store->ops->fetch(store, range, portion.data, transfer, error));
        ZERO_TRY(zr_offload_await(engine, transfer, error));
        ZERO_TRY(take(user, &portion, error));
        if (changed)
            ZERO_TRY(store->ops->commit(store, range, portion.data, transfer, error));
        ZERO_TRY(zr_offload_await(engine, transfer, error));
        zr_comm_progress(engine->grid.world, engine->progress.step);
    }
    return ZERO_OK;
}

int64_t zr_staging_buffers_portion(const zero_engine *engine, int flat_param, int64_t first)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    const zr_shard_slice *shard_slice = &engine->plan->shard_slices[p->shard_slice_first];
    while (shard_slice->first + shard_slice->count <= first)
        shard_slice++;
    return shard_slice->first + shard_slice->count - first;
}

zr_range_states zr_range_from(const zr_range_states *range, int64_t first)
{
    zr_range_states at = *range;
    assert(range->states_dtype != ZERO_U8 || first % ZR_STATE_BLOCK == 0);
    at.master = advance_unless_null(range->master, ZERO_F32, first);
    at.state0 = advance_unless_null(range->state0, range->states_dtype, first);
    at.state1 = advance_unless_null(range->state1, range->states_dtype, first);
    at.scales0 = advance_unless_null(range->scales0, ZERO_F32, first / ZR_STATE_BLOCK);
    at.scales1 = advance_unless_null(range->scales1, ZERO_F32, first / ZR_STATE_BLOCK);
    at.average = advance_unless_null(range->average, ZERO_F32, first);
    at.direction = advance_unless_null(range->direction, ZERO_F32, first);
    at.gradient = advance_unless_null(range->gradient, range->gradient_dtype, first);
    at.parameters = advance_unless_null(range->parameters, range->parameters_dtype, first);
    return at;
}
