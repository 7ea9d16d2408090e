// What a unit sees: its context, its boundaries, its parameters and its gradients.
#include "base/dtype.h"
#include "engine/engine_state.h"
#include "engine/interpret.h"
#include "engine/unit_context.h"

#include <stddef.h>

#define ENGINE_OF(pointer, member)                                                                 \
    ((zero_engine *)((char *)(pointer)-offsetof(zero_engine, member)))

static const void *parameter(const struct zr_accessor *self, const zero_context *context, int piece,
                             int tensor)
{
    zero_engine *engine = ENGINE_OF(self, accessor);
    int number = engine->plan->units[context->unit_index].pieces[piece];
    assert(engine->at[number] && "a unit reads a piece that was not acquired for it");
    return engine->at[number] + engine->plan->pieces[number].tensors[tensor].first *
                                    (int64_t)zero_dtype_bytes(engine->plan->pieces[number].dtype);
}

static float *gradient(const struct zr_sink *self, zero_context *context, int piece, int tensor,
                       int *add)
{
    zero_engine *engine = ENGINE_OF(self, sink);
    int number = engine->plan->units[context->unit_index].pieces[piece];
    const zr_collecting *collecting = &engine->collecting[number];
    if (!collecting->at) // frozen, or a buffer that another unit owns
        return NULL;
    *add = context->unit_index != collecting->opened_by;
    return collecting->at + engine->plan->pieces[number].tensors[tensor].first;
}

static zero_status begin_piece(const struct zr_accessor *self, zero_context *context, int piece)
{
    zero_engine *engine = ENGINE_OF(self, accessor);
    zr_comm_progress(engine->grid.world, engine->step);
    return zr_program_run_to_mark(engine, ZR_BEGUN, piece, "zero_piece_begin");
}

static zero_status end_piece(const struct zr_accessor *self, zero_context *context, int piece)
{
    return zr_program_run_to_mark(ENGINE_OF(self, accessor), ZR_ENDED, piece, "zero_piece_end");
}

struct zr_accessor zr_engine_accessor(void)
{
    return (struct zr_accessor){.parameter = parameter, .begin = begin_piece, .end = end_piece};
}

struct zr_sink zr_engine_sink(void) { return (struct zr_sink){.gradient = gradient}; }

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

void zr_engine_place(const zero_engine *engine, int unit, const zero_tensors *shapes,
                     zero_tensors *out)
{
    const zr_unit_plan *plan = &engine->plan->units[unit];
    place_at((plan->out_kept ? engine->activation_checkpoints.base : engine->activations.base) +
                 plan->out_first,
             shapes, out);
}

zero_tensors zr_engine_boundary(const zero_engine *engine, int unit)
{
    zero_tensors out = {0};
    if (unit >= 0)
        zr_engine_place(engine, unit, &engine->plan->units[unit].sizes.out, &out);
    return out;
}

// The gradient of boundary u lies in buffer u%2, because the backward of unit u reads it while it
// writes the gradient of boundary u-1 into the other buffer.
zero_tensors zr_engine_boundary_gradient(const zero_engine *engine, int unit)
{
    zero_tensors out = {0};
    if (unit >= 0)
        place_at(engine->activations.base + engine->plan->boundary_first[unit % 2],
                 &engine->plan->units[unit].sizes.out, &out);
    return out;
}

zero_tensors zr_engine_boundary_again(const zero_engine *engine, int unit)
{
    zero_tensors out = {0};
    if (!engine->plan->units[unit].out_kept)
        return zr_engine_boundary(engine, unit);
    place_at(engine->activations.base + engine->plan->boundary_first[(unit + 1) % 2],
             &engine->plan->units[unit].sizes.out, &out);
    return out;
}
