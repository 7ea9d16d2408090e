// LAMB: the update of a tensor is scaled by |p|/|u|. Its norms are sums over the chunks of all ranks, so a tensor may lie on several.
#include "base/alloc.h"
#include "engine/internal.h"

#include <math.h>

typedef struct lamb {
    zero_engine *engine;
    zr_update update;
    double weight_decay;
    zr_span range;
    int piece;
    zr_exact *parameter_squares, *direction_squares; // (tensor_count) each
} lamb;

static float *direction_at(lamb *l, int64_t at)
{
    return zr_state_at(l->engine, 2, l->engine->plan->pieces[l->piece].state_first + at);
}

static void direction_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    lamb *l = user;
    zr_queue *queue = l->engine->queue;
    int64_t at = first - l->range.first, state = l->engine->plan->pieces[l->piece].state_first + at;
    l->update.weight_decay = tensor->decays ? l->weight_decay : 0;
    queue->backend->optimizer->lamb_direction(queue, &l->update, count, zr_update_target(l->engine, l->piece) + at, zr_state_at(l->engine, 0, state),
                                              zr_state_at(l->engine, 1, state), l->engine->stage->update_gradient(l->engine, l->piece) + at,
                                              direction_at(l, at));
}

static void apply_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    lamb *l = user;
    zr_queue *queue = l->engine->queue;
    const zr_optimizer_spec *spec = &l->engine->config->optimizer;
    double p = sqrt(zr_exact_value(&l->parameter_squares[tensor->number])), u = sqrt(zr_exact_value(&l->direction_squares[tensor->number]));
    double ratio = p > 0 && u > 0 ? fmin(fmax(p / u, spec->min_coeff), spec->max_coeff) : 1;
    double step = l->update.lr * sqrt(l->update.correction2) / l->update.correction1 * ratio;
    int64_t at = first - l->range.first;
    queue->backend->optimizer->subtract_scaled(queue, count, (float)step, direction_at(l, at), zr_update_target(l->engine, l->piece) + at);
}

static void for_trained(lamb *l, zr_part_visit visit)
{
    const zr_plan *plan = l->engine->plan;
    for (l->piece = 0; l->piece < plan->piece_count; l->piece++) {
        if (plan->pieces[l->piece].kind != ZERO_TRAINABLE)
            continue;
        l->range = l->engine->stage->update_range(l->engine, l->piece);
        zr_for_parts(&plan->pieces[l->piece], l->range, visit, l);
    }
}

// Norms count each element once, at the rank that owns its shard, at every stage.
static void add_norms(lamb *l)
{
    zero_engine *engine = l->engine;
    for (l->piece = 0; l->piece < engine->plan->piece_count; l->piece++) {
        if (engine->plan->pieces[l->piece].kind != ZERO_TRAINABLE)
            continue;
        int64_t own = zr_own_shard(engine, l->piece).first - engine->stage->update_range(engine, l->piece).first;
        zr_norm_add_squares(engine, l->piece, zr_engine_parameter_shard(engine, l->piece), l->parameter_squares, true);
        zr_norm_add_squares(engine, l->piece, direction_at(l, own), l->direction_squares, true);
    }
}

zero_status zr_lamb_update(zero_engine *engine, const zr_update *update, zero_error *error)
{
    int tensors = engine->plan->tensor_count;
    zr_exact *sums = zr_alloc(2 * (size_t)tensors * sizeof *sums, error);
    if (!sums)
        return ZERO_ERR_MEMORY;
    lamb lamb = {.engine = engine, .update = *update, .weight_decay = update->weight_decay, .parameter_squares = sums, .direction_squares = sums + tensors};
    for_trained(&lamb, direction_part);
    add_norms(&lamb);
    zero_status status = zr_norm_all_reduce(engine, sums, 2 * tensors, error);
    if (status == ZERO_OK)
        for_trained(&lamb, apply_part);
    zr_free(sums);
    return status;
}
