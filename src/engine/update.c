// The update: unscale, clip and optimizer in one pass over the range that this rank updates (section 5.1: each rank its partition).
#include "engine/internal.h"

float *zr_state_at(zero_engine *engine, int vector, int64_t element)
{
    zr_store *store = &engine->states[vector];
    return (float *)(void *)store->arena.base + element;
}

float *zr_update_target(zero_engine *engine, int piece)
{
    zr_span own = zr_own_shard(engine, piece), range = engine->stage->update_range(engine, piece);
    return zr_engine_parameter_shard(engine, piece) + (range.first - own.first);
}

typedef struct pass {
    zero_engine *engine;
    zr_update update;
    zr_span range;
    double weight_decay;
    float *parameter, *state[2];
    const float *gradient;
} pass;

static void update_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    pass *p = user;
    int64_t at = first - p->range.first;
    zr_queue *queue = p->engine->queue;
    p->update.weight_decay = tensor->decays ? p->weight_decay : 0;
    queue->backend->optimizer->update(queue, &p->update, count, p->parameter + at, p->state[0] ? p->state[0] + at : NULL,
                                      p->state[1] ? p->state[1] + at : NULL, p->gradient + at);
}

// A buffer's next value is the mean of what the micro-batches of all ranks wrote.
static void assign_mean(zero_engine *engine, int piece)
{
    zr_span range = engine->stage->update_range(engine, piece);
    const float *sum = engine->stage->update_gradient(engine, piece);
    float *value = zr_update_target(engine, piece);
    float mean = 1.0f / (float)(engine->plan->settings.accumulation * engine->comm->size);
    for (int64_t i = 0; i < range.count; i++)
        value[i] = sum[i] * mean;
}

static zero_status update_piece(zero_engine *engine, int piece, const zr_update *update, zero_error *error)
{
    pass pass = {
        .engine = engine,
        .update = *update,
        .range = engine->stage->update_range(engine, piece),
        .weight_decay = update->weight_decay,
        .parameter = zr_update_target(engine, piece),
        .gradient = engine->stage->update_gradient(engine, piece),
    };
    zr_range bytes = {engine->plan->pieces[piece].state_first * (int64_t)sizeof(float), pass.range.count * (int64_t)sizeof(float)};
    for (int s = 0; s < engine->state_count; s++) {
        void *data;
        ZERO_TRY(engine->states[s].ops->fetch(&engine->states[s], bytes, &data, error));
        pass.state[s] = data;
    }
    zr_for_parts(&engine->plan->pieces[piece], pass.range, update_part, &pass);
    for (int s = 0; s < engine->state_count; s++) {
        ZERO_TRY(engine->states[s].ops->commit(&engine->states[s], bytes, error));
        engine->states[s].ops->release(&engine->states[s], bytes);
    }
    return ZERO_OK;
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
