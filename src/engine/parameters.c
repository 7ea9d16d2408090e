// Parameters of the stages that keep a whole replica a rank (0, 1, 2), and where every stage keeps weights: 16-bit parameters
// that units read, and, where they are trained, the fp32 master that they are rounded from.
#include "engine/internal.h"

zero_status zr_params_acquire_whole(zero_engine *engine, int visit, int visits, zero_error *error)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    for (int i = 0; i < wanted->piece_count; i++)
        engine->at[wanted->pieces[i]] = engine->params.mine + engine->plan->pieces[wanted->pieces[i]].full_first;
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
            ZERO_TRY(zr_comm_start(&engine->params, ZERO_COMM_all_gather, p, piece->full_first, piece->shard, piece->dtype, NULL, &engine->gathering[p], error));
    }
    for (int p = 0; p < plan->piece_count; p++)
        if (engine->gathering[p].pending)
            ZERO_TRY(zr_comm_wait(&engine->gathering[p], error));
    return ZERO_OK;
}

void *zr_own_parameters(const zero_engine *engine, int piece)
{
    const zr_piece *p = &engine->plan->pieces[piece];
    if (engine->shards.base)
        return engine->shards.base + p->shard_first;
    return engine->params.mine + p->full_first + engine->comm->rank * zr_piece_shard_bytes(p);
}

bool zr_piece_has_master(const zero_engine *engine, int piece)
{
    return engine->master.ops && engine->plan->pieces[piece].state_first >= 0;
}

// The master of the range that this rank updates, from its first element on.
static float *master_of_range(zero_engine *engine, int piece)
{
    return (float *)(void *)engine->master.arena.base + engine->plan->pieces[piece].state_first;
}

void *zr_engine_weight_shard(zero_engine *engine, int piece, zero_dtype *dtype)
{
    *dtype = ZERO_F32;
    if (zr_piece_has_master(engine, piece))
        return master_of_range(engine, piece) + (zr_own_shard(engine, piece).first - engine->stage->update_range(engine, piece).first);
    *dtype = engine->plan->pieces[piece].dtype;
    return zr_own_parameters(engine, piece);
}

// A rank that updates more than its own shard has the master of all of it.
static zero_status share_master(zero_engine *engine, int piece, zero_error *error)
{
    int64_t shard = engine->plan->pieces[piece].shard;
    for (int r = 0; r < engine->comm->size && engine->stage->update_range(engine, piece).count > shard; r++)
        ZERO_TRY(zr_comm_broadcast(engine->comm, master_of_range(engine, piece) + r * shard, shard * (int64_t)sizeof(float), r, error));
    return ZERO_OK;
}

zero_status zr_engine_parameters_changed(zero_engine *engine, zero_error *error)
{
    for (int p = 0; p < engine->plan->piece_count; p++) {
        zero_dtype dtype;
        const zr_piece *piece = &engine->plan->pieces[p];
        if (!zr_piece_has_master(engine, p))
            continue;
        ZERO_TRY(share_master(engine, p, error));
        engine->queue->backend->elements->convert(engine->queue, ZERO_F32, piece->dtype, piece->shard, zr_engine_weight_shard(engine, p, &dtype),
                                                  zr_own_parameters(engine, p));
    }
    ZERO_TRY(engine->stage->weights_changed(engine, error));
    zr_comm_hash_reset(engine->comm);
    return zr_comm_barrier(engine->comm, error);
}

zero_status zr_params_share_replicas(zero_engine *engine, zero_error *error)
{
    return zr_params_gather_replicas(engine, false, error);
}
