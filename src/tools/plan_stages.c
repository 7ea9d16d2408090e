// The plans of a pipeline: one for each pipeline stage, and the drawing of the schedule.
#include "base/plain_text.h"
#include "config/config_ranks.h"
#include "model/stage_cut.h"
#include "plan/exchanges.h"
#include "plan/pipeline_lanes.h"
#include "setup/machine_facts.h"
#include "setup/stages.h"
#include "tools/pipeline_draw.h"
#include "tools/planner.h"

static int stages_of(const zr_planner *p) { return p->config->pipeline.stages; }

zero_status zr_planner_divide(const zr_planner *p, const zr_plan_point *at, int64_t memory_limit,
                              zr_pipeline_part **out, zero_error *error)
{
    // A shallow copy is enough, because only plain fields are changed.
    zr_config config = *p->config;
    config.stage = at->stage;
    config.ranks = at->ranks / zr_config_model_ranks(p->config);
    const zr_stages_question question = {.whole = p->model,
                                         .config = &config,
                                         .shape = {.batch = at->batch,
                                                   .seq = p->subject.seq,
                                                   .threads = p->machine.threads,
                                                   .dtype = config.dtype},
                                         .memory_limit = memory_limit};
    *out = NULL;
    return stages_of(p) > 1 ? zr_stages_divide(&question, out, error) : ZERO_OK;
}

// Says whether all ranks of a job can map each other's memory.
static bool is_on_one(const zr_planner *p, int ranks)
{
    return ranks <= ZERO_MAX_RANKS && zr_planner_together(p, ranks) == ranks;
}

// Sets what follows from where the ranks of a pipeline stage are.
static zero_status place(const zr_planner *p, const zr_plan_point *at, const zr_settings *settings,
                         int stage, zr_machine *machine, zero_error *error)
{
    int stages = stages_of(p), tensor = p->config->tensor;
    zr_mesh mesh;
    machine->ranks = at->ranks;
    zr_machine_expect(machine, zr_config_model_ranks(p->config), tensor, p->tensor_rank);
    machine->mapped = is_on_one(p, at->ranks);
    machine->machine_ranks = (int)settings->kept_by;
    if (!p->machines)
        return ZERO_OK;
    int first = stage * (at->ranks / stages) + p->tensor_rank;
    ZERO_TRY(zr_mesh_create(at->ranks, first, tensor, stages, &mesh, error));
    zr_machine_imagine(&p->machines->job, &mesh, p->machines->holders, machine);
    return ZERO_OK;
}

zero_status zr_planner_make(const zr_planner *p, const zr_plan_point *at,
                            const zr_pipeline_part *division, int stage, zr_rank_plan *out,
                            zero_error *error)
{
    zr_rank_question question = {
        .model = p->part.model,
        .config = p->config,
        .settings = p->settings,
        .shape = {.batch = at->batch, .seq = p->subject.seq, .threads = p->machine.threads},
        .machine = p->machine,
        .division = division,
        .stage = stage,
        .mapped = is_on_one(p, at->ranks),
    };
    *out = (zr_rank_plan){0};
    question.settings.stage = at->stage;
    ZERO_TRY(place(p, at, &question.settings, stage, &question.machine, error));
    return zr_rank_plan_make(&question, out, error);
}

zero_status zr_plan_pipeline_make(const zero_model *model, zr_pipeline_part *division,
                                  zr_plan_pipeline **out, zero_error *error)
{
    zr_simulation simulation = {0};
    size_t stages = (size_t)division->pipeline.stages;
    zr_plan_pipeline *made = zr_alloc(sizeof *made + stages * sizeof *made->at, error);
    zero_status status = ZERO_ERR_MEMORY;
    if (made)
        status = zr_stages_simulate(division, &simulation, error);
    if (status != ZERO_OK) {
        zr_stages_free(division);
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
        zr_stages_free(pipeline->part);
    zr_free(pipeline);
}

// Returns the elements of the units of a stage.
static int64_t parameters_of(const zr_plan_pipeline *pipeline, int stage)
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
static zr_plan_messages sums_of(const zr_plan *plan, int stage)
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
    zr_plan_stage *to = &pipeline->at[of->part.stage];
    *to = (zr_plan_stage){.parameters = parameters_of(pipeline, of->part.stage),
                          .versions = plan->versions,
                          .summed_steps = plan->step_sums,
                          .sums = sums_of(plan, of->part.stage)};
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
    add_messages(&step.holders, &to->messages[ZERO_AXIS_tensor]);
    add_messages(&step.pipeline, &to->messages[ZERO_AXIS_pipeline]);
}

static void draw(const zr_planner *p, const zr_pipeline_part *part, const zr_simulation *simulation,
                 const zr_lane *lanes, zr_buffer *out)
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

zero_status zr_planner_draw_pipeline(const zr_planner *p, const zr_plan_point *at, zr_buffer *out,
                                     zero_error *error)
{
    zr_simulation simulation = {0};
    zr_pipeline_part *part;
    if (p->options->machines)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--draw of a pipeline shows when its stages work, and --machines %s changes "
                       "nothing there: one of them at a time",
                       p->options->machines);
    ZERO_TRY(zr_planner_divide(p, at, 0, &part, error));
    zr_lane *lanes = zr_pipeline_lanes(&part->pipeline, error);
    zero_status status = lanes ? zr_stages_simulate(part, &simulation, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        draw(p, part, &simulation, lanes, out);
    zr_simulation_free(&simulation);
    zr_free(lanes);
    zr_stages_free(part);
    return status;
}
