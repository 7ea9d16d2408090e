#include "plan/pipeline/tied_weights.h"

#include "model/unit.h"
#include "plan/accumulators.h"
#include "plan/plan_parts.h"

#include <stdio.h>

zero_status zr_plan_tied_weights_list(zr_plan *plan, zero_error *error)
{
    const zero_model *origin = zr_pipeline_stage_origin(plan->model);
    const zr_pipeline_part *part = plan->pipeline;
    const int all[] = {0, origin->unit_count};
    const int *first = part ? part->first_unit : all;
    int chunks = part ? part->pipeline.stages * part->pipeline.chunks : 1, tied_copies;
    zr_pipeline_stage_tied_copies(plan->model, &tied_copies);
    bool exact = part ? part->exact : tied_copies > 0;
    plan->tied_weight_count = zr_pipeline_stage_tied_weights(origin, first, chunks, exact, NULL);
    plan->tied_weights =
        zr_alloc((size_t)ZR_MAX(plan->tied_weight_count, 1) * sizeof *plan->tied_weights, error);
    zr_tied_weight *of = zr_alloc((size_t)ZR_MAX(plan->tied_weight_count, 1) * sizeof *of, error);
    if (!plan->tied_weights || !of) {
        zr_free(of);
        return ZERO_ERR_MEMORY;
    }
    zr_pipeline_stage_tied_weights(origin, first, chunks, exact, of);
    for (int t = 0; t < plan->tied_weight_count; t++)
        plan->tied_weights[t] = (zr_tied_weight_plan){
            .of = of[t], .tied_copy = -1, .owner = -1, .sum_link = -1, .parameter_link = -1};
    zr_free(of);
    return ZERO_OK;
}

static bool is_owner(const zr_plan *plan, const zr_flat_param *flat_param,
                     const zr_tied_weight *tied_weight)
{
    return !flat_param->tied_copy &&
           zr_pipeline_stage_unit(plan->model, flat_param->ref.unit) == tied_weight->owner.unit &&
           flat_param->ref.flat_param == tied_weight->owner.flat_param;
}

static bool is_tied_copy(const zr_plan *plan, const zr_flat_param *flat_param,
                         const zr_tied_weight *tied_weight)
{
    const zr_tied_copy *tied_copy = zr_pipeline_stage_tied_copy_at(plan->model, flat_param->ref);
    return tied_copy &&
           zr_pipeline_stage_unit(plan->model, flat_param->ref.unit) == tied_weight->borrower &&
           tied_copy->owner.unit == tied_weight->owner.unit &&
           tied_copy->owner.flat_param == tied_weight->owner.flat_param;
}

bool zr_flat_param_is_tied(const zr_plan *plan, const zr_flat_param *flat_param)
{
    bool tied = flat_param->tied_copy;
    for (int t = 0; t < plan->tied_weight_count; t++)
        tied = tied || is_owner(plan, flat_param, &plan->tied_weights[t].of);
    return tied;
}

bool zr_plan_tied_weights_are_late(const zr_plan *plan)
{
    return zr_plan_schedule(plan) == ZR_PIPELINE_PIPEDREAM;
}

// Returns the most stages between an owner and a tied copy of it.
static int largest_chunk_distance(const zr_plan *plan)
{
    int most = 0;
    for (int t = 0; t < plan->tied_weight_count; t++)
        most =
            ZR_MAX(most, plan->tied_weights[t].of.chunks[0] - plan->tied_weights[t].of.chunks[1]);
    return most;
}

int64_t zr_plan_tied_weights_taken(const zr_plan *plan, int64_t step)
{
    int64_t m = plan->pipeline->pipeline.micro_batches;
    return ZR_MAX((step + 1) * m - largest_chunk_distance(plan), 0) / m;
}

// Returns the slots of a link of a tied weight: as many as are sent before the first of them is
// taken, so that nobody waits. A tied copy that is nearer to its owner than others are takes as
// late as they.
static int count_link_slots(const zr_plan *plan)
{
    const zr_pipeline *pipeline = &plan->pipeline->pipeline;
    int m = pipeline->micro_batches;
    return zr_plan_tied_weights_are_late(plan)
               ? ZR_MIN(1 + (largest_chunk_distance(plan) + m - 1) / m, pipeline->steps)
               : 1;
}

// Makes the two links of a tied weight between pipeline stages, and returns how many it made: none
// of a table if the tensor rank has no part of it. A slot holds one data rank's shard.
static int place_links(zr_plan *plan, zr_tied_weight_plan *tied_weight, int first)
{
    const zr_pipeline *pipeline = &plan->pipeline->pipeline;
    const zero_model *origin = zr_pipeline_stage_origin(plan->model);
    const zero_flat_param_desc *flat_param = zr_flat_param_desc(origin, tied_weight->of.owner);
    int64_t shard = zr_shard_elems(flat_param->kind, plan->settings.precision.moments,
                                   zr_flat_param_desc_elements(flat_param), plan->ranks);
    int borrower = tied_weight->of.chunks[0] % pipeline->stages,
        owner = tied_weight->of.chunks[1] % pipeline->stages;
    const char *names[] = {origin->units[tied_weight->of.borrower].name,
                           origin->units[tied_weight->of.owner.unit].name};
    const int64_t bytes[] = {zr_vector_bytes(&plan->settings, ZR_VECTOR_GRADIENT, shard),
                             zr_plan_weight_bytes(plan, shard)};
    zr_link *link = &plan->links[first];
    if (borrower == owner || shard == 0)
        return 0;
    tied_weight->sum_link = first;
    tied_weight->parameter_link = first + 1;
    for (int i = 0; i < 2; i++)
        link[i] = (zr_link){.from = i == 0 ? borrower : owner,
                            .to = i == 0 ? owner : borrower,
                            .slots = count_link_slots(plan),
                            .bytes = ZR_ROUND_UP(bytes[i], ZR_ACTIVATION_ALIGN),
                            .message = bytes[i]};
    snprintf(link[0].name, sizeof link[0].name, "sums %.70s to %.70s", names[0], names[1]);
    snprintf(link[1].name, sizeof link[1].name, "parameters %.60s to %.60s", names[1], names[0]);
    return 2;
}

