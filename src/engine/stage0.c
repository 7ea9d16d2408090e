// Stage 0, plain data parallelism: every rank keeps parameters, gradients and optimizer states whole (the baseline of section 5).
// The gradient is reduced shard by shard as in every stage, and all-gathered once a step; each rank then updates everything.
#include "engine/internal.h"

#include <string.h>

static float *whole_gradient(const zero_engine *engine, int piece)
{
    return (float *)(void *)engine->grads.mine + engine->plan->pieces[piece].grad_first;
}

static zero_status gather_gradients(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    for (int p = 0; p < plan->piece_count; p++) {
        const zr_piece *piece = &plan->pieces[p];
        if (!zr_piece_trains(piece))
            continue;
        ZERO_TRY(zr_comm_quiesce(&engine->grads, p, error));
        float *own = whole_gradient(engine, p) + zr_own_shard(engine, p).first;
        if (own != zr_own_shard_gradient(engine, p))
            memcpy(own, zr_own_shard_gradient(engine, p), (size_t)piece->shard * sizeof *own);
        ZERO_TRY(zr_comm_start(&engine->grads, ZERO_COMM_all_gather, p, piece->grad_first * (int64_t)sizeof(float), piece->shard, ZERO_F32,
                               &engine->gathering[p], error));
    }
    for (int p = 0; p < plan->piece_count; p++)
        if (zr_piece_trains(&plan->pieces[p]))
            ZERO_TRY(zr_comm_all_gather_wait(&engine->gathering[p], error));
    return ZERO_OK;
}

static zr_span whole_piece(const zero_engine *engine, int piece)
{
    return (zr_span){0, engine->plan->pieces[piece].padded};
}

static const float *gradient_of_all(const zero_engine *engine, int piece)
{
    return whole_gradient(engine, piece);
}

static zero_status nothing_to_publish(zero_engine *engine, zero_error *error)
{
    return ZERO_OK;
}

const zr_stage_ops zr_stage0 = {
    .params_acquire = zr_params_acquire_whole,
    .params_release = zr_params_release_whole,
    .grads_sealed = zr_grads_start,
    .boundary = gather_gradients,
    .update_range = whole_piece,
    .update_gradient = gradient_of_all,
    .publish = nothing_to_publish,
};
