// Gradients of a micro-batch: opened, contributed to, sealed, reduced into the owner's accumulator (contract 4).
// Units contribute in fp32; where gradients have 16 bits they are rounded once, at the sealing, into the window that peers read.
#include "engine/internal.h"

#include <string.h>

bool zr_piece_trains(const zr_piece *piece)
{
    return piece->first_backward >= 0;
}

static bool overlap(const zr_piece *a, const zr_piece *b)
{
    int64_t a_bytes = a->padded * (int64_t)zero_dtype_bytes(a->gradient_dtype), b_bytes = b->padded * (int64_t)zero_dtype_bytes(b->gradient_dtype);
    return a->grad_first < b->grad_first + b_bytes && b->grad_first < a->grad_first + a_bytes;
}

// Gaps and padding take part in the exchange: they must hold zeros, whatever lay there before.
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

static char *place_in_window(const zero_engine *engine, const zr_piece *piece)
{
    return engine->grads.mine + piece->grad_first;
}

float *zr_grads_collecting(const zero_engine *engine, int piece)
{
    const zr_piece *p = &engine->plan->pieces[piece];
    if (p->open_first < 0)
        return (float *)(void *)place_in_window(engine, p);
    int visit = engine->stream_visit >= 0 ? engine->stream_visit : p->sealed_at;
    int64_t first = p->streamed ? engine->plan->visits[visit].open_first : p->open_first;
    return (float *)(void *)(engine->open.base + first);
}

// Before a piece's place in the window is written: all readers have drained whatever lay there.
static zero_status await_place(zero_engine *engine, const zr_piece *piece, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    for (int q = 0; q < plan->piece_count; q++)
        if (plan->pieces[q].grad_first >= 0 && overlap(piece, &plan->pieces[q]))
            ZERO_TRY(zr_comm_quiesce(&engine->grads, q, error));
    return ZERO_OK;
}

static bool accumulates_on_nvme(const zr_piece *piece)
{
    return piece->kind == ZERO_TRAINABLE && piece->state_tier == ZERO_TIER_nvme && piece->accumulator_first >= 0;
}

static int64_t sum_bytes(const zr_piece *piece)
{
    return piece->shard * (int64_t)zero_dtype_bytes(piece->accumulator_dtype);
}

static bool staged_overlap(const zr_piece *a, const zr_piece *b, int sums)
{
    return a->accumulator_first < b->accumulator_first + sums * sum_bytes(b) && b->accumulator_first < a->accumulator_first + sums * sum_bytes(a);
}

// What the piece's accumulators exchange with NVMe has ended.
static zero_status await_transfers(zero_engine *engine, int piece, zero_error *error)
{
    int sums = zr_accumulators(&engine->plan->settings);
    for (int i = 0; i < sums; i++)
        ZERO_TRY(zr_offload_await(engine, &engine->offload.gradients[piece * sums + i], error));
    return ZERO_OK;
}

// Before a piece's place in the host buffers is written: what lay there is on NVMe, and its own sums have come from there.
static zero_status await_staged(zero_engine *engine, const zr_piece *piece, zero_error *error)
{
    int sums = zr_accumulators(&engine->plan->settings);
    for (int q = 0; q < engine->plan->piece_count; q++)
        if (accumulates_on_nvme(&engine->plan->pieces[q]) && staged_overlap(piece, &engine->plan->pieces[q], sums))
            ZERO_TRY(await_transfers(engine, q, error));
    return ZERO_OK;
}

static zr_sum_place sum_place(const zero_engine *engine)
{
    return zr_sum_place_of(&engine->plan->settings, engine->micro_batch);
}

// The sums of micro-batches before this one begin to travel to where this one's is added to them.
static zero_status fetch_sums(zero_engine *engine, int visit, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    const zr_sum_place place = sum_place(engine);
    int sums = zr_accumulators(&plan->settings);
    for (int p = 0; p < plan->piece_count && place.adds > 0 && plan->staged_gradient_bytes; p++) {
        const zr_piece *piece = &plan->pieces[p];
        if (piece->fetched_with != visit)
            continue;
        zr_store *store = zr_vector_store(engine, p, ZR_VECTOR_GRADIENT);
        ZERO_TRY(await_staged(engine, piece, error));
        for (int i = 0; i < place.adds; i++)
            ZERO_TRY(store->ops->fetch(store, zr_accumulator_range(engine, p, place.slot + i), engine->offload.staged_gradients.base + piece->accumulator_first + i * sum_bytes(piece),
                                       &engine->offload.gradients[p * sums + i], error));
    }
    return ZERO_OK;
}

// Before a piece collects its first contribution of this micro-batch.
static zero_status open_piece(zero_engine *engine, int number, zero_error *error)
{
    const zr_piece *piece = &engine->plan->pieces[number];
    if (piece->open_first < 0)
        ZERO_TRY(await_place(engine, piece, error));
    else
        ZERO_TRY(zr_parked_await(engine, zr_grads_collecting(engine, number), piece->padded, error));
    zero_gaps(piece, zr_grads_collecting(engine, number));
    return ZERO_OK;
}

