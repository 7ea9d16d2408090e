// What a unit sees: its context, its boundaries, its parameters and its gradients.
#include "base/dtype.h"
#include "engine/buffers.h"
#include "engine/interpret.h"
#include "model/pipeline_stage_cut.h"

// Returns a byte of a unit's activations: in the current micro-batch's set of the unit's chunk, or
// outside of sets.
static char *activation_at(const zero_engine *engine, int unit, bool in_set, int64_t first)
{
    int64_t set = in_set ? engine->now.set * zr_plan_chunk_of(engine->plan, unit)->set_bytes : 0;
    return engine->spaces[ZR_SPACE_ACTIVATIONS].at + set + first;
}

void zr_engine_context(zero_engine *engine, int unit, zero_error *error)
{
    zero_context *context = &engine->view.context;
    const zr_unit_plan *plan = &engine->plan->units[unit];
    engine->now.unit = unit;
    context->unit_index = zr_pipeline_stage_unit(engine->plan->model, unit);
    // As the whole model describes it, because it may count its borrowed flat parameters.
    context->unit = &zr_pipeline_stage_origin(engine->plan->model)->units[context->unit_index];
    if (engine->recorder)
        engine->recorder->unit = unit;
    context->saved = activation_at(engine, unit, plan->in_set, plan->saved_first);
    context->held = activation_at(engine, unit, plan->in_set, plan->held_first);
    context->error = error;
}

static void place_tensors(char *at, const zero_tensors *shapes, zero_tensors *out)
{
    *out = *shapes;
    for (int i = 0; i < out->count; i++) {
        out->at[i].data = at;
        at += ZR_ROUND_UP(zr_tensor_bytes(&out->at[i]), ZR_ACTIVATION_ALIGN);
    }
}

// Returns the link through which the unit's boundary leaves its chunk, or through which its
// gradient comes; -1: it stays in the chunk, or there is none.
static int link_after(const zero_engine *engine, int unit, bool gradient)
{
    const zr_chunk_plan *chunk = zr_plan_chunk_of(engine->plan, unit);
    if (unit != chunk->end_unit - 1)
        return -1;
    return gradient ? chunk->gradient_in : chunk->output;
}

void zr_engine_place(const zero_engine *engine, int unit, const zero_tensors *shapes,
                     zero_tensors *out)
{
    const zr_unit_plan *plan = &engine->plan->units[unit];
    int link = link_after(engine, unit, false);
    char *at;
    if (link >= 0)
        at = zr_engine_slot_at(engine, link);
    else if (plan->out_kept)
        at = engine->spaces[ZR_SPACE_ACTIVATION_CHECKPOINTS].at + plan->out_first +
             engine->now.set * zr_plan_chunk_of(engine->plan, unit)->kept_bytes;
    else
        at = activation_at(engine, unit, plan->out_in_set, plan->out_first);
    place_tensors(at, shapes, out);
}

void zr_engine_place_input(const zero_engine *engine, int unit, const zero_tensors *shapes,
                           zero_tensors *out)
{
    const zr_chunk_plan *chunk = zr_plan_chunk_of(engine->plan, unit);
    if (unit > chunk->first_unit)
        zr_engine_place(engine, unit - 1, shapes, out);
    else
        place_tensors(chunk->input >= 0 ? zr_engine_slot_at(engine, chunk->input) : NULL, shapes,
                      out);
}

void zr_engine_input(const zero_engine *engine, int unit, zero_tensors *out)
{
    const zr_chunk_plan *chunk = zr_plan_chunk_of(engine->plan, unit);
    zr_engine_place_input(
        engine, unit,
        unit == chunk->first_unit ? &chunk->in : &engine->plan->units[unit - 1].sizes.out, out);
}

// The gradient of the boundary that unit u writes lies in buffer u%2, because the backward of the
// unit reads it while it writes that of the boundary which it reads into the other buffer.
static char *gradient_buffer(const zero_engine *engine, int unit)
{
    return activation_at(engine, unit, false, engine->plan->boundary_first[unit & 1]);
}

void zr_engine_boundary_gradient(const zero_engine *engine, int unit, zero_tensors *out)
{
    int link = link_after(engine, unit, true);
    place_tensors(link >= 0 ? zr_engine_slot_at(engine, link) : gradient_buffer(engine, unit),
                  &engine->plan->units[unit].sizes.out, out);
}

void zr_engine_input_gradient(const zero_engine *engine, int unit, zero_tensors *out)
{
    const zr_chunk_plan *chunk = zr_plan_chunk_of(engine->plan, unit);
    if (unit > chunk->first_unit)
        zr_engine_boundary_gradient(engine, unit - 1, out);
    else
        place_tensors(chunk->gradient_out >= 0 ? zr_engine_slot_at(engine, chunk->gradient_out)
                                               : gradient_buffer(engine, unit - 1),
                      &chunk->in, out);
}

void zr_engine_boundary(const zero_engine *engine, int unit, bool again, zero_tensors *out)
{
    const zr_unit_plan *plan = &engine->plan->units[unit];
    if (again && (plan->out_kept || link_after(engine, unit, false) >= 0))
        place_tensors(gradient_buffer(engine, unit + 1), &plan->sizes.out, out);
    else
        zr_engine_place(engine, unit, &plan->sizes.out, out);
}
