// The update: unscale, clip, optimizer and the 16-bit copy in one pass over the range that this rank updates (section 5.1: each
// rank its partition).
#include "engine/internal.h"

static zr_range bytes_of_states(const zero_engine *engine, int piece)
{
    int64_t count = engine->stage->update_range(engine, piece).count;
    return (zr_range){engine->plan->pieces[piece].state_first * (int64_t)sizeof(float), count * (int64_t)sizeof(float)};
}

static int vectors_of(const zero_engine *engine)
{
    return engine->state_count + (engine->plan->settings.per_tensor_norms ? 1 : 0);
}

// Parameters of the range that this rank updates, as units read them.
static void *parameters_of_range(const zero_engine *engine, int piece)
{
    int64_t before = engine->stage->update_range(engine, piece).first - zr_own_shard(engine, piece).first;
    return (char *)zr_own_parameters(engine, piece) + before * (int64_t)zero_dtype_bytes(engine->plan->pieces[piece].dtype);
}

zero_status zr_update_fetch(zero_engine *engine, int piece, zr_range_states *out, zero_error *error)
{
    const zr_piece *p = &engine->plan->pieces[piece];
    zr_range bytes = bytes_of_states(engine, piece);
    void *states[ZR_MAX_STATES] = {0}, *master = parameters_of_range(engine, piece);
    *out = (zr_range_states){.gradient = engine->stage->update_gradient(engine, piece), .gradient_dtype = p->accumulator_dtype, .parameters_dtype = p->dtype};
    if (zr_piece_has_master(engine, piece)) {
        out->parameters = master;
        ZERO_TRY(engine->master.ops->fetch(&engine->master, bytes, &master, error));
    }
    for (int s = 0; s < vectors_of(engine); s++)
        ZERO_TRY(engine->states[s].ops->fetch(&engine->states[s], bytes, &states[s], error));
    out->master = master;
    out->state0 = states[0];
    out->state1 = states[1];
    out->direction = states[2];
    return ZERO_OK;
}

zero_status zr_update_commit(zero_engine *engine, int piece, zero_error *error)
{
    zr_range bytes = bytes_of_states(engine, piece);
    zr_store *stores[1 + ZR_MAX_STATES];
    int count = 0;
    if (zr_piece_has_master(engine, piece))
        stores[count++] = &engine->master;
    for (int s = 0; s < vectors_of(engine); s++)
        stores[count++] = &engine->states[s];
    for (int s = 0; s < count; s++) {
        ZERO_TRY(stores[s]->ops->commit(stores[s], bytes, error));
        stores[s]->ops->release(stores[s], bytes);
    }
    return ZERO_OK;
}

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
    zr_span range;
    double weight_decay;
    zr_range_states states;
} pass;

static void update_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    pass *p = user;
    zr_queue *queue = p->engine->queue;
    const zr_range_states at = zr_range_from(&p->states, first - p->range.first);
    p->update.weight_decay = tensor->decays ? p->weight_decay : 0;
    queue->backend->optimizer->update(queue, &p->update, count, &at);
}

// A buffer's next value is the mean of what the micro-batches of all ranks wrote; buffers and their sums are fp32.
static void assign_mean(zero_engine *engine, int piece)
{
    zr_span range = engine->stage->update_range(engine, piece);
    const float *sum = engine->stage->update_gradient(engine, piece);
    float *value = parameters_of_range(engine, piece);
    float mean = 1.0f / (float)(engine->plan->settings.accumulation * engine->comm->size);
    for (int64_t i = 0; i < range.count; i++)
        value[i] = sum[i] * mean;
}

static zero_status update_piece(zero_engine *engine, int piece, const zr_update *update, zero_error *error)
{
    pass pass = {.engine = engine, .update = *update, .range = engine->stage->update_range(engine, piece), .weight_decay = update->weight_decay};
    ZERO_TRY(zr_update_fetch(engine, piece, &pass.states, error));
    zr_for_parts(&engine->plan->pieces[piece], pass.range, update_part, &pass);
    return zr_update_commit(engine, piece, error);
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
    zr_update update = describe_update(engine, lr, gradient_scale);
    for (int p = 0; p < plan->piece_count; p++) {
        if (!zr_piece_trains(&plan->pieces[p]))
            continue;
        if (engine->stage->before_update)
            ZERO_TRY(engine->stage->before_update(engine, p, error));
        if (plan->pieces[p].kind == ZERO_BUFFER)
            assign_mean(engine, p);
        else if (!plan->settings.per_tensor_norms)
            ZERO_TRY(update_piece(engine, p, &update, error));
    }
    if (plan->settings.per_tensor_norms)
        ZERO_TRY(zr_lamb_update(engine, &update, error));
    return engine->stage->publish(engine, error);
}
