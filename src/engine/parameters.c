// Parameters of the stages that keep a whole replica a rank (0, 1, 2).
#include "engine/internal.h"

zero_status zr_params_acquire_whole(zero_engine *engine, int visit, int visits, zero_error *error)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    for (int i = 0; i < wanted->piece_count; i++)
        engine->at[wanted->pieces[i]] = (float *)(void *)engine->params.mine + engine->plan->pieces[wanted->pieces[i]].full_first;
    return ZERO_OK;
}

void zr_params_release_whole(zero_engine *engine, int visit)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    for (int i = 0; i < wanted->piece_count; i++)
        engine->at[wanted->pieces[i]] = NULL;
}

// Every rank's shards into every replica; all exchanges are started before the first is waited for.
zero_status zr_params_gather_replicas(zero_engine *engine, bool trained_only, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    for (int p = 0; p < plan->piece_count; p++) {
        const zr_piece *piece = &plan->pieces[p];
        if (!trained_only || piece->first_backward >= 0)
            ZERO_TRY(zr_comm_start(&engine->params, ZERO_COMM_all_gather, p, piece->full_first * (int64_t)sizeof(float), piece->shard, ZERO_F32,
                                   &engine->gathering[p], error));
    }
    for (int p = 0; p < plan->piece_count; p++)
        if (engine->gathering[p].pending)
            ZERO_TRY(zr_comm_all_gather_wait(&engine->gathering[p], error));
    return ZERO_OK;
}

float *zr_engine_parameter_shard(zero_engine *engine, int piece)
{
    const zr_piece *p = &engine->plan->pieces[piece];
    if (engine->shards.base)
        return (float *)(void *)engine->shards.base + p->shard_first;
    return (float *)(void *)engine->params.mine + p->full_first + engine->comm->rank * p->shard;
}
