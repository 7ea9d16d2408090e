// What a unit sees: its context and its boundaries. In a debug build, and under AddressSanitizer,
// every operation of a unit has its operands in memory that the plan reserved for this call
// (zr_queue_bound). Otherwise there are no bounds.
#include "base/alloc.h"
#include "base/dtype.h"
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

static void reserve(zr_bounds *bounds, const char *name, const void *at, int64_t bytes)
{
    assert(bounds->count < ZR_MOST_RESERVED);
    bounds->reserved[bounds->count].name = name;
    bounds->reserved[bounds->count].at = at;
    bounds->reserved[bounds->count++].bytes = at ? (size_t)bytes : 0;
}

static void reserve_tensors(zr_bounds *bounds, const char *name, const zero_tensors *tensors)
{
    for (int i = 0; i < tensors->count; i++)
        reserve(bounds, name, tensors->at[i].data, (int64_t)zr_tensor_bytes(&tensors->at[i]));
}

// A call may use whole spaces, but of activations and workspace only what is the unit's.
static void reserve_spaces(const zero_engine *engine, zr_bounds *bounds)
{
    static const char *const names[ZR_SPACE_COUNT] = {
        [ZR_SPACE_PARAMETERS] = "parameters",    [ZR_SPACE_GATHERED] = "gathered parameters",
        [ZR_SPACE_GRADIENTS] = "gradients",      [ZR_SPACE_EXCHANGE] = "window of tensor ranks",
        [ZR_SPACE_OPEN_SUMS] = "open sums",      [ZR_SPACE_FROZEN] = "frozen parameters",
        [ZR_SPACE_IDS] = "ids of a micro-batch",
    };
    for (int id = 0; id < ZR_SPACE_COUNT; id++)
        if (names[id])
            reserve(bounds, names[id], engine->spaces[id].at, engine->plan->spaces[id].bytes);
}

void zr_operands_reserve(zero_engine *engine, int unit)
{
    zr_bounds *bounds = engine->view.bounds;
    const zero_context *context = &engine->view.context;
    const zero_unit_sizes *sizes = &engine->plan->units[unit].sizes;
    zero_tensors boundaries[5];
    if (!bounds)
        return;
    // A visit has shapes and memory of its own.
    *bounds = (zr_bounds){.unit = engine->cursor.visit ? NULL : context->unit->name};
    reserve_spaces(engine, bounds);
    reserve(bounds, "workspace", context->workspace, (int64_t)sizes->workspace_bytes);
    reserve(bounds, "saved buffer", context->saved, (int64_t)sizes->saved_bytes);
    reserve(bounds, "held buffer", context->held,
            engine->plan->units[unit].split ? (int64_t)sizes->held_bytes : 0);
    reserve(bounds, "step's values", context->values, sizeof *context->values);
    zr_engine_input(engine, unit, &boundaries[0]);
    zr_engine_input_gradient(engine, unit, &boundaries[1]);
    zr_engine_boundary(engine, unit, false, &boundaries[2]);
    zr_engine_boundary(engine, unit, true, &boundaries[3]);
    zr_engine_boundary_gradient(engine, unit, &boundaries[4]);
    for (int i = 0; i < ZR_COUNT(boundaries); i++)
        reserve_tensors(bounds, "boundary", &boundaries[i]);
    reserve_tensors(bounds, "micro-batch", &engine->view.batch);
}

void zr_operands_free(zero_engine *engine)
{
    if (engine->view.bounds)
        engine->view.bounds->unit = NULL;
}

zero_status zr_operands_bound(zero_engine *engine, zero_error *error)
{
#ifdef ZR_CHECK_OPERANDS
    engine->view.bounds = zr_alloc(sizeof *engine->view.bounds, error);
    if (!engine->view.bounds)
        return ZERO_ERR_MEMORY;
    return zr_queue_bound(engine->queue, engine->view.bounds, &engine->view.bounding, error);
#else
    return ZERO_OK;
#endif
}

void zr_operands_unbound(zero_engine *engine)
{
    zr_queue_unwrap(engine->queue, engine->view.bounding);
    zr_free(engine->view.bounds);
}
