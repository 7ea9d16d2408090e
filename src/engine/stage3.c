// Stage 3 (P_os+g+p): parameters are split too. Where ranks share a machine each piece exists once and all map it: acquiring waits
// for the version, and nothing moves (contract 7). Elsewhere, and where parameters lie on host or NVMe, a visit's pieces are gathered one visit
// ahead into two buffers that the ranks of a machine share; pieces that the plan keeps there, once a step (small ones of those that are
// offloaded; all of them for ZeRO++'s secondary partition, hpZ).
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

static zero_status start_gather(zero_engine *engine, int visit, int i, zero_error *error)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    int p = wanted->pieces[i];
    const zr_piece *piece = &engine->plan->pieces[p];
    const void *own;
    bool there = piece->kept_first >= 0 ? engine->gathered[p] == engine->version : !wanted->gathers[i];
    if (there) {
        zr_comm_count_mapped(engine->comm, p, piece->shard);
        return ZERO_OK;
    }
    engine->gathered[p] = engine->version;
    ZERO_TRY(zr_fetches_await(engine, visit, i, &own, error));
    engine->offload.to_device += piece->parameter_tier == ZERO_TIER_device ? 0 : zr_piece_shard_bytes(piece);
    return zr_comm_start_gather(&engine->gathers, p, wanted->gather_first[i], piece->shard, piece->dtype, own, &engine->gathering[p], error);
}

// Before a place in the window is gathered into: all readers have drained the own shards of what lay there last.
static zero_status await_place(zero_engine *engine, int piece, int64_t first, zero_error *error)
{
    int64_t end = first + engine->comm->size * zr_piece_shard_bytes(&engine->plan->pieces[piece]);
    for (int q = 0; q < engine->plan->piece_count; q++) {
        const zr_handle *last = &engine->gathering[q];
        if (last->window && last->offset < end && first < last->offset + engine->comm->size * zr_piece_shard_bytes(&engine->plan->pieces[q]))
            ZERO_TRY(zr_comm_quiesce(&engine->gathers, q, error));
    }
    return ZERO_OK;
}

static zero_status start_gathers(zero_engine *engine, int visit, zero_error *error)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    for (int i = 0; i < wanted->piece_count; i++) {
        ZERO_TRY(await_place(engine, wanted->pieces[i], wanted->gather_first[i], error));
        ZERO_TRY(start_gather(engine, visit, i, error));
    }
    return ZERO_OK;
}

static zero_status begin_pass(zero_engine *engine, int visits, zero_error *error)
{
    engine->next_gather = 0;
    engine->offload.fetched = -1;
    return zr_fetches_begin(engine, ZR_MIN(engine->plan->first_fetches, visits - 1), error);
}

// A piece that two neighbouring visits read (wte of a one-unit model) is under way once: its first gather is waited for first.
static zero_status gathered_acquire(zero_engine *engine, int visit, int visits, zero_error *error)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    if (visit == 0)
        ZERO_TRY(begin_pass(engine, visits, error));
    if (engine->next_gather == visit) // the first one, and what was too large to be gathered ahead
        ZERO_TRY(start_gathers(engine, engine->next_gather++, error));
    for (int i = 0; i < wanted->piece_count; i++) {
        int p = wanted->pieces[i];
        if (engine->gathering[p].pending)
            ZERO_TRY(zr_comm_wait(&engine->gathering[p], error));
        engine->at[p] = engine->gathers.mine + wanted->gather_first[i];
    }
    ZERO_TRY(zr_fetches_begin(engine, ZR_MIN(wanted->fetches_visit, visits - 1), error));
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
