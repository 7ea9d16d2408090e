// In a debug build, and under AddressSanitizer: every operation of a unit has its operands in
// memory that the plan reserved for this call (zr_queue_bound). Otherwise there are no bounds, and
// these functions do nothing.
#include "base/alloc.h"
#include "base/dtype.h"
#include "engine/interpret.h"

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
        [ZR_SPACE_PARAMETERS] = "parameters", [ZR_SPACE_GATHERED] = "gathered parameters",
        [ZR_SPACE_GRADIENTS] = "gradients",   [ZR_SPACE_EXCHANGE] = "window of tensor ranks",
        [ZR_SPACE_OPEN_SUMS] = "open sums",
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
