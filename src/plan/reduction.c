// When each flat parameter's gradient is sealed and reduced; and where what stays for a whole step
// lies: accumulators and optimizer states.
//
// Whole gradients (stages 0 and 1): every flat parameter has its own place in the window throughout
// the micro-batch.
// Slots (stages 2 and 3): a flat parameter has a place from before its gradient is written until it
// is reduced (assign.c):
//
//   backward of  head   h.3    h.2    h.1    h.0   embedding
//   wte          [==============================================]
//   h.3                 [======|reduced]
//   h.2                        [=======|reduced]                       h.1 lies where h.3 lay
//
// Where gradients have 16 bits, units add up fp32 in the open arena (which has slots at every
// stage) from the first contribution to the sealing; the place in the window is taken at the
// sealing.
#include "plan/plan_parts.h"

#include "plan/accumulators.h"

bool zr_visit_seals(const zr_plan *plan, int v, int p)
{
    const zr_flat_param *flat_param = &plan->flat_params[p];
    const zr_visit *visit = &plan->visits[v];
    if (flat_param->last_backward != visit->unit || !zr_visit_adds(visit))
        return false;
    return flat_param->streamed ? visit->stream == p : visit->stream < 0;
}

typedef struct backward { // the walk over the visits
    zr_plan *plan;
    int reduced;     // number of plan->sealed that are reduced
    int64_t waiting; // elements of the sealed flat parameters that are not yet reduced
} backward;

static void seal_flat_param(backward *b, int number, int visit)
{
    zr_flat_param *flat_param = &b->plan->flat_params[number];
    flat_param->sealed_at = visit;
    b->plan->sealed[b->plan->sealed_count++] = number;
    b->waiting += flat_param->padded;
}

// Ends reductions, oldest first: those before `due`, as many more as the ceiling asks for, and all
// after the last visit of a pass.
static void reduce_oldest(backward *b, int visit, int due)
{
    zr_plan *plan = b->plan;
    bool last = visit == plan->visits[visit].pass_end - 1;
    while (b->reduced < plan->sealed_count &&
           (last || b->reduced < due || b->waiting > plan->settings.reduce_bucket)) {
        int number = plan->sealed[b->reduced++];
        plan->flat_params[number].reduced_after = visit;
        b->waiting -= plan->flat_params[number].padded;
    }
}

// Seals what has its last contribution when visit v ends: first the visit's streamed flat
// parameter, and with the last visit of a turn the others of the unit.
static void seal_after_visit(backward *b, int v)
{
    const zr_plan *plan = b->plan;
    const zr_visit *visit = &plan->visits[v];
    const zr_unit_plan *unit = &plan->units[visit->unit];
    if (visit->stream >= 0 && zr_visit_seals(plan, v, visit->stream))
        seal_flat_param(b, visit->stream, v);
    int first = v;
    while (plan->visits[first].stream >= 0)
        first--;
    for (int i = 0; i < unit->flat_param_count && visit->turn_end == v; i++)
        if (!plan->flat_params[unit->flat_params[i]].streamed &&
            zr_visit_seals(plan, first, unit->flat_params[i]))
            seal_flat_param(b, unit->flat_params[i], v);
}

// In slots, and where sums go on to NVMe, a visit's gradients are reduced while the next visit
// computes, because that is the least memory with which the two overlap. Whole gradients may wait
// longer, up to the configured bucket.
static void follow_backward(zr_plan *plan)
{
    backward b = {.plan = plan};
    bool soon =
        !zr_plan_whole_gradients(plan) || plan->settings.tiering.optimizer == ZERO_TIER_nvme;
    for (int v = 0; v < plan->visit_count; v++) {
        int before = plan->sealed_count;
        if (plan->visits[v].stream < 0 && plan->visits[v].turn_end > v)
            continue; // it ends when its turn does
        seal_after_visit(&b, v);
        reduce_oldest(&b, v, soon ? before : 0);
    }
}

static void place_parked(zr_plan *plan, zr_flat_param *flat_param)
{
    if (!flat_param->streamed || flat_param->last_backward >= flat_param->first_backward)
        return;
    flat_param->parked_first = plan->parked_bytes;
    plan->parked_bytes += zr_flat_param_open_bytes(flat_param);
}

static bool accumulates_in_other_type(const zr_plan *plan)
{
    const zr_settings *settings = &plan->settings;
    return settings->gradient_bits ||
           settings->precision.accumulator != settings->precision.gradients;
}

// Says whether the own sum replaces the own contribution in the window: with one micro-batch, whole
// gradients and one type.
static bool sums_in_window(const zr_plan *plan)
{
    const zr_settings *settings = &plan->settings;
    if (settings->accumulation > 1 || settings->tiering.optimizer != ZERO_TIER_device)
        return false;
    return zr_plan_whole_gradients(plan) && !accumulates_in_other_type(plan);
}

static void place_sum(zr_plan *plan, zr_flat_param *flat_param)
{
    zero_tier tier = flat_param->kind == ZERO_TRAINABLE ? flat_param->state_tier : ZERO_TIER_device;
    if (sums_in_window(plan) || zr_flat_param_sums_on_nvme(flat_param))
        return;
    flat_param->accumulator_first = plan->accumulator_bytes[tier];
    plan->accumulator_bytes[tier] +=
        plan->step_sums * zr_flat_param_accumulator_bytes(&plan->settings, flat_param);
}

// Places the whole sum, for an update of whole flat parameters.
static void place_whole(zr_plan *plan, zr_flat_param *flat_param)
{
    if (!plan->updates_whole)
        return;
    if (!accumulates_in_other_type(plan)) {
        flat_param->whole.buffer = ZR_BUFFER_GRADIENTS; // its own gradient there
        return;
    }
    flat_param->whole = (zr_buffer_ref){ZR_BUFFER_FULL_GRADS, plan->whole_bytes};
    plan->whole_bytes +=
        flat_param->padded * (int64_t)zero_dtype_bytes(flat_param->accumulator_dtype);
}

static void place_carry(zr_plan *plan, zr_flat_param *flat_param)
{
    if (!plan->settings.carries || !flat_param->gradient_bits)
        return;
    flat_param->carry_first = plan->carry_bytes;
    plan->carry_bytes += zr_flat_param_open_bytes(flat_param);
}

static void place_states(zr_plan *plan, zr_flat_param *flat_param)
{
    if (flat_param->kind != ZERO_TRAINABLE || flat_param->tied_copy)
        return;
    flat_param->state_first = plan->state_elems[flat_param->state_tier];
    plan->state_elems[flat_param->state_tier] +=
        plan->updates_whole ? flat_param->padded : flat_param->shard;
}

static void place_accumulators(zr_plan *plan)
{
    for (int p = 0; p < plan->flat_param_count; p++) {
        zr_flat_param *flat_param = &plan->flat_params[p];
        if (flat_param->first_backward < 0)
            continue;
        place_parked(plan, flat_param);
        place_sum(plan, flat_param);
        place_whole(plan, flat_param);
        place_carry(plan, flat_param);
        place_states(plan, flat_param);
    }
}

zero_status zr_plan_reductions(zr_plan *plan, zero_error *error)
{
    plan->sealed = zr_alloc((size_t)plan->flat_param_count * sizeof *plan->sealed, error);
    if (!plan->sealed)
        return ZERO_ERR_MEMORY;
    follow_backward(plan);
    place_accumulators(plan);
    return ZERO_OK;
}
