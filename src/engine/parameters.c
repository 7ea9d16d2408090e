// Where a rank keeps weights: the parameters that units read and, where these are trained in 16
// bits or their update overlaps a step, the fp32 master that they are rounded from.
#include "engine/coded_states.h"
#include "engine/coded_weights.h"
#include "engine/far_states.h"
#include "engine/interpret.h"
#include "engine/step.h"
#include "plan/accumulators.h"

static zero_status check_unguarded(const zero_engine *engine, bool changed, zero_error *error)
{
    if (!changed || !engine->guard.await)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "states are to be changed at step %lld while a checkpoint of them is written: "
                   "zero_end_checkpoint comes first",
                   (long long)engine->progress.step);
}

bool zr_engine_has_state(const zero_engine *engine, int flat_param, zr_vector vector)
{
    return engine->plan->flat_params[flat_param].state_first >= 0 &&
           zr_plan_has_vector(engine->plan, vector);
}

zero_status zr_engine_vector_each(zero_engine *engine, int flat_param, zr_vector vector,
                                  zr_portion_use use, zr_portion_fn take, void *user,
                                  zero_error *error)
{
    const zr_flat_param *p = &engine->plan->flat_params[flat_param];
    bool gradient = vector == ZR_VECTOR_GRADIENT, changed = use == ZR_PORTIONS_CHANGED;
    if (vector == ZR_VECTOR_MASTER && !zr_engine_has_state(engine, flat_param, vector))
        vector = ZR_VECTOR_PARAMETERS;
    ZERO_TRY(check_unguarded(engine, changed, error));
    ZERO_TRY(zr_delayed_join(engine, error));
    if (vector == ZR_VECTOR_PARAMETERS && zr_is_coded_weight(engine, flat_param))
        return zr_coded_weights_each(engine, flat_param, changed, &(zr_portion_taker){take, user},
                                     error);
    if (zr_is_coded(engine, vector))
        return zr_coded_states_each(engine, flat_param, vector, changed,
                                    &(zr_portion_taker){take, user}, error);
    if (gradient ? zr_flat_param_sums_on_nvme(p)
                 : zr_store_needs_buffer(zr_vector_store(engine, flat_param, vector)))
        return zr_staging_buffers_each(engine, flat_param, vector, changed, take, user, error);
    zr_portion whole = {.span = zr_own_shard(engine, flat_param),
                        .dtype = zr_vector_dtype(engine, flat_param, vector)};
    // At stage 0 a state covers the whole flat parameter, so the part begins inside of it.
    whole.data = gradient ? zr_grads_reduced_shard(engine, flat_param, 0)
                 : vector == ZR_VECTOR_PARAMETERS
                     ? zr_own_parameters(engine, flat_param)
                     : zr_vector_at(engine, flat_param, vector,
                                    whole.span.first - zr_update_range(engine, flat_param).first);
    if (engine->far.is && zr_vector_tier_of(engine, flat_param, vector) == ZERO_TIER_device)
        return zr_strips_each(engine, &whole, use, take, user, error);
    // The device may still read or write what lies in pinned memory.
    ZERO_TRY(
        (use == ZR_PORTIONS_SAVED ? zr_far_saver_settle : zr_far_states_settle)(engine, error));
    return take(user, &whole, error);
}

// On the host a rank has read what it gathers when it comes to the barrier.
zero_status zr_engine_await_readers(zero_engine *engine, zero_error *error)
{
    zr_window *window = &engine->spaces[ZR_SPACE_PARAMETERS].window;
    for (int slot = 0; engine->far.is && slot < window->slots; slot++)
        ZERO_TRY(zr_comm_quiesce(window, slot, error));
    return zr_comm_barrier(engine->grid.world, error);
}

zero_status zr_engine_join_delayed_update(zero_engine *engine, bool *stale, zero_error *error)
{
    ZERO_TRY(zr_delayed_join(engine, error));
    *stale = engine->versions.lag;
    return ZERO_OK;
}

zero_status zr_engine_parameters_stale(zero_engine *engine, zero_error *error)
{
    engine->versions.lag = true;
    ZERO_TRY(zr_engine_publish(engine, 1u << ZR_REWRITTEN | 1u << ZR_CHANGED, error));
    zr_grid_hash_reset(&engine->grid);
    return zr_engine_await_readers(engine, error);
}

// Broadcasts vectors from the shards' owners to ranks that update more than their own shard,
// because each of them holds the whole vectors.
static zero_status broadcast_states(zero_engine *engine, zr_vector first, zr_vector last,
                                    zero_error *error)
{
    zero_comm *data = engine->grid.data;
    for (int p = 0; p < engine->plan->flat_param_count; p++) {
        int64_t shard = engine->plan->flat_params[p].shard;
        bool whole = zr_update_range(engine, p).count > shard;
        for (zr_vector v = first; v <= last; v++)
            for (int r = 0; r < data->size && whole && zr_engine_has_state(engine, p, v); r++)
                ZERO_TRY(zr_vector_broadcast(engine, p, v, r, error));
    }
    return ZERO_OK;
}

typedef struct rounding {
    zero_engine *engine;
    int flat_param;
} rounding;

