// The plans of a pipeline: one for each pipeline stage, and the drawing of the schedule.
#include "base/text.h"
#include "model/pipeline_stage_cut.h"
#include "plan/exchanges.h"
#include "plan/pipeline/simulate.h"
#include "report/pipeline_timeline.h"
#include "setup/pipeline_stages.h"
#include "report/planner.h"

zero_status zr_plan_pipeline_make(const zero_model *model, zr_pipeline_part *division,
                                  zr_plan_pipeline **out, zero_error *error)
{
    zr_simulation simulation = {0};
    size_t stages = (size_t)division->pipeline.stages;
    zr_plan_pipeline *made = zr_alloc(sizeof *made + stages * sizeof *made->at, error);
    zero_status status = ZERO_ERR_MEMORY;
    if (made)
        status = zr_pipeline_stages_simulate(division, &simulation, error);
    if (status != ZERO_OK) {
        zr_free(made);
        return status;
    }
    made->part = division;
    made->model = model;
    made->bubble = simulation.bubble;
    zr_simulation_free(&simulation);
    *out = made;
    return ZERO_OK;
}

void zr_plan_pipeline_free(zr_plan_pipeline *pipeline)
{
    if (pipeline)
        zr_pipeline_stages_free(pipeline->part);
    zr_free(pipeline);
}

// Returns the elements of the units of a stage.
static int64_t stage_parameters(const zr_plan_pipeline *pipeline, int stage)
{
    int64_t elements = 0;
    const zr_pipeline_part *part = pipeline->part;
    for (int c = 0; c < part->pipeline.chunks; c++) {
        int number = zr_pipeline_chunk(&part->pipeline, stage, c);
        int first = part->first_unit[number], end = part->first_unit[number + 1];
        const zero_model units = {.units = pipeline->model->units + first,
                                  .unit_count = end - first};
        elements += zr_model_parameters(&units);
    }
    return elements;
}

// Returns what a stage sends for the sums of a step: each its own to the first, and that one the
// total to all others.
static zr_plan_messages messages_of_sums(const zr_plan *plan, int stage)
{
    if (plan->sums_link < 0)
        return (zr_plan_messages){0};
    int calls = stage ? 1 : plan->pipeline->pipeline.stages - 1;
    return (zr_plan_messages){calls, calls * plan->links[plan->sums_link].message};
}

static void add_messages(const zr_traffic_plan *traffic, zr_plan_messages *to)
{
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++) {
        to->calls += op == ZERO_COMM_recv ? 0 : traffic->calls[op];
        to->bytes += op == ZERO_COMM_recv ? 0 : traffic->bytes[op];
    }
}

void zr_plan_pipeline_fill(const zr_rank_plan *of, zr_plan_pipeline *pipeline)
{
    const zr_plan *plan = of->plan;
    const zr_pass_traffic step = zr_traffic_of_step(plan);
    zr_report_pipeline_stage *to = &pipeline->at[of->pipeline->stage];
    *to = (zr_report_pipeline_stage){.parameters = stage_parameters(pipeline, of->pipeline->stage),
                                     .versions = plan->versions,
                                     .summed_steps = plan->step_sums,
                                     .sums = messages_of_sums(plan, of->pipeline->stage)};
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        to->bytes[c] = plan->bytes[ZERO_TIER_device][c] + plan->bytes[ZERO_TIER_host][c];
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        to->tiers[t] = zr_plan_tier_bytes(plan, (zero_tier)t);
    for (int c = 0; c < plan->chunk_count; c++) {
        const zr_chunk_buffers *buffers = &plan->chunks[c].buffers;
        to->sets[c] = buffers->sets;
        to->slots += buffers->input_slots + buffers->gradient_slots;
    }
    add_messages(&step.data, &to->messages[ZERO_AXIS_data]);
    add_messages(&step.tensor, &to->messages[ZERO_AXIS_tensor]);
    add_messages(&step.replicas, &to->messages[ZERO_AXIS_tensor]);
    add_messages(&step.pipeline, &to->messages[ZERO_AXIS_pipeline]);
}

static void draw_simulation(const zr_planner *p, const zr_pipeline_part *part,
                            const zr_simulation *simulation, const zr_lane *lanes, zr_buffer *out)
{
    char title[512];
    zr_plain_text(p->subject.name, title, sizeof title);
    const zr_pipeline_picture picture = {.title = title,
                                         .pipeline = &part->pipeline,
                                         .simulation = simulation,
                                         .lanes = lanes,
                                         .in_micro_batches = true};
    if (p->options->view == ZERO_PLAN_LETTERS)
        zr_pipeline_draw_letters(&picture, out);
    else
        zr_pipeline_draw(&picture, out);
}

static zero_status draw_division(const zr_planner *p, const zr_pipeline_part *part, zr_buffer *out,
                                 zero_error *error)
{
    zr_simulation simulation = {0};
    zr_lane *lanes = zr_pipeline_lanes(&part->pipeline, error);
    zero_status status =
        lanes ? zr_pipeline_stages_simulate(part, &simulation, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        draw_simulation(p, part, &simulation, lanes, out);
    zr_simulation_free(&simulation);
    zr_free(lanes);
    return status;
}

zero_status zr_planner_draw_pipeline(const zr_planner *p, const zr_plan_point *at, zr_buffer *out,
                                     zero_error *error)
{
    zr_plan_asked asked;
    zr_estimate estimate;
    if (p->options->machines)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--draw of a pipeline shows when its stages work, and --machines %s changes "
                       "nothing there: one of them at a time",
                       p->options->machines);
    zr_planner_ask(p, at, p->machine.threads, &asked);
    asked.question.unlimited = true;
    zero_status status = zr_estimate_begin(&asked.question, &estimate, error);
    if (status == ZERO_OK)
        status = draw_division(p, estimate.run.division, out, error);
    zr_estimate_free(&estimate);
    return status;
}
