// What a unit sees: its context, boundaries, parameters and gradients.
#include "base/dtype.h"
#include "engine/internal.h"

#include <stddef.h>

#define ENGINE_OF(pointer, member) ((zero_engine *)((char *)(pointer)-offsetof(zero_engine, member)))

static const void *parameter(const struct zr_accessor *self, const zero_context *context, int piece, int tensor)
{
    zero_engine *engine = ENGINE_OF(self, accessor);
    int number = engine->plan->units[context->unit_index].pieces[piece];
    assert(engine->at[number] && "a unit reads a piece that was not acquired for it");
    return engine->at[number] + engine->plan->pieces[number].tensors[tensor].first * (int64_t)zero_dtype_bytes(engine->plan->pieces[number].dtype);
}

static float *gradient(const struct zr_sink *self, zero_context *context, int piece, int tensor, int *add)
{
    zero_engine *engine = ENGINE_OF(self, sink);
    int number = engine->plan->units[context->unit_index].pieces[piece];
    const zr_piece *owner = &engine->plan->pieces[number];
    if (owner->grad_first < 0 || context->unit_index > owner->first_backward) // frozen, or a buffer that another unit owns
        return NULL;
    *add = context->unit_index < owner->first_backward;
    return zr_grads_collecting(engine, number) + owner->tensors[tensor].first;
}

static zero_status out_of_order(const zero_engine *engine, const zero_context *context, int piece, const char *call)
{
    const char *expected = engine->next_visit < engine->visit_limit && engine->plan->visits[engine->next_visit].stream >= 0
                               ? engine->plan->pieces[engine->plan->visits[engine->next_visit].stream].name : "none";
    return zr_fail(context->error, ZERO_ERR_USAGE, "unit \"%s\": %s of piece %d, out of the order in which streamed pieces come (next: %s)", context->unit->name, call, piece, expected);
}

static zero_status begin_piece(const struct zr_accessor *self, zero_context *context, int piece)
{
    zero_engine *engine = ENGINE_OF(self, accessor);
    int visit = engine->next_visit;
    bool next = piece >= 0 && piece < engine->plan->units[context->unit_index].piece_count && visit < engine->visit_limit && engine->stream_visit < 0 &&
                engine->plan->visits[visit].stream == engine->plan->units[context->unit_index].pieces[piece];
    if (!next)
        return out_of_order(engine, context, piece, "zero_piece_begin");
    zr_comm_progress(engine->comm, engine->step);
    engine->next_visit++;
    engine->stream_visit = visit;
    ZERO_TRY(engine->stage->params_acquire(engine, visit, engine->visit_limit, context->error));
    return engine->plan->visits[visit].backward ? zr_grads_open(engine, visit, context->error) : ZERO_OK;
}

static zero_status end_piece(const struct zr_accessor *self, zero_context *context, int piece)
{
    zero_engine *engine = ENGINE_OF(self, accessor);
    int visit = engine->stream_visit;
    if (visit < 0 || engine->plan->visits[visit].stream != engine->plan->units[context->unit_index].pieces[piece])
        return out_of_order(engine, context, piece, "zero_piece_end");
    engine->stream_visit = -1;
    engine->stage->params_release(engine, visit);
    bool ends_run = engine->plan->visits[visit].run_end == visit; // then gradients are sealed with the run
    return context->training && !ends_run ? zr_grads_seal_and_reduce(engine, visit, context->error) : ZERO_OK;
}

void zr_run_begin_pass(zero_engine *engine, int visits)
{
    engine->next_visit = 0;
    engine->stream_visit = -1;
    engine->visit_limit = visits;
}

zero_status zr_run_begin(zero_engine *engine, int unit, zero_error *error)
{
    assert(engine->plan->visits[engine->next_visit].unit == unit && engine->plan->visits[engine->next_visit].stream < 0);
    engine->unit_visit = engine->next_visit++;
    zr_engine_context(engine, unit, error);
    return engine->stage->params_acquire(engine, engine->unit_visit, engine->visit_limit, error);
}

zero_status zr_run_end(zero_engine *engine, zero_error *error)
{
    const zr_visit *visit = &engine->plan->visits[engine->unit_visit];
    if (engine->stream_visit >= 0 || engine->next_visit != ZR_MIN(visit->run_end + 1, engine->visit_limit))
        return out_of_order(engine, &engine->context, -1, "the end of its call instead");
    engine->stage->params_release(engine, engine->unit_visit);
    return engine->context.training ? zr_grads_seal_and_reduce(engine, visit->run_end, error) : ZERO_OK;
}

struct zr_accessor zr_engine_accessor(void)
{
    return (struct zr_accessor){.parameter = parameter, .begin = begin_piece, .end = end_piece};
}

struct zr_sink zr_engine_sink(void)
{
    return (struct zr_sink){.gradient = gradient};
}

void zr_engine_context(zero_engine *engine, int unit, zero_error *error)
{
    zero_context *context = &engine->context;
    context->unit = &engine->plan->model->units[unit];
    context->unit_index = unit;
    if (engine->recorder)
        engine->recorder->unit = unit;
    context->saved = engine->activations.base + engine->plan->units[unit].saved_first;
    context->error = error;
}

static void place_at(char *at, const zero_tensors *shapes, zero_tensors *out)
{
    *out = *shapes;
    for (int i = 0; i < out->count; i++) {
        out->at[i].data = at;
        at += ZR_ROUND_UP(zr_tensor_bytes(&out->at[i]), ZR_ACTIVATION_ALIGN);
    }
}

void zr_engine_place(const zero_engine *engine, int unit, const zero_tensors *shapes, zero_tensors *out)
{
    const zr_unit_plan *plan = &engine->plan->units[unit];
    place_at((plan->out_kept ? engine->checkpoints.base : engine->activations.base) + plan->out_first, shapes, out);
}

zero_tensors zr_engine_boundary(const zero_engine *engine, int unit)
{
    zero_tensors out = {0};
    if (unit >= 0)
        zr_engine_place(engine, unit, &engine->plan->units[unit].sizes.out, &out);
    return out;
}

// The gradient of boundary u lies in buffer u%2: backward of unit u reads it and writes that of u-1 into the other.
zero_tensors zr_engine_boundary_gradient(const zero_engine *engine, int unit)
{
    zero_tensors out = {0};
    if (unit >= 0)
        place_at(engine->activations.base + engine->plan->boundary_first[unit % 2], &engine->plan->units[unit].sizes.out, &out);
    return out;
}

zero_tensors zr_engine_boundary_again(const zero_engine *engine, int unit)
{
    zero_tensors out = {0};
    if (!engine->plan->units[unit].out_kept)
        return zr_engine_boundary(engine, unit);
    place_at(engine->activations.base + engine->plan->boundary_first[(unit + 1) % 2], &engine->plan->units[unit].sizes.out, &out);
    return out;
}
