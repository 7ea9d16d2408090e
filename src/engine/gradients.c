// Gradients of a micro-batch (contract 4): they are bound where units add their contributions in
// fp32, rounded once where gradients have 16 bits, and summed into the owner's accumulator, which
// may lie on NVMe.
#include "compute/element_ops.h"
#include "engine/execute.h"
#include "engine/gradient_norm.h"
#include "engine/gradients.h"
#include "engine/interpret.h"
#include "plan/flat_param_sums.h"

#include <string.h>

// Zeroes the gaps and the padding, because they take part in the exchange.
static void zero_gaps(const zr_flat_param *flat_param, float *gradient)
{
    int64_t at = 0;
    for (int t = 0; t < flat_param->tensor_count; t++) {
        const zr_plan_tensor *tensor = &flat_param->tensors[t];
        memset(gradient + at, 0, (size_t)(tensor->first - at) * sizeof *gradient);
        at = tensor->first + tensor->count;
    }
    memset(gradient + at, 0, (size_t)(flat_param->padded - at) * sizeof *gradient);
}

static bool is_of_gradients(zr_buffer_id buffer)
{
    return buffer == ZR_BUFFER_GRADIENTS || buffer == ZR_BUFFER_OPEN_SUMS;
}

zero_status zr_execute_bind(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    char *at = zr_buffer_at(engine, i->place);
    if (is_of_gradients(i->place.buffer))
        engine->collecting[i->flat_param].at = (float *)(void *)at;
    else
        engine->at[i->flat_param] = at;
    return ZERO_OK;
}

zero_status zr_execute_unbind(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    if (is_of_gradients(i->place.buffer))
        engine->collecting[i->flat_param].at = NULL;
    else
        engine->at[i->flat_param] = NULL;
    return ZERO_OK;
}

zero_status zr_execute_open(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    float *at = (float *)(void *)zr_buffer_at(engine, i->place);
    zero_gaps(&engine->plan->flat_params[i->flat_param], at);
    engine->collecting[i->flat_param] = (zr_collecting){at, i->unit};
    return ZERO_OK;
}

zero_status zr_execute_round(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    zr_queue *queue = engine->queue;
    queue->backend->elements->convert(queue, ZERO_F32, flat_param->gradient_dtype,
                                      flat_param->padded, zr_buffer_at(engine, i->from),
                                      zr_buffer_at(engine, i->place));
    return ZERO_OK;
}

zero_status zr_execute_squares(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_flat_param *flat_param = &engine->plan->flat_params[i->flat_param];
    if (!flat_param->counted)
        return ZERO_OK;
    const void *sum = zr_own_shard_gradient(engine, i->flat_param);
    zr_norm_add_squares(engine, i->flat_param, zr_own_shard(engine, i->flat_param),
                        flat_param->accumulator_dtype, sum, &engine->sums.norm, false);
    return ZERO_OK;
}

zr_sum_slots zr_grads_sum_slots(const zero_engine *engine)
{
    return zr_sum_slots_of(&engine->plan->settings, engine->micro_batch);
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

static zr_transfer *travel_of(zero_engine *engine, int flat_param, int sum)
{
    return &engine->offload.gradients[flat_param * zr_accumulators(&engine->plan->settings) + sum];
}

// Begins to fetch the sums of earlier micro-batches to which this one's is added, one after
// another.
zero_status zr_grads_fetch_sums(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, i->flat_param, ZR_VECTOR_GRADIENT);
    const zr_sum_slots place = zr_grads_sum_slots(engine);
    char *to = zr_buffer_at(engine, i->place);
    for (int sum = 0; sum < place.adds; sum++, to += i->bytes) {
        const zr_range range = zr_accumulator_range(engine, i->flat_param, place.slot + sum);
        ZERO_TRY(store->ops->fetch(store, range, to, travel_of(engine, i->flat_param, sum), error));
    }
    return ZERO_OK;
}

zero_status zr_grads_store_sum(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, i->flat_param, ZR_VECTOR_GRADIENT);
    const zr_range range =
        zr_accumulator_range(engine, i->flat_param, zr_grads_sum_slots(engine).slot);
    char *sum = zr_buffer_at(engine, i->from);
    return store->ops->commit(store, range, sum, travel_of(engine, i->flat_param, 0), error);
}

zero_status zr_grads_await_travel(zero_engine *engine, int flat_param, zero_error *error)
{
    for (int sum = 0; sum < zr_accumulators(&engine->plan->settings); sum++)
        ZERO_TRY(zr_offload_await(engine, travel_of(engine, flat_param, sum), error));
    return ZERO_OK;
}

zr_span zr_own_shard(const zero_engine *engine, int flat_param)
{
    int64_t shard = engine->plan->flat_params[flat_param].shard;
    return (zr_span){engine->grid.data->rank * shard, shard};
}

const void *zr_own_shard_gradient(const zero_engine *engine, int flat_param)
{
    return zr_grads_reduced_shard(engine, flat_param, 0);
}

zr_span zr_update_range(const zero_engine *engine, int flat_param)
{
    if (engine->plan->updates_whole)
        return (zr_span){0, engine->plan->flat_params[flat_param].padded};
    return zr_own_shard(engine, flat_param);
}

const void *zr_update_gradient(const zero_engine *engine, int flat_param)
{
    if (engine->plan->updates_whole)
        return zr_buffer_at(engine, engine->plan->flat_params[flat_param].whole);
    return zr_own_shard_gradient(engine, flat_param);
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