static zero_status round_into_parameters(void *user, const zr_portion *master, zero_error *error)
{
    const rounding *r = user;
    zero_engine *engine = r->engine;
    const zr_flat_param *flat_param = &engine->plan->flat_params[r->flat_param];
    zr_queue *queue = zr_tier_queue(engine, flat_param->state_tier);
    int64_t first = master->span.first - zr_own_shard(engine, r->flat_param).first;
    char *own = zr_own_parameters(engine, r->flat_param);
    bool crosses =
        zr_parameters_cross(engine->plan, flat_param->state_tier, flat_param->parameter_tier);
    if (own && !crosses) {
        zr_make_parameters(queue, flat_param, master->span.count, master->data,
                           own + zr_flat_param_own_bytes(flat_param, first));
        return ZERO_OK;
    }
    char *staging_buffer = zr_staging_buffer_at(engine, 0, ZR_VECTOR_PARAMETERS);
    zr_transfer *transfer = &engine->offload.staging_buffer[0][ZR_VECTOR_PARAMETERS];
    zr_store *store = zr_vector_store(engine, r->flat_param, ZR_VECTOR_PARAMETERS);
    // A master in memory comes as one portion, so it is written shard slice by shard slice.
    for (int64_t done = 0, n; done < master->span.count; done += n) {
        n = zr_staging_buffers_portion(engine, r->flat_param, first + done);
        zr_make_parameters(queue, flat_param, n, zr_portion_at(master, master->span.first + done),
                           staging_buffer);
        if (crosses) {
            ZERO_TRY(zr_parameters_put(engine, staging_buffer,
                                       own + zr_flat_param_own_bytes(flat_param, first + done),
                                       zr_flat_param_own_bytes(flat_param, n), error));
            continue;
        }
        ZERO_TRY(zr_far_states_settle(engine, error));
        ZERO_TRY(store->ops->commit(
            store, zr_vector_range(engine, r->flat_param, ZR_VECTOR_PARAMETERS, first + done, n),
            staging_buffer, transfer, error));
        ZERO_TRY(zr_offload_await(engine, transfer, error));
    }
    return ZERO_OK;
}

// Makes the current copy of the parameters from the weights, where there is a master.
static zero_status fill_copy(zero_engine *engine, zero_error *error)
{
    for (int p = 0; p < engine->plan->flat_param_count; p++) {
        rounding rounding = {engine, p};
        if (zr_engine_has_state(engine, p, ZR_VECTOR_MASTER))
            ZERO_TRY(zr_engine_vector_each(engine, p, ZR_VECTOR_MASTER, ZR_PORTIONS_READ,
                                           round_into_parameters, &rounding, error));
    }
    return zr_engine_publish(engine, 1u << ZR_REWRITTEN | 1u << ZR_CHANGED, error);
}

// Copies flat parameters without a master from one copy of the parameters to another. All copies
// have those in common that lie once on a machine.
static void copy_frozen(zero_engine *engine, int from, int to)
{
    const zr_plan *plan = engine->plan;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        bool whole = plan->holding == ZR_HOLDS_TIED_COPIES;
        int64_t bytes = whole ? plan->ranks * zr_flat_param_shard_bytes(flat_param)
                              : zr_flat_param_own_bytes(flat_param, flat_param->shard);
        const zr_buffer_ref place = zr_flat_param_place(flat_param);
        char *at[2];
        for (int i = 0; i < 2; i++) {
            engine->versions.copy = i == 0 ? from : to;
            at[i] = whole ? zr_buffer_at(engine, place) : zr_own_parameters(engine, p);
        }
        if (!flat_param->shared && !zr_engine_has_state(engine, p, ZR_VECTOR_MASTER))
            zr_engine_run_aside(engine, zr_op_copy(&(zr_bytes){bytes}, at[0], at[1]));
    }
}

// Makes all copies of the parameters. Under pipedream a window reads only one that it has not
// written, and only what is frozen is the same in all of them.
static zero_status make_copies(zero_engine *engine, zero_error *error)
{
    int next = engine->versions.copy, versions = engine->plan->versions;
    bool read = zr_plan_schedule(engine->plan) == ZR_PIPELINE_2BW;
    ZERO_TRY(broadcast_states(engine, ZR_VECTOR_MASTER, ZR_VECTOR_MASTER, error));
    engine->versions.lag = false;
    ZERO_TRY(fill_copy(engine, error));
    for (int i = 1; i < versions; i++) {
        copy_frozen(engine, next, (next + i) % versions);
        if (read)
            ZERO_TRY(fill_copy(engine, error));
    }
    engine->versions.copy = next;
    zr_grid_hash_reset(&engine->grid);
    return zr_engine_await_readers(engine, error);
}

// A rank that fails in reading back what it has on NVMe ends the waits of the others.
zero_status zr_engine_parameters_changed(zero_engine *engine, zero_error *error)
{
    return zr_step_end_waits(engine, make_copies(engine, error), error);
}

zero_status zr_engine_states_changed(zero_engine *engine, zero_error *error)
{
    ZERO_TRY(zr_step_end_waits(
        engine, broadcast_states(engine, ZR_VECTOR_STATE0, ZR_VECTOR_AVERAGE, error), error));
    engine->update.states_written = true;
    zr_engine_forget_carries(engine);
    return zr_engine_parameters_changed(engine, error);
}

zero_status zr_engine_publish(zero_engine *engine, uint32_t holds, zero_error *error)
{
    if (holds & 1u << ZR_REWRITTEN) { // late tied weights, which updates take when they are due
        engine->now.turn = 0;
        ZERO_TRY(zr_program_run_pass(engine, ZR_PASS_TIED_WEIGHTS, holds, error));
    }
    engine->versions.published[engine->versions.copy] = ++engine->versions.newest;
    return zr_program_run_pass(engine, ZR_PASS_PUBLISH, holds, error);
}
