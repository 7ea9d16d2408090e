// LAMB, Algorithm 2 of arXiv 1904.00962: the moments, corrected for their start at zero, give a
// direction u, which is scaled by |p|/|u|. Both norms are sums over the chunks of all ranks, so a
// tensor may lie on several ranks.
#include "engine/buffers.h"
#include "engine/engine_internal.h"

#include <math.h>
#include <string.h>

typedef struct lamb {
    zero_engine *engine;
    zr_update update;
    const zr_update_values *values;
    double weight_decay;
    zr_span span; // of the current shard slice, elements of the flat parameter
    const zr_range_states *states;
    zr_part_fn part; // what the current walk does with each part of a tensor
    zr_exact *parameter_squares, *direction_squares; // (tensor_count) each
} lamb;

static void direction_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    lamb *l = user;
    zr_queue *queue = l->engine->queue;
    const zr_range_states at = zr_range_from(l->states, first - l->span.first);
    l->update.weight_decay = tensor->decays ? l->weight_decay : 0;
    l->update.n = count;
    l->update.gradient = at.gradient_dtype;
    zr_run(queue, zr_op_lamb_direction(&l->update, l->values, at.master, at.state0, at.state1,
                                       at.gradient, at.direction));
}

static void apply_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    lamb *l = user;
    zr_queue *queue = l->engine->queue;
    const zr_optimizer_spec *spec = &l->engine->config->optimizer;
    double p = sqrt(zr_exact_value(&l->parameter_squares[tensor->number])),
           u = sqrt(zr_exact_value(&l->direction_squares[tensor->number]));
    double ratio = p > 0 && u > 0 ? fmin(fmax(p / u, spec->min_coeff), spec->max_coeff) : 1;
    zr_range_states at = zr_range_from(l->states, first - l->span.first);
    if (!zr_plan_updates_copies(l->engine->plan))
        at.parameters = NULL;
    l->update.n = count;
    l->update.parameters = at.parameters_dtype;
    l->engine->operands.lamb_step = (float)(l->values->lr * ratio);
    zr_run(queue, zr_op_subtract_scaled(&l->update, &l->engine->operands.lamb_step, at.master,
                                        at.direction, at.parameters));
}

// Adds each element to the norms once, at every stage: on the rank that owns its shard and counts
// the flat parameter.
static void add_norms(lamb *l, int flat_param)
{
    if (!l->engine->plan->flat_params[flat_param].counted)
        return;
    zr_span own = zr_own_shard(l->engine, flat_param);
    int64_t first = ZR_MAX(own.first, l->span.first),
            end = ZR_MIN(own.first + own.count, l->span.first + l->span.count);
    if (end <= first)
        return;
    const zr_range_states at = zr_range_from(l->states, first - l->span.first);
    zr_norm_add_squares(l->engine, flat_param, (zr_span){first, end - first}, ZERO_F32, at.master,
                        l->parameter_squares, true);
    zr_norm_add_squares(l->engine, flat_param, (zr_span){first, end - first}, ZERO_F32,
                        at.direction, l->direction_squares, true);
}

static zero_status walk_shard_slice(void *user, zero_engine *engine,
                                    const zr_shard_slice *shard_slice,
                                    const zr_range_states *states, zero_error *error)
{
    lamb *l = user;
    l->span = zr_shard_slice_span(engine, shard_slice);
    l->states = states;
    zr_for_parts(&engine->plan->flat_params[shard_slice->flat_param], l->span, l->part, l);
    if (l->part == direction_part)
        add_norms(l, shard_slice->flat_param);
    return ZERO_OK;
}

zero_status zr_lamb_update(zero_engine *engine, const zr_update_walk *update,
                           const zr_walk_vectors walks[2], zero_error *error)
{
    int tensors = engine->plan->tensor_count;
    lamb lamb = {.engine = engine,
                 .update = update->update,
                 .values = update->values,
                 .weight_decay = update->weight_decay,
                 .part = direction_part,
                 .parameter_squares = engine->update.squares,
                 .direction_squares = engine->update.squares + tensors};
    memset(engine->update.squares, 0, 2 * (size_t)tensors * sizeof *engine->update.squares);
    zr_walk walk = {.vectors = walks[0], .take = walk_shard_slice, .user = &lamb};
    ZERO_TRY(zr_groups_walk(engine, &walk, error));
    ZERO_TRY(zr_norm_all_reduce(engine, lamb.parameter_squares, 2 * tensors, error));
    walk.vectors = walks[1];
    lamb.part = apply_part;
    return zr_groups_walk(engine, &walk, error);
}
