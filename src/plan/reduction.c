// When each flat parameter's gradient is sealed and reduced, and where it lies until then.
//
// Whole gradients (stages 0 and 1): every flat parameter has its own place in the window throughout
// the micro-batch.
// Slots (stages 2 and 3): a flat parameter takes a place before its gradient is written, and gives
// it back once it is reduced. Places are found here, first fit, so that the step itself allocates
// nothing:
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

static void place_gradients_of_all(zr_plan *plan)
{
    for (int p = 0; p < plan->flat_param_count; p++) {
        zr_flat_param *flat_param = &plan->flat_params[p];
        if (flat_param->first_backward < 0)
            continue;
        flat_param->grad_first = plan->grad_bytes;
        plan->grad_bytes += plan->ranks * zr_flat_param_gradient_shard_bytes(flat_param);
    }
}

typedef struct backward { // the walk over the visits
    zr_plan *plan;
    zr_first_fit open, window, staged;
    int reduced;     // number of plan->sealed that are reduced
    int64_t waiting; // elements of the sealed flat parameters that are not yet reduced
} backward;

static bool is_parked(const zr_flat_param *flat_param)
{
    return flat_param->streamed && flat_param->last_backward < flat_param->first_backward;
}

static bool collects_apart(const zr_flat_param *flat_param)
{
    return flat_param->gradient_dtype != ZERO_F32 || is_parked(flat_param);
}

// Takes the host place where the sum is added to earlier ones and then written to NVMe from.
static void take_staged(backward *b, int number)
{
    zr_flat_param *flat_param = &b->plan->flat_params[number];
    flat_param->accumulator_first = zr_first_fit_take(
        &b->staged, number, zr_flat_param_accumulator_bytes(&b->plan->settings, flat_param));
}

static void place_gradient_window(backward *b, int number)
{
    zr_flat_param *flat_param = &b->plan->flat_params[number];
    if (!zr_plan_whole_gradients(b->plan))
        flat_param->grad_first = zr_first_fit_take(
            &b->window, number, b->plan->ranks * zr_flat_param_gradient_shard_bytes(flat_param));
}

static void open_flat_param(backward *b, int number)
{
    zr_flat_param *flat_param = &b->plan->flat_params[number];
    if (collects_apart(flat_param))
        flat_param->open_first =
            zr_first_fit_take(&b->open, number, zr_flat_param_open_bytes(flat_param));
    else
        place_gradient_window(b, number);
}

static void seal_flat_param(backward *b, int number, int visit)
{
    zr_flat_param *flat_param = &b->plan->flat_params[number];
    if (collects_apart(flat_param)) {
        place_gradient_window(b, number);
        zr_first_fit_give_back(&b->open, number);
    }
    if (zr_flat_param_sums_on_nvme(flat_param) && flat_param->fetched_with < 0)
        take_staged(b, number);
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
        if (!zr_plan_whole_gradients(plan))
            zr_first_fit_give_back(&b->window, number);
        if (zr_flat_param_sums_on_nvme(&plan->flat_params[number]))
            zr_first_fit_give_back(&b->staged, number);
    }
}

// Returns the visit at whose end a flat parameter will be sealed, if it belongs to this turn; else
// -1. Streamed flat parameters are sealed at their own visit, the others at the end of the turn.
static int visit_that_seals(const zr_plan *plan, int number, const zr_visit *visit, int v)
{
    const zr_flat_param *flat_param = &plan->flat_params[number];
    if (flat_param->last_backward != visit->unit || !zr_visit_adds(visit))
        return -1;
    return visit->stream == number                      ? v
           : visit->stream < 0 && !flat_param->streamed ? visit->turn_end
                                                        : -1;
}

// Fetches a flat parameter's sums so far while the visit before the one that seals it computes.
static void fetch_sums(backward *b, int v)
{
    const zr_plan *plan = b->plan;
    // The first visit that adds has no visit before it that could have done this.
    bool first =
        v == 0 || !zr_visit_adds(&plan->visits[v - 1]) || plan->visits[v - 1].pass_end == v;
    for (int ahead = first ? v : v + 1;
         ahead <= v + 1 && ahead < plan->visits[v].pass_end && plan->settings.accumulation > 1;
         ahead++) {
        const zr_visit *visit = &plan->visits[ahead];
        const zr_unit_plan *unit = &plan->units[visit->unit];
        for (int i = 0; i < unit->flat_param_count; i++) {
            zr_flat_param *flat_param = &plan->flat_params[unit->flat_params[i]];
            if (!zr_flat_param_sums_on_nvme(flat_param) || flat_param->fetched_with >= 0 ||
                visit_that_seals(plan, unit->flat_params[i], visit, ahead) < 0)
                continue;
            flat_param->fetched_with = v;
            take_staged(b, unit->flat_params[i]);
        }
    }
}

