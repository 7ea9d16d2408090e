// The update: it unscales, clips, applies the optimizer and makes the 16-bit copy in one walk over
// the range that this rank updates (section 5.1: each rank updates its partition).
//
// LAMB, Algorithm 2 of arXiv 1904.00962 with phi(z) = z, walks twice: the moments, corrected for
// their start at zero, give a direction u, which is scaled by |p|/|u|. DeepSpeed's min_coeff and
// max_coeff bound this ratio, not |p| as the paper's other phi does. Both norms are sums over the
// chunks of all ranks, so a tensor may lie on several ranks.
#include "engine/coded_weights.h"
#include "engine/engine_internal.h"
#include "engine/factored.h"
#include "engine/far_states.h"
#include "engine/muon.h"

#include <math.h>
#include <string.h>

void zr_update_elements(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    zr_update_walk *walk = user;
    const zr_range_states at = zr_update_states_from(walk, first);
    walk->update.weight_decay = tensor->decays ? walk->weight_decay : 0;
    zr_run(walk->queue, zr_op_update_of(&walk->update, walk->values, count, &at));
    zr_update_average(walk, count, &at);
}

// Of LAMB's first walk.
static void direction_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    zr_update_walk *walk = user;
    const zr_range_states at = zr_update_states_from(walk, first);
    walk->update.weight_decay = tensor->decays ? walk->weight_decay : 0;
    walk->update.n = count;
    walk->update.gradient = at.gradient_dtype;
    walk->update.states = at.states_dtype;
    zr_run(walk->queue, zr_op_lamb_direction(&walk->update, walk->values, at.master, at.state0,
                                             at.state1, at.gradient, at.direction));
}

// Of LAMB's second walk.
static void apply_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    zr_update_walk *walk = user;
    zero_engine *engine = walk->engine;
    const zr_optimizer_spec *spec = &engine->config->optimizer;
    double p = sqrt(zr_exact_value(&zr_update_squares(engine, false)[tensor->number])),
           u = sqrt(zr_exact_value(&zr_update_squares(engine, true)[tensor->number]));
    double ratio = p > 0 && u > 0 ? fmin(fmax(p / u, spec->min_coeff), spec->max_coeff) : 1;
    const zr_range_states at = zr_update_states_from(walk, first);
    walk->update.n = count;
    walk->update.parameters = at.parameters_dtype;
    engine->operands.lamb_step = (float)(walk->values->lr * ratio);
    zr_run(walk->queue, zr_op_subtract_scaled(&walk->update, &engine->operands.lamb_step, at.master,
                                              at.direction, at.parameters));
    zr_update_average(walk, count, &at);
}

static void add_norms(const zr_update_walk *walk, int flat_param)
{
    zero_engine *engine = walk->engine;
    zr_span span;
    if (!zr_update_counted_span(walk, flat_param, &span))
        return;
    const zr_range_states at = zr_update_states_from(walk, span.first);
    zr_exact *sums = walk->queue == engine->queue ? engine->norms.tensors : engine->update.squares;
    zr_norm_add_squares(engine, walk->queue, flat_param, span, ZERO_F32, at.master, sums, true);
    zr_norm_add_squares(engine, walk->queue, flat_param, span, ZERO_F32, at.direction,
                        sums + engine->plan->tensor_count, true);
}

zero_status zr_update_shard_slice(void *user, zero_engine *engine,
                                  const zr_shard_slice *shard_slice, const zr_range_states *states,
                                  zero_error *error)
{
    zr_update_walk *walk = user;
    const zr_flat_param *flat_param = &engine->plan->flat_params[shard_slice->flat_param];
    walk->queue = walk->only ? walk->only : zr_tier_queue(engine, flat_param->state_tier);
    walk->span = zr_shard_slice_span(engine, shard_slice);
    walk->states = states;
    if (walk->part)
        zr_for_parts(flat_param, walk->span, walk->part, walk);
    if (walk->slice)
        walk->slice(walk, shard_slice->flat_param);
    if (walk->makes)
        zr_make_parameters(walk->queue, flat_param, shard_slice->count, states->master,
                           states->parameters);
    return ZERO_OK;
}

