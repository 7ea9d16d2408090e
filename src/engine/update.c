// The update: it unscales, clips, applies the optimizer and makes the 16-bit copy in one walk over
// the range that this rank updates (section 5.1: each rank updates its partition).
#include "compute/element_ops.h"
#include "engine/execute.h"
#include "engine/gradients.h"
#include "engine/parameters.h"
#include "engine/update.h"

static void *moved(const void *from, zero_dtype dtype, int64_t elements)
{
    return from ? (char *)from + elements * (int64_t)zero_dtype_bytes(dtype) : NULL;
}

zr_range_states zr_range_from(const zr_range_states *range, int64_t first)
{
    zr_range_states at = *range;
    at.master = moved(range->master, ZERO_F32, first);
    at.state0 = moved(range->state0, ZERO_F32, first);
    at.state1 = moved(range->state1, ZERO_F32, first);
    at.direction = moved(range->direction, ZERO_F32, first);
    at.gradient = moved(range->gradient, range->gradient_dtype, first);
    at.parameters = moved(range->parameters, range->parameters_dtype, first);
    return at;
}

static void update_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    zr_update_walk *walk = user;
    zr_range_states at = zr_range_from(walk->states, first - walk->span.first);
    if (!walk->copies)
        at.parameters = NULL;
    walk->update.weight_decay = tensor->decays ? walk->weight_decay : 0;
    walk->queue->backend->optimizer->update(walk->queue, &walk->update, count, &at);
}

zr_span zr_shard_slice_span(const zero_engine *engine, const zr_shard_slice *shard_slice)
{
    return (zr_span){zr_update_range(engine, shard_slice->flat_param).first + shard_slice->first,
                     shard_slice->count};
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

// Rounds the master, which an earlier walk has updated, into the parameters that units read.
static zero_status publish_shard_slice(void *user, zero_engine *engine,
                                       const zr_shard_slice *shard_slice,
                                       const zr_range_states *states, zero_error *error)
{
    engine->queue->backend->elements->convert(engine->queue, ZERO_F32, states->parameters_dtype,
                                              shard_slice->count, states->master,
                                              states->parameters);
    return ZERO_OK;
}

// Sets a buffer to the mean of what the micro-batches of all ranks wrote. Buffers and their sums
// are fp32 and on the device.
static void assign_mean(zero_engine *engine, int flat_param)
{
    zr_span range = zr_update_range(engine, flat_param);
    const float *sum = zr_update_gradient(engine, flat_param);
    float *value = (float *)zr_own_parameters(engine, flat_param) +
                   (range.first - zr_own_shard(engine, flat_param).first);
    float mean = 1.0f / (float)(engine->plan->settings.accumulation * engine->plan->ranks);
    for (int64_t i = 0; i < range.count; i++)
        value[i] = sum[i] * mean;
}

zr_update_kind zr_optimizer_update(zr_optimizer_kind optimizer)
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
                                  float gradient_scale)
{
    const zr_optimizer_spec *spec = &engine->config->optimizer;
    double betas[2];
    zr_schedule_betas(&engine->config->schedule, engine->updates,
                      (double[]){spec->beta1, spec->beta2}, betas);
    double t = (double)(engine->updates + 1);
    bool corrects = spec->bias_correction;
    const zr_update update = {
        .kind = zr_optimizer_update(spec->kind),
        .lr = lr,
        .beta1 = betas[0],
        .beta2 = betas[1],
        .epsilon = spec->eps,
        .weight_decay = spec->weight_decay,
        .momentum = spec->momentum,
        .dampening = spec->dampening,
        .nesterov = spec->nesterov,
        .first = engine->updates == 0,
        .correction1 = corrects ? 1 - __builtin_pow(betas[0], t) : 1,
        .correction2 = corrects ? 1 - __builtin_pow(betas[1], t) : 1,
        .gradient_scale = gradient_scale,
    };
    return (zr_update_walk){.queue = queue,
                            .update = update,
                            .weight_decay = update.weight_decay,
                            .copies = zr_plan_updates_copies(engine->plan)};
}

static zero_status update_mean(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    ZERO_TRY(zr_guard_await(engine, i->flat_param, error));
    assign_mean(engine, i->flat_param);
    return ZERO_OK;
}

static zero_status update_groups(zero_engine *engine, zero_error *error)
{
    zr_walk_vectors walks[2];
    zr_update_walk walk =
        zr_update_describe(engine, engine->queue, engine->lr, engine->update_scale);
    bool first = !engine->states_written, lamb = engine->plan->settings.per_tensor_norms;
    zr_plan_walks(engine->plan, walks);
    zr_tier_traffic_expect_update(engine, 0, first);
    engine->states_written = true;
    if (!lamb)
        return zr_groups_walk(
            engine, &(zr_walk){.vectors = walks[0], .take = zr_update_shard_slice, .user = &walk},
            error);
    zr_tier_traffic_expect_update(engine, 1, first);
    return zr_lamb_update(engine, &walk.update, walks, error);
}

static zero_status copy_master(zero_engine *engine, zero_error *error)
{
    zr_tier_traffic_expect_copy(engine);
    engine->lags = false;
    return zr_groups_walk(engine, &(zr_walk){.vectors = zr_copy_walk, .take = publish_shard_slice},
                          error);
}

// Begins the update beside the next step. What that update moves is counted with the next step, so
// this step's bytes are compared before it begins.
static zero_status update_overlapped(zero_engine *engine, zero_error *error)
{
    ZERO_TRY(zr_tier_traffic_check(engine, error));
    return zr_delayed_begin(engine, engine->lr, engine->update_scale, error);
}

zero_status zr_execute_update(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    switch ((zr_update_part)i->what) {
    case ZR_PART_MEAN: return update_mean(engine, i, error);
    case ZR_PART_COPY: return copy_master(engine, error);
    default:
        return i->slot.kind == ZR_SLOT_GROUP ? update_overlapped(engine, error)
                                             : update_groups(engine, error);
    }
}