// Fetches what an earlier unit has parked while the visit before this one computes.
static void place_returning_sums(backward *b, int v, int end)
{
    zr_plan *plan = b->plan;
    zr_visit *visit = v < end ? &plan->visits[v] : NULL;
    if (!visit || visit->stream < 0 || visit->kind != ZR_VISIT_BACKWARD || visit->returns)
        return;
    const zr_flat_param *flat_param = &plan->flat_params[visit->stream];
    visit->returns = is_parked(flat_param) && flat_param->first_backward != visit->unit;
    if (visit->returns)
        visit->open_first =
            zr_first_fit_take(&b->open, visit->stream, zr_flat_param_open_bytes(flat_param));
}

static void begin_visit(backward *b, int v)
{
    zr_plan *plan = b->plan;
    zr_visit *visit = &plan->visits[v];
    const zr_unit_plan *unit = &plan->units[visit->unit];
    if (!zr_visit_adds(visit))
        return;
    fetch_sums(b, v);
    for (int i = 0; i < unit->flat_param_count; i++) {
        const zr_flat_param *flat_param = &plan->flat_params[unit->flat_params[i]];
        bool here =
            visit->stream >= 0 ? visit->stream == unit->flat_params[i] : !flat_param->streamed;
        if (here && flat_param->first_backward == visit->unit)
            open_flat_param(b, unit->flat_params[i]);
        if (here && visit->stream >= 0 && !visit->returns)
            visit->open_first = flat_param->open_first;
    }
    place_returning_sums(b, v, visit->pass_end); // unless the visit before has done this
    place_returning_sums(b, v + 1, visit->pass_end);
}

static void end_visit(backward *b, int v)
{
    zr_plan *plan = b->plan;
    zr_visit *visit = &plan->visits[v];
    const zr_unit_plan *unit = &plan->units[visit->unit];
    if (visit->stream >= 0 && visit->kind == ZR_VISIT_BACKWARD &&
        plan->flat_params[visit->stream].first_backward >= 0) {
        visit->parks = plan->flat_params[visit->stream].last_backward != visit->unit;
        if (visit->parks)
            zr_first_fit_give_back(&b->open, visit->stream);
        else
            seal_flat_param(b, visit->stream, v);
    }
    bool adds = zr_visit_adds(visit);
    for (int i = 0; i < unit->flat_param_count && adds && visit->turn_end == v; i++) {
        const zr_flat_param *flat_param = &plan->flat_params[unit->flat_params[i]];
        if (!flat_param->streamed && flat_param->last_backward == visit->unit)
            seal_flat_param(b, unit->flat_params[i], v);
    }
}

// In slots, and where sums go on to NVMe, a visit's gradients are reduced while the next visit
// computes, because that is the least memory with which the two overlap. Whole gradients may wait
// longer, up to the configured bucket.
static void follow_backward(backward *b)
{
    zr_plan *plan = b->plan;
    bool soon =
        !zr_plan_whole_gradients(plan) || plan->settings.tiering.optimizer == ZERO_TIER_nvme;
    for (int v = 0; v < plan->visit_count; v++) {
        int before = plan->sealed_count;
        begin_visit(b, v);
        if (plan->visits[v].stream < 0 && plan->visits[v].turn_end > v)
            continue; // it ends when its turn does
        end_visit(b, v);
        reduce_oldest(b, v, soon ? before : 0);
    }
}

static void place_parked(zr_plan *plan, zr_flat_param *flat_param)
{
    if (!is_parked(flat_param))
        return;
    flat_param->parked_first = plan->parked_bytes;
    plan->parked_bytes += zr_flat_param_open_bytes(flat_param);
}

static bool accumulates_in_other_type(const zr_plan *plan)
{
    return plan->settings.precision.accumulator != plan->settings.precision.gradients;
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
        flat_param->whole = (zr_buffer_ref){ZR_BUFFER_GRADIENTS, flat_param->grad_first};
        return;
    }
    flat_param->whole = (zr_buffer_ref){ZR_BUFFER_FULL_GRADS, plan->whole_bytes};
    plan->whole_bytes +=
        flat_param->padded * (int64_t)zero_dtype_bytes(flat_param->accumulator_dtype);
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
        place_states(plan, flat_param);
    }
}

static zero_status begin_backward(backward *b, zr_plan *plan, zero_error *error)
{
    b->plan = plan;
    plan->sealed = zr_alloc((size_t)plan->flat_param_count * sizeof *plan->sealed, error);
    if (!plan->sealed)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_first_fit_begin(&b->open, plan->flat_param_count, error));
    ZERO_TRY(zr_first_fit_begin(&b->window, plan->flat_param_count, error));
    return zr_first_fit_begin(&b->staged, plan->flat_param_count, error);
}

zero_status zr_plan_reductions(zr_plan *plan, zero_error *error)
{
    backward b = {0};
    zero_status status = begin_backward(&b, plan, error);
    if (status == ZERO_OK) {
        if (zr_plan_whole_gradients(plan))
            place_gradients_of_all(plan);
        follow_backward(&b);
        plan->open_bytes = b.open.bytes;
        plan->grad_bytes = ZR_MAX(plan->grad_bytes, b.window.bytes);
        plan->staged_gradient_bytes = b.staged.bytes;
        place_accumulators(plan);
    }
    zr_first_fit_end(&b.staged);
    zr_first_fit_end(&b.window);
    zr_first_fit_end(&b.open);
    return status;
}
