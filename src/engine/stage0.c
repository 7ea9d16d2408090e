// Stage 0, plain data parallelism: every rank keeps parameters, gradients and optimizer states whole (the baseline of section 5).
// The gradient is reduced shard by shard as in every stage, and all-gathered once a step; each rank then updates everything.
#include "engine/internal.h"

#include <string.h>

// Where the accumulated gradient becomes whole: in its place in the gradient window, unless it is of another type.
static bool gathered_apart(const zero_engine *engine)
{
    return engine->plan->whole_bytes > 0;
}

static int64_t first_in_window(const zero_engine *engine, int piece)
{
    const zr_piece *p = &engine->plan->pieces[piece];
    return gathered_apart(engine) ? p->whole.first : p->grad_first;
}

static zero_status gather_gradients(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    zr_window *window = gathered_apart(engine) ? &engine->wholes : &engine->grads;
    for (int p = 0; p < plan->piece_count; p++) {
        const zr_piece *piece = &plan->pieces[p];
        if (!zr_piece_trains(piece))
            continue;
        ZERO_TRY(zr_comm_quiesce(window, p, error));
        int64_t bytes = piece->shard * (int64_t)zero_dtype_bytes(piece->accumulator_dtype), first = first_in_window(engine, p);
        char *own = window->mine + first + engine->comm->rank * bytes;
        if (own != zr_own_shard_gradient(engine, p))
            memcpy(own, zr_own_shard_gradient(engine, p), (size_t)bytes);
        ZERO_TRY(zr_comm_start(window, ZERO_COMM_all_gather, p, first, piece->shard, piece->accumulator_dtype, NULL, &engine->gathering[p], error));
    }
    for (int p = 0; p < plan->piece_count; p++)
        if (zr_piece_trains(&plan->pieces[p]))
            ZERO_TRY(zr_comm_wait(&engine->gathering[p], error));
    return ZERO_OK;
}

static zr_span whole_piece(const zero_engine *engine, int piece)
{
    return (zr_span){0, engine->plan->pieces[piece].padded};
}

static const void *gradient_of_all(const zero_engine *engine, int piece)
{
    return (gathered_apart(engine) ? engine->wholes.mine : engine->grads.mine) + first_in_window(engine, piece);
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
    .weights_changed = zr_params_share_replicas,
};
