// Parameters of own shards on their way from NVMe, visit by visit in the order of the plan, ahead of their gathering.
#include "engine/internal.h"

static zr_transfer *transfer_of(zero_engine *engine, int visit, int i)
{
    return &engine->offload.parameters[visit * ZERO_MAX_PIECES + i];
}

// A piece that is kept travels once after the weights have changed.
static bool travels(const zero_engine *engine, const zr_visit *visit, int i)
{
    const zr_piece *piece = &engine->plan->pieces[visit->pieces[i]];
    return visit->staged_first[i] >= 0 && !(piece->kept_first >= 0 && engine->gathered[visit->pieces[i]] == engine->version);
}

zero_status zr_fetches_begin(zero_engine *engine, int last_visit, zero_error *error)
{
    zr_offload *offload = &engine->offload;
    for (int v = offload->fetched + 1; v <= last_visit && offload->io; v++) {
        const zr_visit *visit = &engine->plan->visits[v];
        for (int i = 0; i < visit->piece_count; i++) {
            int p = visit->pieces[i];
            if (!travels(engine, visit, i))
                continue;
            zr_store *store = zr_vector_store(engine, p, ZR_VECTOR_PARAMETERS);
            zr_range range = zr_vector_range(engine, p, ZR_VECTOR_PARAMETERS, 0, engine->plan->pieces[p].shard);
            ZERO_TRY(store->ops->fetch(store, range, offload->staged_parameters.base + visit->staged_first[i], transfer_of(engine, v, i), error));
        }
        offload->fetched = v;
    }
    return ZERO_OK;
}

zero_status zr_fetches_await(zero_engine *engine, int visit, int i, const void **own, zero_error *error)
{
    const zr_visit *wanted = &engine->plan->visits[visit];
    *own = zr_own_parameters(engine, wanted->pieces[i]);
    if (*own)
        return ZERO_OK;
    *own = engine->offload.staged_parameters.base + wanted->staged_first[i];
    return zr_offload_await(engine, transfer_of(engine, visit, i), error);
}