zero_status zr_grads_open(zero_engine *engine, int number, zero_error *error)
{
    const zr_visit *visit = &engine->plan->visits[number];
    const zr_unit_plan *unit = &engine->plan->units[visit->unit];
    ZERO_TRY(fetch_sums(engine, number, error));
    for (int i = 0; i < unit->piece_count; i++) {
        const zr_piece *piece = &engine->plan->pieces[unit->pieces[i]];
        bool here = visit->stream >= 0 ? visit->stream == unit->pieces[i] : !piece->streamed;
        if (here && piece->first_backward == visit->unit)
            ZERO_TRY(open_piece(engine, unit->pieces[i], error));
    }
    return zr_parked_bring(engine, number, error);
}

// Where there is no accumulator (one micro-batch, whole gradients), the sum replaces the own contribution: only this rank reads it.
static char *reduced_shard(const zero_engine *engine, int piece, int slot)
{
    const zr_piece *p = &engine->plan->pieces[piece];
    if (accumulates_on_nvme(p))
        return engine->offload.staged_gradients.base + p->accumulator_first;
    if (p->accumulator_first >= 0)
        return zr_store_at(zr_vector_store((zero_engine *)engine, piece, ZR_VECTOR_GRADIENT), zr_accumulator_range(engine, piece, slot).first);
    return place_in_window(engine, p) + engine->comm->rank * zr_piece_gradient_shard_bytes(p);
}

// The one accumulation path: this micro-batch's sum over the ranks, with earlier sums added in fp32, and rounded once.
zero_status zr_grads_start(zero_engine *engine, int piece, zero_error *error)
{
    const zr_piece *p = &engine->plan->pieces[piece];
    const zr_sum_place place = sum_place(engine);
    if (engine->micro_batch == 0)
        ZERO_TRY(zr_delayed_await_piece(engine, piece, error));
    if (p->open_first >= 0) {
        ZERO_TRY(await_place(engine, p, error));
        engine->queue->backend->elements->convert(engine->queue, ZERO_F32, p->gradient_dtype, p->padded, zr_grads_collecting(engine, piece),
                                                  place_in_window(engine, p));
    }
    if (accumulates_on_nvme(p))
        ZERO_TRY(await_staged(engine, p, error));
    const zr_sum_target to = {reduced_shard(engine, piece, place.slot), p->accumulator_dtype, place.adds, p->shard};
    return zr_comm_start(&engine->grads, ZERO_COMM_reduce_scatter, piece, p->grad_first, p->shard, p->gradient_dtype, &to, &engine->reducing[piece], error);
}

// The sum over the ranks, and over earlier micro-batches, is complete: it goes where it is kept.
static zero_status reduced(zero_engine *engine, int piece, zero_error *error)
{
    const zr_piece *p = &engine->plan->pieces[piece];
    int slot = sum_place(engine).slot;
    const void *sum = reduced_shard(engine, piece, slot);
    engine->offload.to_host += p->state_tier == ZERO_TIER_device ? 0 : sum_bytes(p);
    if (!accumulates_on_nvme(p))
        return ZERO_OK;
    if (engine->micro_batch == engine->plan->settings.accumulation - 1)
        zr_norm_add_squares(engine, piece, zr_own_shard(engine, piece), p->accumulator_dtype, sum, &engine->norm, false);
    zr_store *store = zr_vector_store(engine, piece, ZR_VECTOR_GRADIENT);
    return store->ops->commit(store, zr_accumulator_range(engine, piece, slot), (void *)sum, &engine->offload.gradients[piece * zr_accumulators(&engine->plan->settings)], error);
}

zero_status zr_grads_written(zero_engine *engine, zero_error *error)
{
    for (int p = 0; p < engine->plan->piece_count && engine->offload.io; p++)
        ZERO_TRY(await_transfers(engine, p, error));
    return ZERO_OK;
}

// At the end of a visit: what it seals is sealed; then, oldest first, those are reduced that the plan says are due.
zero_status zr_grads_seal_and_reduce(zero_engine *engine, int visit, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    ZERO_TRY(zr_parked_take(engine, visit, error));
    while (engine->next_sealed < plan->sealed_count && plan->pieces[plan->sealed[engine->next_sealed]].sealed_at == visit)
        ZERO_TRY(engine->stage->grads_sealed(engine, plan->sealed[engine->next_sealed++], error));
    while (engine->next_reduced < engine->next_sealed && plan->pieces[plan->sealed[engine->next_reduced]].reduced_after <= visit) {
        int piece = plan->sealed[engine->next_reduced++];
        ZERO_TRY(zr_comm_wait(&engine->reducing[piece], error));
        ZERO_TRY(reduced(engine, piece, error));
    }
    return ZERO_OK;
}

zr_span zr_own_shard(const zero_engine *engine, int piece)
{
    int64_t shard = engine->plan->pieces[piece].shard;
    return (zr_span){engine->comm->rank * shard, shard};
}

const void *zr_own_shard_gradient(const zero_engine *engine, int piece)
{
    return reduced_shard(engine, piece, 0);
}

void zr_for_parts(const zr_piece *piece, zr_span span, zr_part_visit visit, void *user)
{
    for (int t = 0; t < piece->tensor_count; t++) {
        const zr_plan_tensor *tensor = &piece->tensors[t];
        int64_t first = ZR_MAX(span.first, tensor->first);
        int64_t end = ZR_MIN(span.first + span.count, tensor->first + tensor->count);
        if (first < end)
            visit(user, tensor, first, end - first);
    }
}
