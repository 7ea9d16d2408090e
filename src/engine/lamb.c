// LAMB: the update of a tensor is scaled by |p|/|u|. Its norms are sums over the chunks of all ranks, so a tensor may lie on several.
#include "engine/internal.h"

#include <math.h>
#include <string.h>

typedef struct lamb {
    zero_engine *engine;
    zr_update update;
    double weight_decay;
    zr_span range;
    zr_range_states states; // of the piece at hand
    zr_exact *parameter_squares, *direction_squares; // (tensor_count) each
} lamb;

static void direction_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    lamb *l = user;
    zr_queue *queue = l->engine->queue;
    const zr_range_states at = zr_range_from(&l->states, first - l->range.first);
    l->update.weight_decay = tensor->decays ? l->weight_decay : 0;
    queue->backend->optimizer->lamb_direction(queue, &l->update, count, &at);
}

static void apply_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    lamb *l = user;
    zr_queue *queue = l->engine->queue;
    const zr_optimizer_spec *spec = &l->engine->config->optimizer;
    double p = sqrt(zr_exact_value(&l->parameter_squares[tensor->number])), u = sqrt(zr_exact_value(&l->direction_squares[tensor->number]));
    double ratio = p > 0 && u > 0 ? fmin(fmax(p / u, spec->min_coeff), spec->max_coeff) : 1;
    double step = l->update.lr * sqrt(l->update.correction2) / l->update.correction1 * ratio;
    const zr_range_states at = zr_range_from(&l->states, first - l->range.first);
    queue->backend->optimizer->subtract_scaled(queue, count, (float)step, &at);
}

// Norms count each element once, at the rank that owns its shard, at every stage.
static void add_norms(lamb *l, int piece)
{
    zero_engine *engine = l->engine;
    const zr_range_states own = zr_range_from(&l->states, zr_own_shard(engine, piece).first - l->range.first);
    zr_norm_add_squares(engine, piece, ZERO_F32, own.master, l->parameter_squares, true);
    zr_norm_add_squares(engine, piece, ZERO_F32, own.direction, l->direction_squares, true);
}

// visit: of each part of the range that this rank updates; then, where `norms`, the norms.
static zero_status for_trained(lamb *l, zr_part_visit visit, bool norms, zero_error *error)
{
    zero_engine *engine = l->engine;
    for (int p = 0; p < engine->plan->piece_count; p++) {
        if (engine->plan->pieces[p].kind != ZERO_TRAINABLE)
            continue;
        l->range = engine->stage->update_range(engine, p);
        ZERO_TRY(zr_update_fetch(engine, p, &l->states, error));
        zr_for_parts(&engine->plan->pieces[p], l->range, visit, l);
        if (norms)
            add_norms(l, p);
        ZERO_TRY(zr_update_commit(engine, p, error));
    }
    return ZERO_OK;
}

static zero_status update_by_norms(lamb *l, int tensors, zero_error *error)
{
    ZERO_TRY(for_trained(l, direction_part, true, error));
    ZERO_TRY(zr_norm_all_reduce(l->engine, l->parameter_squares, 2 * tensors, error));
    return for_trained(l, apply_part, false, error);
}

zero_status zr_lamb_update(zero_engine *engine, const zr_update *update, zero_error *error)
{
    int tensors = engine->plan->tensor_count;
    lamb lamb = {.engine = engine, .update = *update, .weight_decay = update->weight_decay, .parameter_squares = engine->squares, .direction_squares = engine->squares + tensors};
    memset(engine->squares, 0, 2 * (size_t)tensors * sizeof *engine->squares);
    return update_by_norms(&lamb, tensors, error);
}
