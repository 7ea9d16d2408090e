// The update: it unscales, clips, applies the optimizer and makes the 16-bit copy in one walk over
// the range that this rank updates (section 5.1: each rank updates its partition).
#include "engine/buffers.h"
#include "engine/engine_internal.h"
#include "engine/lr_schedule.h"

static void update_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    zr_update_walk *walk = user;
    zr_range_states at = zr_range_from(walk->states, first - walk->span.first);
    if (!walk->copies)
        at.parameters = NULL;
    walk->update.weight_decay = tensor->decays ? walk->weight_decay : 0;
    zr_run(walk->queue, zr_op_update_of(&walk->update, walk->values, count, &at));
}

zero_status zr_update_shard_slice(void *user, zero_engine *engine,
                                  const zr_shard_slice *shard_slice, const zr_range_states *states,
                                  zero_error *error)
{
    zr_update_walk *walk = user;
    walk->span = zr_shard_slice_span(engine, shard_slice);
    walk->states = states;
    zr_for_parts(&engine->plan->flat_params[shard_slice->flat_param], walk->span, update_part,
                 walk);
    return ZERO_OK;
}

zr_update_kind zr_optimizer_update_kind(zr_optimizer_kind optimizer)
{
    static const zr_update_kind kinds[] = {
        [ZR_OPTIMIZER_ADAMW] = ZR_UPDATE_ADAMW, [ZR_OPTIMIZER_ADAM_L2] = ZR_UPDATE_ADAM_L2,
        [ZR_OPTIMIZER_SGD] = ZR_UPDATE_SGD,     [ZR_OPTIMIZER_ADAGRAD] = ZR_UPDATE_ADAGRAD,
        [ZR_OPTIMIZER_LION] = ZR_UPDATE_LION,   [ZR_OPTIMIZER_LAMB] = ZR_UPDATE_ADAMW,
    };
    static_assert(ZR_COUNT(kinds) == ZR_OPTIMIZER_KINDS, "each optimizer has an update");
    return kinds[optimizer];
}

zr_update_walk zr_update_describe(const zero_engine *engine, zr_queue *queue, double lr,
                                  float gradient_scale, zr_update_values *values)
{
    const zr_optimizer_spec *spec = &engine->config->optimizer;
    double betas[2];
    zr_schedule_betas(&engine->config->schedule, engine->progress.updates,
                      (double[]){spec->beta1, spec->beta2}, betas);
    double t = (double)(engine->progress.updates + 1);
    bool corrects = spec->bias_correction;
    *values = (zr_update_values){
        .lr = lr,
        .beta1 = betas[0],
        .beta2 = betas[1],
        .correction1 = corrects ? 1 - __builtin_pow(betas[0], t) : 1,
        .correction2 = corrects ? 1 - __builtin_pow(betas[1], t) : 1,
        .gradient_scale = gradient_scale,
        .first = engine->progress.updates == 0,
    };
    const zr_update update = {
        .kind = zr_optimizer_update_kind(spec->kind),
        .epsilon = spec->eps,
        .momentum = spec->momentum,
        .dampening = spec->dampening,
        .nesterov = spec->nesterov,
    };
    return (zr_update_walk){.queue = queue,
                            .update = update,
                            .values = values,
                            .weight_decay = spec->weight_decay,
                            .copies = zr_plan_updates_copies(engine->plan)};
}