zr_update_kind zr_optimizer_update_kind(zr_optimizer_kind optimizer)
{
    static const zr_update_kind kinds[] = {
        [ZR_OPTIMIZER_ADAMW] = ZR_UPDATE_ADAMW, [ZR_OPTIMIZER_ADAM_L2] = ZR_UPDATE_ADAM_L2,
        [ZR_OPTIMIZER_SGD] = ZR_UPDATE_SGD,     [ZR_OPTIMIZER_ADAGRAD] = ZR_UPDATE_ADAGRAD,
        [ZR_OPTIMIZER_LION] = ZR_UPDATE_LION,   [ZR_OPTIMIZER_LAMB] = ZR_UPDATE_ADAMW,
        [ZR_OPTIMIZER_MUON] = ZR_UPDATE_ADAMW,  [ZR_OPTIMIZER_ADAFACTOR] = ZR_UPDATE_SGD,
    };
    static_assert(ZR_COUNT(kinds) == ZR_OPTIMIZER_KINDS, "each optimizer has an update");
    return kinds[optimizer];
}

zr_update_walk zr_update_describe(zero_engine *engine, zr_queue *only, zr_update_values *values)
{
    const zr_optimizer_spec *spec = &engine->config->optimizer;
    double betas[2];
    zr_schedule_betas(&engine->config->schedule, engine->progress.updates,
                      (double[]){spec->beta1, spec->beta2}, betas);
    double t = (double)(engine->progress.updates + 1);
    bool corrects = spec->bias_correction;
    *values = (zr_update_values){
        .lr = zr_optimizer_rate(spec, false, engine->update.lr),
        .beta1 = betas[0],
        .beta2 = betas[1],
        .correction1 = corrects ? 1 - __builtin_pow(betas[0], t) : 1,
        .correction2 = corrects ? 1 - __builtin_pow(betas[1], t) : 1,
        .gradient_scale = engine->update.scale,
        .first = engine->progress.updates == 0,
    };
    const zr_update update = {
        .kind = zr_optimizer_update_kind(spec->kind),
        .epsilon = spec->eps,
        .momentum = spec->momentum,
        .dampening = spec->dampening,
        .nesterov = spec->nesterov,
        .average_decay = spec->ema_decay,
    };
    return (zr_update_walk){.engine = engine,
                            .only = only,
                            .update = update,
                            .values = values,
                            .weight_decay = spec->weight_decay,
                            .part = zr_update_elements,
                            .copies = zr_plan_updates_copies(engine->plan) &&
                                      !engine->plan->settings.weight_bits};
}

static zero_status sum_norms(zero_engine *engine, zero_error *error)
{
    ZERO_TRY(zr_norms_bring_tensors(engine, error));
    return zr_norm_all_reduce(engine, engine->update.squares, 2 * engine->plan->tensor_count,
                              error);
}

const zr_update_step *zr_update_steps(const zr_settings *settings)
{
    static const zr_update_step elementwise[] = {{.part = zr_update_elements}},
                                lamb[] = {{direction_part, add_norms, sum_norms},
                                          {.part = apply_part}},
                                adafactor[] = {
                                    {.slice = zr_factored_add_sums, .end = zr_factored_average},
                                    {.slice = zr_factored_add_squares,
                                     .end = zr_factored_sum_squares},
                                    {.part = zr_factored_apply}};
    if (settings->factored)
        return adafactor;
    return settings->orthogonal ? zr_muon_steps : settings->per_tensor_norms ? lamb : elementwise;
}

zero_status zr_update_groups(zero_engine *engine, zero_error *error)
{
    const zr_settings *settings = &engine->plan->settings;
    const zr_update_step *steps = zr_update_steps(settings);
    zr_walk_vectors walks[ZR_MOST_WALKS];
    zr_update_walk update = zr_update_describe(engine, NULL, &engine->operands.update);
    int count = zr_plan_walks(engine->plan, walks);
    bool first = !engine->update.states_written;
    engine->update.states_written = true;
    if (settings->delayed) // its second walk makes parameters, at another time
        count = 1;
    if (settings->per_tensor_norms || settings->factored)
        zr_norms_begin_update(engine);
    if (settings->factored)
        zr_factored_begin(engine);
    for (int w = 0; w < count; w++) {
        update.part = steps[w].part;
        update.slice = steps[w].slice;
        update.makes = settings->weight_bits && walks[w].writes >> ZR_VECTOR_PARAMETERS & 1;
        zr_tier_traffic_expect_update(engine, w, first);
        ZERO_TRY(zr_groups_walk(
            engine, &(zr_walk){.vectors = walks[w], .take = zr_update_shard_slice, .user = &update},
            error));
        if (steps[w].end)
            ZERO_TRY(steps[w].end(engine, error));
    }
    return ZERO_OK;
}
