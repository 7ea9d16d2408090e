// Stages 1 (P_os) and 2 (P_os+g): a rank keeps the optimizer states of its shards, and at stage 2 only their gradients.
// Both update the own shards and all-gather the new parameters; they differ only in when gradient bytes are held, which the
// plan decides (whole window, or slots that are given back once reduced).
#include "engine/internal.h"

// Peers copied this shard after the last update.
static zero_status readers_have_copied(zero_engine *engine, int piece, zero_error *error)
{
    return zr_comm_quiesce(&engine->params, piece, error);
}

static zero_status gather_updated(zero_engine *engine, zero_error *error)
{
    return zr_params_gather_replicas(engine, true, error);
}

const zr_stage_ops zr_stage12 = {
    .params_acquire = zr_params_acquire_whole,
    .params_release = zr_params_release_whole,
    .grads_sealed = zr_grads_start,
    .update_range = zr_own_shard,
    .update_gradient = zr_own_shard_gradient,
    .before_update = readers_have_copied,
    .publish = gather_updated,
    .weights_changed = zr_params_share_replicas,
};
