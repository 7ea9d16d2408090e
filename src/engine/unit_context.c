// What a unit sees: its context, its boundaries, its parameters and its gradients.
#include "base/dtype.h"
#include "engine/buffers.h"
#include "engine/engine_internal.h"
#include "engine/interpret.h"
#include "model/pipeline_stage_cut.h"

#include <stddef.h>

// Returns where the current micro-batch's set of the unit's chunk begins, counted from set 0.
static int64_t set_offset(const zero_engine *engine, int unit, bool in_set)
{
    return in_set ? engine->set * zr_plan_chunk_of(engine->plan, unit)->set_bytes : 0;
}

void zr_engine_context(zero_engine *engine, int unit, zero_error *error)
{
    zero_context *context = &engine->context;
    const zr_unit_plan *plan = &engine->plan->units[unit];
    engine->unit = unit;
    context->unit_index = zr_pipeline_stage_unit(engine->plan->model, unit);
    // As the whole model describes it, because it may count its borrowed flat parameters.
    context->unit = &zr_pipeline_stage_origin(engine->plan->model)->units[context->unit_index];
    if (engine->recorder)
        engine->recorder->unit = unit;
    context->saved =
        engine->activations.base + set_offset(engine, unit, plan->in_set) + plan->saved_first;
    context->held =
        engine->activations.base + set_offset(engine, unit, plan->in_set) + plan->held_first;
    context->error = error;
}

static void place_tensors_at(char *at, const zero_tensors *shapes, zero_tensors *out)
{
    *out = *shapes;
    for (int i = 0; i < out->count; i++) {
        out->at[i].data = at;
        at += ZR_ROUND_UP(zr_tensor_bytes(&out->at[i]), ZR_ACTIVATION_ALIGN);
    }
}

static const zr_chunk_plan *chunk_of_unit(const zero_engine *engine, int unit)
{
    return zr_plan_chunk_of(engine->plan, unit);
}

static bool is_last(const zero_engine *engine, int unit)
{
    return unit == chunk_of_unit(engine, unit)->end_unit - 1;
}

void zr_engine_place(const zero_engine *engine, int unit, const zero_tensors *shapes,
                     zero_tensors *out)
{
    const zr_unit_plan *plan = &engine->plan->units[unit];
    int link = is_last(engine, unit) ? chunk_of_unit(engine, unit)->output : -1;
    if (link >= 0)
        place_tensors_at(zr_engine_slot_at(engine, link), shapes, out);
    else if (plan->out_kept)
        place_tensors_at(engine->activation_checkpoints.base + plan->out_first +
                             engine->set * chunk_of_unit(engine, unit)->kept_bytes,
                         shapes, out);
    else
        place_tensors_at(engine->activations.base + set_offset(engine, unit, plan->out_in_set) +
                             plan->out_first,
                         shapes, out);
}

void zr_engine_place_input(const zero_engine *engine, int unit, const zero_tensors *shapes,
                           zero_tensors *out)
{
    const zr_chunk_plan *chunk = chunk_of_unit(engine, unit);
    if (unit > chunk->first_unit)
        zr_engine_place(engine, unit - 1, shapes, out);
    else
        place_tensors_at(chunk->input >= 0 ? zr_engine_slot_at(engine, chunk->input) : NULL, shapes,
                         out);
}

zero_tensors zr_engine_input(const zero_engine *engine, int unit)
{
    const zr_chunk_plan *chunk = chunk_of_unit(engine, unit);
    bool first = unit == chunk->first_unit;
    zero_tensors in;
    zr_engine_place_input(engine, unit,
                          first ? &chunk->in : &engine->plan->units[unit - 1].sizes.out, &in);
    return in;
}

zero_tensors zr_engine_boundary(const zero_engine *engine, int unit)
{
    zero_tensors out;
    zr_engine_place(engine, unit, &engine->plan->units[unit].sizes.out, &out);
    return out;
}

// The gradient of the boundary that unit u writes lies in buffer u%2, because the backward of the
// unit reads it while it writes that of the boundary which it reads into the other buffer.
static char *gradient_buffer(const zero_engine *engine, int unit)
{
    return engine->activations.base + engine->plan->boundary_first[unit & 1];
}

zero_tensors zr_engine_boundary_gradient(const zero_engine *engine, int unit)
{
    const zr_chunk_plan *chunk = chunk_of_unit(engine, unit);
    bool comes = is_last(engine, unit) && chunk->gradient_in >= 0;
    zero_tensors out;
    place_tensors_at(comes ? zr_engine_slot_at(engine, chunk->gradient_in)
                           : gradient_buffer(engine, unit),
                     &engine->plan->units[unit].sizes.out, &out);
    return out;
}

zero_tensors zr_engine_input_gradient(const zero_engine *engine, int unit)
{
    const zr_chunk_plan *chunk = chunk_of_unit(engine, unit);
    bool first = unit == chunk->first_unit;
    zero_tensors out;
    place_tensors_at(first && chunk->gradient_out >= 0
                         ? zr_engine_slot_at(engine, chunk->gradient_out)
                         : gradient_buffer(engine, unit - 1),
                     first ? &chunk->in : &engine->plan->units[unit - 1].sizes.out, &out);
    return out;
}

zero_tensors zr_engine_boundary_again(const zero_engine *engine, int unit)
{
    zero_tensors out = {0};
    bool leaves = is_last(engine, unit) && chunk_of_unit(engine, unit)->output >= 0;
    if (!engine->plan->units[unit].out_kept && !leaves)
        return zr_engine_boundary(engine, unit);
    place_tensors_at(engine->activations.base + engine->plan->boundary_first[(unit + 1) % 2],
                     &engine->plan->units[unit].sizes.out, &out);
    return out;
}