static bool is_late(const zr_plan *plan, const zr_tied_weight_plan *tied_weight)
{
    return zr_plan_tied_weights_are_late(plan) && tied_weight->parameter_link >= 0 &&
           plan->flat_params[tied_weight->tied_copy].kind == ZERO_TRAINABLE;
}

int zr_plan_tied_weights_link(zr_plan *plan, int first)
{
    for (int t = 0; t < plan->tied_weight_count; t++) {
        zr_tied_weight_plan *tied_weight = &plan->tied_weights[t];
        for (int p = 0; p < plan->flat_param_count; p++) {
            if (is_owner(plan, &plan->flat_params[p], &tied_weight->of))
                tied_weight->owner = p;
            if (is_tied_copy(plan, &plan->flat_params[p], &tied_weight->of))
                tied_weight->tied_copy = p;
        }
        if (plan->pipeline)
            first += place_links(plan, tied_weight, first);
        if (tied_weight->tied_copy >= 0)
            plan->flat_params[tied_weight->tied_copy].late = is_late(plan, tied_weight);
    }
    return first;
}

static void emit_tied_weight(zr_emitter *e, zr_tied_weight_part part, zr_when when, int flat_param,
                             int other, int link)
{
    zr_emit(e, &(zr_instruction){.code = ZR_TIED_WEIGHT,
                                 .when = when,
                                 .what = part,
                                 .flat_param = flat_param,
                                 .stream = other,
                                 .slot = {link < 0 ? ZR_NO_SLOT : ZR_SLOT_LINK, link}});
}

// Sends what `from`, an own flat parameter, has to give (its sum, or its parameters), or takes it
// into `to`, an own flat parameter; -1: another rank's.
static void exchange_tied_weights(zr_emitter *e, int from, int to, int link, bool sums,
                                  zr_when when)
{
    zr_tied_weight_part gives = sums ? ZR_TIED_WEIGHT_GIVE_SUM : ZR_TIED_WEIGHT_GIVE_PARAMETERS;
    zr_tied_weight_part takes = sums ? ZR_TIED_WEIGHT_ADD_SUM : ZR_TIED_WEIGHT_TAKE_PARAMETERS;
    if (from >= 0 && to >= 0) {
        emit_tied_weight(e, takes, when, to, from, -1);
        return;
    }
    if (from >= 0 && link >= 0) {
        zr_emit_link(e, ZR_TAKE, link);
        emit_tied_weight(e, gives, ZR_ALWAYS, from, -1, link);
        zr_emit_link(e, ZR_SEND, link);
    }
    if (to >= 0 && link >= 0) {
        zr_emit_link(e, ZR_RECEIVE, link);
        emit_tied_weight(e, takes, when, to, -1, link);
        zr_emit_link(e, ZR_GIVE, link);
    }
}

static bool trains_tied_weight(const zr_plan *plan, const zr_tied_weight_plan *tied_weight)
{
    int own = tied_weight->owner >= 0 ? tied_weight->owner : tied_weight->tied_copy;
    return own >= 0 && plan->flat_params[own].kind == ZERO_TRAINABLE && !plan->settings.inference;
}

void zr_emit_tied_weights_sum(zr_emitter *e)
{
    for (int t = 0; t < e->plan->tied_weight_count; t++) {
        const zr_tied_weight_plan *tied_weight = &e->plan->tied_weights[t];
        if (trains_tied_weight(e->plan, tied_weight))
            exchange_tied_weights(e, tied_weight->tied_copy, tied_weight->owner,
                                  tied_weight->sum_link, true, ZR_ALWAYS);
    }
}

void zr_emit_tied_weights_publish(zr_emitter *e)
{
    for (int t = 0; t < e->plan->tied_weight_count; t++) {
        const zr_tied_weight_plan *tied_weight = &e->plan->tied_weights[t];
        bool late = zr_plan_tied_weights_are_late(e->plan) && tied_weight->owner < 0;
        if (late || !trains_tied_weight(e->plan, tied_weight))
            continue;
        // Peers have to have copied it: whole, as no other flat parameter of this stage.
        if (tied_weight->tied_copy >= 0 && !e->stage->before_update && e->plan->updates_whole)
            zr_emit_await_readers(e, ZR_CHANGED, ZR_BUFFER_PARAMETERS, tied_weight->tied_copy);
        exchange_tied_weights(e, tied_weight->owner, tied_weight->tied_copy,
                              tied_weight->parameter_link, false, ZR_CHANGED);
    }
}

void zr_emit_tied_weights(zr_emitter *e)
{
    for (int t = 0; t < e->plan->tied_weight_count; t++) {
        const zr_tied_weight_plan *tied_weight = &e->plan->tied_weights[t];
        if (tied_weight->tied_copy < 0 || !e->plan->flat_params[tied_weight->tied_copy].late)
            continue;
        // At the end of a window it has just been gathered.
        zr_emit_await_readers(e, ZR_CHANGED, ZR_BUFFER_PARAMETERS, tied_weight->tied_copy);
        exchange_tied_weights(e, -1, tied_weight->tied_copy, tied_weight->parameter_link, false,
                              ZR_ALWAYS);
        zr_emit_gather_replica(e, ZR_ALWAYS, tied_weight->tied_copy);
        zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_GATHER, tied_weight->tied_copy);
    }
}
