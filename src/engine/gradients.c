// Gradients of a micro-batch (contract 4): they are bound where units add their contributions in
// fp32, rounded once where gradients have 16 bits, and summed into the owner's accumulator, which
// may lie on NVMe.
#include "compute/element_ops.h"
#include "engine/execute.h"
#include "engine/gradient_norm.h"
#include "engine/gradients.h"
#include "engine/interpret.h"
#include "plan/piece_sums.h"

#include <string.h>

// Zeroes the gaps and the padding, because they take part in the exchange.
static void zero_gaps(const zr_piece *piece, float *gradient)
{
    int64_t at = 0;
    for (int t = 0; t < piece->tensor_count; t++) {
        const zr_plan_tensor *tensor = &piece->tensors[t];
        memset(gradient + at, 0, (size_t)(tensor->first - at) * sizeof *gradient);
        at = tensor->first + tensor->count;
    }
    memset(gradient + at, 0, (size_t)(piece->padded - at) * sizeof *gradient);
}

static bool is_of_gradients(zr_space space)
{
    return space == ZR_SPACE_GRADIENTS || space == ZR_SPACE_OPEN_SUMS;
}

zero_status zr_execute_bind(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    char *at = zr_place_at(engine, i->place);
    if (is_of_gradients(i->place.space))
        engine->collecting[i->piece].at = (float *)(void *)at;
    else
        engine->at[i->piece] = at;
    return ZERO_OK;
}

zero_status zr_execute_unbind(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    if (is_of_gradients(i->place.space))
        engine->collecting[i->piece].at = NULL;
    else
        engine->at[i->piece] = NULL;
    return ZERO_OK;
}

zero_status zr_execute_open(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    float *at = (float *)(void *)zr_place_at(engine, i->place);
    zero_gaps(&engine->plan->pieces[i->piece], at);
    engine->collecting[i->piece] = (zr_collecting){at, i->unit};
    return ZERO_OK;
}

zero_status zr_execute_round(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_piece *piece = &engine->plan->pieces[i->piece];
    zr_queue *queue = engine->queue;
    queue->backend->elements->convert(queue, ZERO_F32, piece->gradient_dtype, piece->padded,
                                      zr_place_at(engine, i->from), zr_place_at(engine, i->place));
    return ZERO_OK;
}

zero_status zr_execute_squares(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    const zr_piece *piece = &engine->plan->pieces[i->piece];
    if (!piece->counted)
        return ZERO_OK;
    const void *sum = zr_own_shard_gradient(engine, i->piece);
    zr_norm_add_squares(engine, i->piece, zr_own_shard(engine, i->piece), piece->accumulator_dtype,
                        sum, &engine->sums.norm, false);
    return ZERO_OK;
}

zr_sum_slots zr_grads_sum_slots(const zero_engine *engine)
{
    return zr_sum_slots_of(&engine->plan->settings, engine->micro_batch);
}

// Where there is no accumulator (one micro-batch, whole gradients), the sum replaces this rank's
// own contribution, which only this rank reads.
char *zr_grads_reduced_shard(const zero_engine *engine, int piece, int slot)
{
    const zr_piece *p = &engine->plan->pieces[piece];
    if (zr_piece_sums_on_nvme(p))
        return zr_place_at(engine, (zr_place){ZR_SPACE_STAGED_SUMS, p->accumulator_first});
    if (p->accumulator_first >= 0) {
        zr_store *store = zr_vector_store((zero_engine *)engine, piece, ZR_VECTOR_GRADIENT);
        return zr_store_at(store, zr_accumulator_range(engine, piece, slot).first);
    }
    char *whole = zr_place_at(engine, (zr_place){ZR_SPACE_GRADIENTS, p->grad_first});
    return whole + engine->grid.data->rank * zr_piece_gradient_shard_bytes(p);
}

static zr_transfer *travel_of(zero_engine *engine, int piece, int sum)
{
    return &engine->offload.gradients[piece * zr_accumulators(&engine->plan->settings) + sum];
}

// Begins to fetch the sums of earlier micro-batches to which this one's is added, one after
// another.
zero_status zr_grads_fetch_sums(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, i->piece, ZR_VECTOR_GRADIENT);
    const zr_sum_slots place = zr_grads_sum_slots(engine);
    char *to = zr_place_at(engine, i->place);
    for (int sum = 0; sum < place.adds; sum++, to += i->bytes) {
        const zr_range range = zr_accumulator_range(engine, i->piece, place.slot + sum);
        ZERO_TRY(store->ops->fetch(store, range, to, travel_of(engine, i->piece, sum), error));
    }
    return ZERO_OK;
}

zero_status zr_grads_store_sum(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_store *store = zr_vector_store(engine, i->piece, ZR_VECTOR_GRADIENT);
    const zr_range range = zr_accumulator_range(engine, i->piece, zr_grads_sum_slots(engine).slot);
    char *sum = zr_place_at(engine, i->from);
    return store->ops->commit(store, range, sum, travel_of(engine, i->piece, 0), error);
}

zero_status zr_grads_await_travel(zero_engine *engine, int piece, zero_error *error)
{
    for (int sum = 0; sum < zr_accumulators(&engine->plan->settings); sum++)
        ZERO_TRY(zr_offload_await(engine, travel_of(engine, piece, sum), error));
    return ZERO_OK;
}

zr_span zr_own_shard(const zero_engine *engine, int piece)
{
    int64_t shard = engine->plan->pieces[piece].shard;
    return (zr_span){engine->grid.data->rank * shard, shard};
}

const void *zr_own_shard_gradient(const zero_engine *engine, int piece)
{
    return zr_grads_reduced_shard(engine, piece, 0);
}

zr_span zr_update_range(const zero_engine *engine, int piece)
{
    if (engine->plan->updates_whole)
        return (zr_span){0, engine->plan->pieces[piece].padded};
    return zr_own_shard(engine, piece);
}

const void *zr_update_gradient(const zero_engine *engine, int piece)
{
    if (engine->plan->updates_whole)
        return zr_place_at(engine, engine->plan->pieces[piece].whole);
    return zr_own_shard_gradient(engine, piece);
}

void zr_for_parts(const zr_piece *piece, zr_span span, zr_part_fn take, void *user)
{
    for (int t = 0; t < piece->tensor_count; t++) {
        const zr_plan_tensor *tensor = &piece->tensors[t];
        int64_t first = ZR_MAX(span.first, tensor->first);
        int64_t end = ZR_MIN(span.first + span.count, tensor->first + tensor->count);
        if (first < end)
            take(user, tensor, first, end - first);
    }
}
