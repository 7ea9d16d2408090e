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

typedef struct pass {
    zero_engine *engine;
    zr_update update;
    double weight_decay;
    int64_t first; // of the slice at hand, element of the piece
    const zr_range_states *states;
} pass;

static void update_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    pass *p = user;
    zr_queue *queue = p->engine->queue;
    const zr_range_states at = zr_range_from(p->states, first - p->first);
    p->update.weight_decay = tensor->decays ? p->weight_decay : 0;
    queue->backend->optimizer->update(queue, &p->update, count, &at);
}

zr_span zr_slice_span(const zero_engine *engine, const zr_slice *slice)
{
    return (zr_span){engine->stage->update_range(engine, slice->piece).first + slice->first, slice->count};
}

static zero_status update_slice(void *user, zero_engine *engine, const zr_slice *slice, const zr_range_states *states, zero_error *error)
{
    pass *p = user;
    zr_span span = zr_slice_span(engine, slice);
    p->first = span.first;
    p->states = states;
    zr_for_parts(&engine->plan->pieces[slice->piece], span, update_part, p);
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

static zr_update describe_update(const zero_engine *engine, double lr, float gradient_scale)
{
    static const zr_update_kind kinds[] = {
        [ZR_OPTIMIZER_ADAMW] = ZR_UPDATE_ADAMW,     [ZR_OPTIMIZER_ADAM_L2] = ZR_UPDATE_ADAM_L2, [ZR_OPTIMIZER_SGD] = ZR_UPDATE_SGD,
        [ZR_OPTIMIZER_ADAGRAD] = ZR_UPDATE_ADAGRAD, [ZR_OPTIMIZER_LION] = ZR_UPDATE_LION,       [ZR_OPTIMIZER_LAMB] = ZR_UPDATE_ADAMW,
    };
    const zr_optimizer_spec *spec = &engine->config->optimizer;
    double betas[2];
    zr_schedule_betas(&engine->config->schedule, engine->updates, (double[]){spec->beta1, spec->beta2}, betas);
    double t = (double)(engine->updates + 1);
    return (zr_update){
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
}

zero_status zr_update_parameters(zero_engine *engine, double lr, float gradient_scale, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    zr_pass_plan passes[2];
    pass pass = {.engine = engine, .update = describe_update(engine, lr, gradient_scale)};
    pass.weight_decay = pass.update.weight_decay;
    zr_plan_passes(plan, passes);
    for (int p = 0; p < plan->piece_count; p++) {
        if (!zr_piece_trains(&plan->pieces[p]))
            continue;
        if (engine->stage->before_update)
            ZERO_TRY(engine->stage->before_update(engine, p, error));
        if (plan->pieces[p].kind == ZERO_BUFFER)
            assign_mean(engine, p);
    }
    if (plan->settings.per_tensor_norms)
        ZERO_TRY(zr_lamb_update(engine, &pass.update, passes, error));
    else
        ZERO_TRY(zr_tiles_run(engine, &passes[0], update_slice, &pass, error));
    return engine->stage->publish(engine, error);
}
