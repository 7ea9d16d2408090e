#include "plan/pipeline/part.h"

#include "base/numbers.h"
#include "model/pipeline_stage_cut.h"
#include "plan/pipeline/tied_weights.h"
#include "plan/plan_parts.h"

#include <stdio.h>

const zr_chunk_plan *zr_plan_chunk_of(const zr_plan *plan, int unit)
{
    int c = 0;
    while (unit >= plan->chunks[c].end_unit)
        c++;
    return &plan->chunks[c];
}

static int chunks_of_model(const zr_plan *plan)
{
    const zr_pipeline *pipeline = plan->pipeline ? &plan->pipeline->pipeline : NULL;
    return pipeline ? pipeline->stages * pipeline->chunks : 1;
}

bool zr_chunk_is_last(const zr_plan *plan, const zr_chunk_plan *chunk)
{
    return chunk->number == chunks_of_model(plan) - 1;
}

// Returns the bytes of a link that this rank holds.
static int64_t bytes_of_link(const zr_plan *plan, const zr_link *link)
{
    bool sends = link->from == plan->pipeline->stage,
         receives = link->to == plan->pipeline->stage && !plan->pipeline->mapped;
    return sends || receives ? link->slots * link->bytes : 0;
}

int64_t zr_plan_link_bytes(const zr_plan *plan)
{
    int64_t bytes = 0;
    for (int i = 0; i < plan->link_count; i++)
        bytes += bytes_of_link(plan, &plan->links[i]);
    return bytes;
}

void zr_plan_count_links(zr_plan *plan)
{
    for (int i = 0; i < plan->link_count; i++) {
        bool on_host = plan->far && plan->links[i].on_host;
        plan->bytes[on_host ? ZERO_TIER_host : ZERO_TIER_device][ZERO_MEM_communication] +=
            bytes_of_link(plan, &plan->links[i]);
    }
}

static zero_status list_actions(zr_plan *plan, zero_error *error)
{
    const zr_pipeline_part *part = plan->pipeline;
    size_t count = (size_t)zr_pipeline_list(&part->pipeline, part->stage, NULL);
    plan->actions = zr_alloc(count * sizeof *plan->actions, error);
    if (!plan->actions)
        return ZERO_ERR_MEMORY;
    plan->action_count = zr_pipeline_list(&part->pipeline, part->stage, plan->actions);
    return ZERO_OK;
}

// Says which chunk the links of the chunk's own enter and leave.
static void place_chunk(zr_plan *plan, int c)
{
    const zr_pipeline_part *part = plan->pipeline;
    zr_chunk_plan *chunk = &plan->chunks[c];
    int number = zr_pipeline_chunk(&part->pipeline, part->stage, c);
    bool first = number == 0, last = number == chunks_of_model(plan) - 1;
    *chunk = (zr_chunk_plan){
        .number = number,
        .first_unit = c > 0 ? plan->chunks[c - 1].end_unit : 0,
        .input = first ? -1 : 2 * (number - 1),
        .gradient_out = first ? -1 : 2 * (number - 1) + 1,
        .output = last ? -1 : 2 * number,
        .gradient_in = last ? -1 : 2 * number + 1,
        .buffers = zr_pipeline_buffers(&part->pipeline, part->stage, c),
    };
    chunk->end_unit = chunk->first_unit + part->first_unit[number + 1] - part->first_unit[number];
}

// Fills in the two links between a chunk of the model and the next one, given the boundary between
// them.
static void place_links(zr_plan *plan, int number, const zero_tensors *boundary)
{
    const zr_pipeline_part *part = plan->pipeline;
    const zr_pipeline *pipeline = &part->pipeline;
    const zero_unit *after =
        &zr_pipeline_stage_origin(plan->model)->units[part->first_unit[number + 1]];
    int from = number % pipeline->stages, to = (number + 1) % pipeline->stages;
    int64_t shares = part->divides ? plan->tensor_ranks : 1;
    int64_t share =
        ZR_ROUND_UP((zr_boundary_bytes(boundary) + shares - 1) / shares, ZR_ACTIVATION_ALIGN);
    int64_t first = shares > 1 ? plan->tensor_rank * share : 0;
    // With divided rows a tensor rank may have none, and then sends messages of no bytes.
    int64_t bytes = ZR_MAX(shares * share, ZR_ACTIVATION_ALIGN);
    zr_link *link = &plan->links[2 * number];
    link[0] = link[1] =
        (zr_link){.from = from, .to = to, .bytes = bytes, .first = first, .message = share};
    link[1].from = to;
    link[1].to = from;
    link[0].slots = zr_pipeline_buffers(pipeline, to, (number + 1) / pipeline->stages).input_slots;
    link[1].slots = zr_pipeline_buffers(pipeline, from, number / pipeline->stages).gradient_slots;
    snprintf(link[0].name, sizeof link[0].name, "activations %.70s to %.70s", after[-1].name,
             after->name);
    snprintf(link[1].name, sizeof link[1].name, "gradients %.70s to %.70s", after->name,
             after[-1].name);
}

