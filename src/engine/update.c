// The update: unscale, clip, optimizer and the 16-bit copy in one pass over the range that this rank updates (section 5.1: each
// rank its partition).
#include "engine/internal.h"

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
    zr_update_pass *pass = user;
    zr_range_states at = zr_range_from(pass->states, first - pass->span.first);
    if (!pass->copies)
        at.parameters = NULL;
    pass->update.weight_decay = tensor->decays ? pass->weight_decay : 0;
    pass->queue->backend->optimizer->update(pass->queue, &pass->update, count, &at);
}

zr_span zr_slice_span(const zero_engine *engine, const zr_slice *slice)
{
    return (zr_span){engine->stage->update_range(engine, slice->piece).first + slice->first, slice->count};
}

zero_status zr_update_slice(void *user, zero_engine *engine, const zr_slice *slice, const zr_range_states *states, zero_error *error)
{
    zr_update_pass *pass = user;
    pass->span = zr_slice_span(engine, slice);
    pass->states = states;
    zr_for_parts(&engine->plan->pieces[slice->piece], pass->span, update_part, pass);
    return ZERO_OK;
}

// What units read, of a master that an earlier pass has updated.
static zero_status publish_slice(void *user, zero_engine *engine, const zr_slice *slice, const zr_range_states *states, zero_error *error)
{
    engine->queue->backend->elements->convert(engine->queue, ZERO_F32, states->parameters_dtype, slice->count, states->master, states->parameters);
    return ZERO_OK;
}

// A buffer's next value is the mean of what the micro-batches of all ranks wrote; buffers and their sums are fp32, on the device.
static void assign_mean(zero_engine *engine, int piece)
{
    zr_span range = engine->stage->update_range(engine, piece);
    const float *sum = engine->stage->update_gradient(engine, piece);
    float *value = (float *)zr_own_parameters(engine, piece) + (range.first - zr_own_shard(engine, piece).first);
    float mean = 1.0f / (float)(engine->plan->settings.accumulation * engine->comm->size);
    for (int64_t i = 0; i < range.count; i++)
        value[i] = sum[i] * mean;
}

zr_update_pass zr_update_describe(const zero_engine *engine, zr_queue *queue, double lr, float gradient_scale)
{
    static const zr_update_kind kinds[] = {
        [ZR_OPTIMIZER_ADAMW] = ZR_UPDATE_ADAMW,     [ZR_OPTIMIZER_ADAM_L2] = ZR_UPDATE_ADAM_L2, [ZR_OPTIMIZER_SGD] = ZR_UPDATE_SGD,
        [ZR_OPTIMIZER_ADAGRAD] = ZR_UPDATE_ADAGRAD, [ZR_OPTIMIZER_LION] = ZR_UPDATE_LION,       [ZR_OPTIMIZER_LAMB] = ZR_UPDATE_ADAMW,
    };
    const zr_optimizer_spec *spec = &engine->config->optimizer;
    double betas[2];
    zr_schedule_betas(&engine->config->schedule, engine->updates, (double[]){spec->beta1, spec->beta2}, betas);
    double t = (double)(engine->updates + 1);
    const zr_update update = {
        .kind = kinds[spec->kind],
        .lr = lr,
        .beta1 = betas[0],
        .beta2 = betas[1],
        .epsilon = spec->eps,
        .weight_decay = spec->weight_decay,
        .momentum = spec->momentum,
        .dampening = spec->dampening,
        .nesterov = spec->nesterov,
        .first = engine->updates == 0,
        .correction1 = 1 - __builtin_pow(betas[0], t),
        .correction2 = 1 - __builtin_pow(betas[1], t),
        .gradient_scale = gradient_scale,
    };
    return (zr_update_pass){.queue = queue, .update = update, .weight_decay = update.weight_decay, .copies = !engine->plan->settings.delayed};
}

// Nobody reads the old parameters any more.
static zero_status before_update(zero_engine *engine, zero_error *error)
{
    for (int p = 0; p < engine->plan->piece_count && engine->stage->before_update; p++)
        if (zr_piece_trains(&engine->plan->pieces[p]))
            ZERO_TRY(engine->stage->before_update(engine, p, error));
    return ZERO_OK;
}

static zero_status assign_means(zero_engine *engine, zero_error *error)
{
    for (int p = 0; p < engine->plan->piece_count; p++) {
        if (!zr_piece_trains(&engine->plan->pieces[p]) || engine->plan->pieces[p].kind != ZERO_BUFFER)
            continue;
        ZERO_TRY(zr_guard_await(engine, p, error));
        assign_mean(engine, p);
    }
    return ZERO_OK;
}

zero_status zr_update_parameters(zero_engine *engine, double lr, float gradient_scale, zero_error *error)
{
    zr_pass_plan passes[2];
    zr_update_pass pass = zr_update_describe(engine, engine->queue, lr, gradient_scale);
    int count = zr_plan_passes(engine->plan, passes);
    bool first = engine->updates == 0 && !engine->states_loaded;
    ZERO_TRY(before_update(engine, error));
    ZERO_TRY(assign_means(engine, error));
    if (engine->plan->settings.per_tensor_norms)
        ZERO_TRY(zr_lamb_update(engine, &pass.update, passes, error));
    else
        ZERO_TRY(zr_tiles_run(engine, &(zr_walk){.pass = passes[0], .visit = zr_update_slice, .user = &pass}, error));
    if (!pass.copies)
        ZERO_TRY(zr_tiles_run(engine, &(zr_walk){.pass = passes[1], .visit = publish_slice}, error));
    for (int i = 0; i < count; i++)
        zr_moves_expect_update(engine, i, first);
    return engine->stage->publish(engine, error);
}

zero_status zr_update_publish(zero_engine *engine, bool finite, zero_error *error)
{
    zr_pass_plan passes[2];
    bool ahead = zr_delayed_is_ahead(engine);
    if (ahead || finite)
        ZERO_TRY(before_update(engine, error));
    if (finite)
        ZERO_TRY(assign_means(engine, error));
    if (ahead) {
        zr_plan_passes(engine->plan, passes);
        ZERO_TRY(zr_tiles_run(engine, &(zr_walk){.pass = passes[1], .visit = publish_slice}, error));
        zr_moves_expect_update(engine, 1, false);
        zr_delayed_set_ahead(engine, false);
    }
    return engine->stage->publish(engine, error);
}
