// What the walks of every update share: the states of a shard slice, the average of the weights,
// and which elements a rank adds to sums over a tensor.
#include "engine/engine_internal.h"

zr_range_states zr_update_states_from(const zr_update_walk *walk, int64_t element)
{
    zr_range_states at = zr_range_from(walk->states, element - walk->span.first);
    if (!walk->copies)
        at.parameters = NULL;
    return at;
}

void zr_update_average(zr_update_walk *walk, int64_t count, const zr_range_states *at)
{
    walk->update.n = count;
    if (at->average)
        zr_run(walk->queue, zr_op_average(&walk->update, walk->values, at->master, at->average));
}

zr_exact *zr_update_squares(const zero_engine *engine, bool directions)
{
    return engine->update.squares + (directions ? engine->plan->tensor_count : 0);
}

bool zr_update_counted_span(const zr_update_walk *walk, int flat_param, zr_span *out)
{
    zr_span own = zr_own_shard(walk->engine, flat_param);
    int64_t first = ZR_MAX(own.first, walk->span.first),
            end = ZR_MIN(own.first + own.count, walk->span.first + walk->span.count);
    *out = (zr_span){first, end - first};
    return walk->engine->plan->flat_params[flat_param].counted && first < end;
}
