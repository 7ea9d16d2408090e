// LAMB, Algorithm 2 of arXiv 1904.00962: the moments, corrected for their start at zero, give a
// direction u, which is scaled by |p|/|u|. Both norms are sums over the chunks of all ranks, so a
// tensor may lie on several ranks.
#include "engine/buffers.h"
#include "engine/engine_internal.h"
#include "engine/update.h"

#include <math.h>
#include <string.h>

typedef struct lamb {
    zero_engine *engine;
    zr_update update;
    const zr_update_values *values;
    double weight_decay;
    zr_span span; // of the current shard slice, elements of the flat parameter
    const zr_range_states *states;
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

static void take_parts(lamb *l, const zr_shard_slice *shard_slice, const zr_range_states *states,
                       zr_part_fn take)
{
    l->span = zr_shard_slice_span(l->engine, shard_slice);
    l->states = states;
    zr_for_parts(&l->engine->plan->flat_params[shard_slice->flat_param], l->span, take, l);
}

static zero_status find_direction(void *user, zero_engine *engine,
                                  const zr_shard_slice *shard_slice, const zr_range_states *states,
                                  zero_error *error)
{
    take_parts(user, shard_slice, states, direction_part);
    add_norms(user, shard_slice->flat_param);
    return ZERO_OK;
}

static zero_status apply_direction(void *user, zero_engine *engine,
                                   const zr_shard_slice *shard_slice, const zr_range_states *states,
                                   zero_error *error)
{
    take_parts(user, shard_slice, states, apply_part);
    return ZERO_OK;
}

zero_status zr_lamb_update(zero_engine *engine, const zr_update_walk *walk,
                           const zr_walk_vectors walks[2], zero_error *error)
{
    int tensors = engine->plan->tensor_count;
    lamb lamb = {.engine = engine,
                 .update = walk->update,
                 .values = walk->values,
                 .weight_decay = walk->weight_decay,
                 .parameter_squares = engine->squares,
                 .direction_squares = engine->squares + tensors};
    memset(engine->squares, 0, 2 * (size_t)tensors * sizeof *engine->squares);
    ZERO_TRY(zr_groups_walk(
        engine, &(zr_walk){.vectors = walks[0], .take = find_direction, .user = &lamb}, error));
    ZERO_TRY(zr_norm_all_reduce(engine, lamb.parameter_squares, 2 * tensors, error));
    return zr_groups_walk(
        engine, &(zr_walk){.vectors = walks[1], .take = apply_direction, .user = &lamb}, error);
}
