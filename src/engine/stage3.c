// Stage 3 (P_os+g+p): parameters are split too. Where ranks share a machine each piece exists once and all map it: acquiring waits
// for the version, and nothing moves (contract 7). Elsewhere a visit's pieces are all-gathered one visit ahead into two buffers that the
// ranks of a machine share, or once a step into a copy of all pieces that the machine keeps (ZeRO++'s secondary partition, hpZ).
#include "engine/internal.h"

static zero_status mapped_acquire(zero_engine *engine, int visit, int visits, zero_error *error)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    for (int i = 0; i < wanted->piece_count; i++) {
        int p = wanted->pieces[i];
        const zr_piece *piece = &engine->plan->pieces[p];
        ZERO_TRY(engine->comm->versions->await_published(&engine->params, p, engine->version, error));
        zr_comm_count_mapped(engine->comm, p, piece->shard);
        engine->at[p] = engine->params.mine + piece->full_first;
    }
    return ZERO_OK;
}

// Sealing the last gradient of a step also declares: no more reads of this piece's parameters in this step.
static zero_status mapped_seal(zero_engine *engine, int piece, zero_error *error)
{
    if (engine->micro_batch == engine->plan->settings.accumulation - 1)
        ZERO_TRY(engine->comm->versions->release(&engine->params, piece, engine->version, error));
    return zr_grads_start(engine, piece, error);
}

static zero_status mapped_before_update(zero_engine *engine, int piece, zero_error *error)
{
    return engine->comm->versions->await_released(&engine->params, piece, engine->version, error);
}

static zero_status mapped_publish(zero_engine *engine, zero_error *error)
{
    engine->version++;
    for (int p = 0; p < engine->plan->piece_count; p++)
        ZERO_TRY(engine->comm->versions->publish(&engine->params, p, engine->version, error));
    return ZERO_OK;
}

static zero_status start_gather(zero_engine *engine, int p, int64_t first, zero_error *error)
{
    const zr_piece *piece = &engine->plan->pieces[p];
    if (engine->plan->kept && engine->gathered[p] == engine->version) {
        zr_comm_count_mapped(engine->comm, p, piece->shard);
        return ZERO_OK;
    }
    engine->gathered[p] = engine->version;
    return zr_comm_start_gather(&engine->gathers, p, first, piece->shard, piece->dtype, zr_own_parameters(engine, p), &engine->gathering[p], error);
}

static zero_status start_gathers(zero_engine *engine, int visit, zero_error *error)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    for (int i = 0; visit >= 2 && i < engine->plan->visits[visit - 2].piece_count; i++)
        ZERO_TRY(zr_comm_quiesce(&engine->gathers, engine->plan->visits[visit - 2].pieces[i], error));
    int64_t first = visit % 2 == 0 ? 0 : engine->plan->gather_bytes[0];
    for (int i = 0; i < wanted->piece_count; i++) {
        const zr_piece *piece = &engine->plan->pieces[wanted->pieces[i]];
        ZERO_TRY(start_gather(engine, wanted->pieces[i], engine->plan->kept ? piece->full_first : first, error));
        first += engine->comm->size * zr_piece_shard_bytes(piece);
    }
    return ZERO_OK;
}

// A piece that two neighbouring visits read (wte of a one-unit model) is under way once: its first gather is waited for first.
static zero_status gathered_acquire(zero_engine *engine, int visit, int visits, zero_error *error)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    if (visit == 0)
        engine->next_gather = 0;
    if (engine->next_gather == visit) // the first one, and what was too large to be gathered ahead
        ZERO_TRY(start_gathers(engine, engine->next_gather++, error));
    for (int i = 0; i < wanted->piece_count; i++) {
        int p = wanted->pieces[i];
        if (engine->gathering[p].pending)
            ZERO_TRY(zr_comm_wait(&engine->gathering[p], error));
        engine->at[p] = engine->gathers.mine + engine->gathering[p].offset;
    }
    if (engine->next_gather < visits && engine->plan->visits[engine->next_gather].ahead)
        ZERO_TRY(start_gathers(engine, engine->next_gather++, error));
    return ZERO_OK;
}

static zero_status gathered_publish(zero_engine *engine, zero_error *error)
{
    engine->version++;
    return ZERO_OK;
}

const zr_stage_ops zr_stage3_mapped = {
    .params_acquire = mapped_acquire,
    .params_release = zr_params_release_whole,
    .grads_sealed = mapped_seal,
    .update_range = zr_own_shard,
    .update_gradient = zr_own_shard_gradient,
    .before_update = mapped_before_update,
    .publish = mapped_publish,
    .weights_changed = mapped_publish,
};

const zr_stage_ops zr_stage3_gathered = {
    .params_acquire = gathered_acquire,
    .params_release = zr_params_release_whole,
    .grads_sealed = zr_grads_start,
    .update_range = zr_own_shard,
    .update_gradient = zr_own_shard_gradient,
    .publish = gathered_publish,
    .weights_changed = gathered_publish,
};