// Asks all units of the model for their boundaries, to find what enters each chunk.
static zero_status find_links(zr_plan *plan, zero_error *error)
{
    const zr_pipeline_part *part = plan->pipeline;
    const zero_model *model = zr_pipeline_stage_origin(plan->model);
    zero_tensors in = {0};
    zero_unit_sizes sizes;
    int64_t total = 0;
    size_t most =
        2 * (size_t)(chunks_of_model(plan) + plan->tied_weight_count + part->pipeline.stages);
    plan->links = zr_alloc(most * sizeof *plan->links, error);
    if (!plan->links)
        return ZERO_ERR_MEMORY;
    for (int u = 0, number = 0; number + 1 < chunks_of_model(plan); u++) {
        sizes = (zero_unit_sizes){0};
        ZERO_TRY(zr_unit_find_sizes(&model->units[u], plan->backend, &plan->shape,
                                    plan->settings.precision.name, &in, &total, &sizes, error));
        in = sizes.out;
        if (u + 1 < part->first_unit[number + 1])
            continue;
        place_links(plan, number++, &in);
        if (part->divides) // what has come is brought together through this window
            plan->exchange_bytes = ZR_MAX(plan->exchange_bytes, plan->links[2 * number - 2].bytes);
        if (number % part->pipeline.stages == part->stage)
            plan->chunks[number / part->pipeline.stages].in = in;
    }
    return ZERO_OK;
}

zr_pipeline_kind zr_plan_schedule(const zr_plan *plan)
{
    bool trains = plan->pipeline && !plan->settings.inference;
    return trains ? plan->pipeline->pipeline.kind : ZR_PIPELINE_1F1B;
}

bool zr_plan_is_asynchronous(const zr_plan *plan)
{
    return zr_pipeline_is_asynchronous(zr_plan_schedule(plan));
}

bool zr_plan_parameters_lag(const zr_plan *plan)
{
    return plan->settings.delayed || zr_plan_schedule(plan) == ZR_PIPELINE_2BW;
}

int zr_plan_sums_to_first(const zr_plan *plan, int stage)
{
    return plan->sums_link + 2 * (stage - 1);
}

int zr_plan_sums_from_first(const zr_plan *plan, int stage)
{
    return zr_plan_sums_to_first(plan, stage) + 1;
}

// Adds the links through which the first stage adds up the sums of a step. Two slots: the next
// step's are on their way before those of this one have been taken.
static void place_sums(zr_plan *plan)
{
    zr_link *link = &plan->links[plan->sums_link = plan->link_count];
    for (int s = 1; s < plan->pipeline->pipeline.stages; s++, link += 2) {
        link[0] = link[1] = (zr_link){
            .from = s,
            .slots = 2,
            .bytes = ZR_ROUND_UP((int64_t)sizeof(zr_step_sums), ZR_ACTIVATION_ALIGN),
            .message = sizeof(zr_step_sums),
            .on_host = true,
        };
        link[1].from = 0;
        link[1].to = s;
        snprintf(link[0].name, sizeof link[0].name, "sums of pipeline stage %d", s);
        snprintf(link[1].name, sizeof link[1].name, "sums for pipeline stage %d", s);
        plan->link_count += 2;
    }
}

// Says how many versions of parameters and of gradients the schedule needs at one time.
static void count_versions(zr_plan *plan)
{
    const zr_pipeline_part *part = plan->pipeline;
    plan->versions = plan->step_sums = 1;
    plan->sums_link = -1;
    if (zr_plan_is_asynchronous(plan))
        plan->versions = zr_pipeline_versions(&part->pipeline, part->stage);
    if (zr_plan_schedule(plan) == ZR_PIPELINE_2BW)
        plan->step_sums = 2;
}

zero_status zr_plan_chunks(zr_plan *plan, zero_error *error)
{
    count_versions(plan);
    plan->chunk_count = 1;
    if (!plan->pipeline) {
        plan->chunks[0] = (zr_chunk_plan){.end_unit = plan->model->unit_count,
                                          .input = -1,
                                          .output = -1,
                                          .gradient_in = -1,
                                          .gradient_out = -1,
                                          .buffers.sets = 1};
        zr_plan_tied_weights_link(plan, 0);
        return ZERO_OK;
    }
    ZERO_TRY(zr_pipeline_check(&plan->pipeline->pipeline, error));
    plan->chunk_count = plan->pipeline->pipeline.chunks;
    for (int c = 0; c < plan->chunk_count; c++)
        place_chunk(plan, c);
    assert(plan->chunks[plan->chunk_count - 1].end_unit == plan->model->unit_count);
    ZERO_TRY(list_actions(plan, error));
    ZERO_TRY(find_links(plan, error));
    plan->link_count = zr_plan_tied_weights_link(plan, 2 * (chunks_of_model(plan) - 1));
    if (zr_plan_schedule(plan) == ZR_PIPELINE_2BW)
        place_sums(plan);
    return ZERO_OK;
}
