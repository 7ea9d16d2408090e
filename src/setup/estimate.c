#include "setup/estimate.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "compute/compute.h"
#include "config/config_ranks.h"
#include "engine/update.h"
#include "layers/layers.h"
#include "predict/harness.h"
#include "predict/measure_kernels.h"
#include "setup/machine_facts.h"
#include "setup/model_lora.h"
#include "setup/model_part.h"
#include "setup/model_preference.h"
#include "setup/model_task.h"
#include "setup/pipeline_stages.h"

#include <stdio.h>

static int ranks_on_one_machine(const zr_estimate_question *q)
{
    return q->together ? ZR_MIN(q->together, q->ranks) : q->ranks;
}

// Says whether all ranks of the job can map each other's memory.
static bool is_on_one_machine(const zr_estimate_question *q)
{
    return q->ranks <= ZERO_MAX_RANKS && ranks_on_one_machine(q) == q->ranks;
}

static zero_status find_part(zr_estimate *r, zero_error *error)
{
    const zr_estimate_question *q = r->question;
    const zero_model *whole = q->model;
    if (q->shape) {
        zr_lm_config shape = *q->shape;
        bool unused;
        zr_model_tiles_apply(q->config, &shape);
        ZERO_TRY(zr_model_lora_apply(q->config, &shape, &unused, error));
        ZERO_TRY(zr_model_preference_apply(q->config, &shape, &unused, error));
        ZERO_TRY(zr_model_task_apply(q->config, &shape, &unused, error));
        ZERO_TRY(zr_lm_create(&shape, &r->whole, error));
        whole = r->whole;
    }
    r->run = (zr_run_setup){.config = q->config,
                            .model = whole,
                            .name = q->name,
                            .shape = zr_run_shape(q->config, q->micro_batch, q->seq, q->threads)};
    return zr_run_setup_part(&r->run, 0, error);
}

// Divides the units within the memory, or, if nothing fits, as they would be divided without limit.
static zero_status divide_into_stages(zr_estimate *r, zero_error *error)
{
    const zr_estimate_question *q = r->question;
    int64_t budget = q->config->offload.device_memory, limit = q->machine.memory_limit;
    zero_error reason = {0};
    r->stages = q->config->pipeline.stages;
    if (r->stages > 1 && q->division)
        return zr_pipeline_stages_copy(q->division, &r->run.division, error);
    if (budget > 0 && (!limit || budget < limit))
        limit = budget;
    zero_status status = zr_run_setup_divide(&r->run, q->unlimited ? 0 : limit, &reason);
    if (status == ZERO_ERR_LIMIT) {
        r->fits = false; // because a run would be refused so
        snprintf(r->excess, sizeof r->excess, "%.*s", (int)sizeof r->excess - 1, reason.message);
        return zr_run_setup_divide(&r->run, 0, error);
    }
    if (status != ZERO_OK && error)
        *error = reason;
    return status;
}

// Takes the job's machines, or fills equal ones with ranks in their order, if there are several.
static zero_status find_machines(zr_estimate *r, zero_error *error)
{
    const zr_estimate_question *q = r->question;
    int together = ranks_on_one_machine(q), count = (q->ranks + together - 1) / together;
    if (q->job)
        r->machines = *q->job;
    if (q->job || count == 1)
        return ZERO_OK;
    int *list = zr_alloc((size_t)(count + 1 + q->ranks) * sizeof *list, error);
    if (!list)
        return ZERO_ERR_MEMORY;
    for (int m = 0; m <= count; m++)
        list[m] = ZR_MIN(m * together, q->ranks);
    for (int rank = 0; rank < q->ranks; rank++)
        list[count + 1 + rank] = rank / together;
    r->places = list;
    r->machines = (zr_job_machines){.count = count, .first = list, .of = list + count + 1};
    return ZERO_OK;
}

// Returns the job's rank that stands for a pipeline stage: its first.
static int first_rank_of(const zr_estimate *r, int stage)
{
    return stage * (r->question->ranks / r->question->config->pipeline.stages);
}

static zero_status mesh_of_stage_rank(const zr_estimate *r, int stage, int tensor_rank,
                                      zr_mesh *out, zero_error *error)
{
    const zr_config *config = r->question->config;
    return zr_mesh_create(r->question->ranks, first_rank_of(r, stage) + tensor_rank, config->tensor,
                          config->pipeline.stages, out, error);
}

// Fills in where the machine of a tensor rank of a pipeline stage stands in the job.
static zero_status fill_machine_of_rank(const zr_estimate *r, int stage, int tensor_rank,
                                        zr_machine *machine, zero_error *error)
{
    const zr_estimate_question *q = r->question;
    const zr_config *config = q->config;
    zr_mesh mesh;
    machine->ranks = q->ranks;
    machine->threads = q->threads;
    zr_machine_set_limit(machine, &config->offload, ranks_on_one_machine(q));
    zr_machine_divide_ranks(machine, zr_config_model_ranks(config), config->tensor, tensor_rank);
    machine->mapped = is_on_one_machine(q);
    machine->machine_ranks = (int)config->kept_by;
    if (!r->machines.count)
        return ZERO_OK;
    ZERO_TRY(mesh_of_stage_rank(r, stage, tensor_rank, &mesh, error));
    zr_machine_imagine_groups(&r->machines, &mesh, q->replicas, machine);
    return ZERO_OK;
}

// Notes what is too much, of the first pipeline stage that does not fit.
static void check_fit(zr_estimate *r, int stage)
{
    const zr_machine *machine = &r->at[stage].machine;
    const zr_plan *plan = r->at[stage].plan;
    char excess[256];
    if (!r->fits || zr_plan_fits(plan, machine))
        return;
    r->fits = false;
    zr_plan_describe_excess(plan, machine, excess, sizeof excess);
    if (r->question->advise && !zr_plan_suggest(plan, machine, r->advice, sizeof r->advice))
        r->advice[0] = 0;
    if (r->stages > 1)
        snprintf(r->excess, sizeof r->excess, "pipeline stage %d: %s", stage, excess);
    else
        snprintf(r->excess, sizeof r->excess, "%s", excess);
}

zero_status zr_estimate_plan(const zr_estimate *r, int stage, int tensor_rank,
                             const zr_model_part *part, zr_rank_plan *out, zero_error *error)
{
    zr_rank_question rank = {.stage = stage,
                             .part = part,
                             .mapped = is_on_one_machine(r->question),
                             .machine = r->question->machine};
    *out = (zr_rank_plan){0};
    ZERO_TRY(fill_machine_of_rank(r, stage, tensor_rank, &rank.machine, error));
    return zr_run_setup_plan(&r->run, &rank, out, error);
}

zero_status zr_estimate_begin(const zr_estimate_question *question, zr_estimate *out,
                              zero_error *error)
{
    *out = (zr_estimate){.question = question, .fits = true};
    ZERO_TRY(find_part(out, error));
    ZERO_TRY(divide_into_stages(out, error));
    return find_machines(out, error);
}

zero_status zr_estimate_make(const zr_estimate_question *question, zr_estimate *out,
                             zero_error *error)
{
    ZERO_TRY(zr_estimate_begin(question, out, error));
    out->at = zr_alloc((size_t)out->stages * sizeof *out->at, error);
    if (!out->at)
        return ZERO_ERR_MEMORY;
    for (int s = 0; s < out->stages; s++)
        out->at[s] = (zr_rank_plan){0};
    for (int s = 0; s < out->stages; s++) {
        ZERO_TRY(zr_estimate_plan(out, s, 0, NULL, &out->at[s], error));
        check_fit(out, s);
    }
    return ZERO_OK;
}

void zr_estimate_free(zr_estimate *r)
{
    for (int s = 0; s < r->stages && r->operations; s++)
        zr_plan_operations_free(&r->operations[s]);
    for (int s = 0; s < r->stages && r->at; s++)
        zr_rank_plan_free(&r->at[s]);
    zr_free(r->operations);
    zr_free(r->at);
    zr_free(r->places);
    zr_run_setup_free(&r->run);
    zr_lm_free(r->whole);
    *r = (zr_estimate){0};
}

static const char *backend_or_cpu(const zr_estimate *r)
{
    return r->question->backend ? r->question->backend : "cpu";
}

static zero_status find_operations(zr_estimate *r, zero_error *error)
{
    if (r->operations)
        return ZERO_OK;
    r->operations = zr_alloc((size_t)r->stages * sizeof *r->operations, error);
    if (!r->operations)
        return ZERO_ERR_MEMORY;
    for (int s = 0; s < r->stages; s++)
        r->operations[s] = (zr_plan_operations){0};
    for (int s = 0; s < r->stages; s++) {
        const zr_plan *plan = r->at[s].plan;
        ZERO_TRY(zr_harness_can_call(plan)
                     ? zr_plan_operations_find(plan, backend_or_cpu(r), &r->operations[s], error)
                     : zr_plan_operations_from_products(plan, &r->operations[s], error));
    }
    return ZERO_OK;
}

// Returns a directory on the disk to which the configuration sends states; NULL: to none.
static const char *first_nvme_directory(const zr_config *config)
{
    const zr_offload_config *o = &config->offload;
    const struct {
        bool uses;
        const zr_paths *paths;
    } uses[] = {{o->optimizer == ZERO_TIER_nvme, &o->optimizer_paths},
                {o->parameters == ZERO_TIER_nvme, &o->parameter_paths},
                {o->activation_checkpoint_tier == ZERO_TIER_nvme, &o->activation_checkpoint_paths}};
    for (int i = 0; i < ZR_COUNT(uses); i++)
        if (uses[i].uses && uses[i].paths->count > 0)
            return uses[i].paths->at[0];
    return NULL;
}

typedef struct asking { // a question, and what it points to
    const zr_plan *plans[ZR_MOST_PIPELINE_STAGES];
    int machines[ZR_MOST_PIPELINE_STAGES];
    zr_rate_book book; // with the speed of the disk
    zr_forecast_question question;
} asking;

// Returns how a group of such a reach exchanges, when all ranks of each machine do at once.
static zr_link_speed link_speed_of_reach(const zr_estimate *r, const zr_rate_book *book,
                                         zr_reach reach)
{
    bool far = reach.strangers > 0;
    int together = ranks_on_one_machine(r->question), machines = far ? r->machines.count : 1;
    const zr_rate_setting setting = zr_link_setting(machines, together, false),
                          one_copy = zr_link_setting(machines, together, true);
    return (zr_link_speed){.rates = zr_rate_book_link(book, &setting),
                           .one_copy = zr_rate_book_link(book, &one_copy),
                           .together = together,
                           .reach = reach};
}

// Finds how ranks of several machines exchange: those of the first pipeline stage, and stages with
// each other.
static zero_status find_links(const zr_estimate *r, asking *out, zero_error *error)
{
    zr_forecast_question *question = &out->question;
    zr_mesh mesh;
    if (r->machines.count <= 1)
        return ZERO_OK;
    ZERO_TRY(mesh_of_stage_rank(r, 0, 0, &mesh, error));
    question->data =
        link_speed_of_reach(r, &out->book, zr_job_reach(&r->machines, &mesh, ZERO_AXIS_data));
    question->tensor =
        link_speed_of_reach(r, &out->book, zr_job_reach(&r->machines, &mesh, ZERO_AXIS_tensor));
    question->pipeline =
        link_speed_of_reach(r, &out->book, zr_job_reach(&r->machines, &mesh, ZERO_AXIS_pipeline));
    question->machines = out->machines;
    for (int s = 0; s < r->stages; s++)
        out->machines[s] = r->machines.of[first_rank_of(r, s)];
    return ZERO_OK;
}

static zero_status fill_forecast_question(zr_estimate *r, const zr_rate_book *book, asking *out,
                                          zero_error *error)
{
    const zr_estimate_question *q = r->question;
    int cores = zr_cpu_budget_get().allowed, together = ranks_on_one_machine(q);
    zr_rate_setting setting;
    ZERO_TRY(find_operations(r, error));
    ZERO_TRY(zr_unit_rates_setting(backend_or_cpu(r), q->config->dtype, q->threads, together,
                                   &setting, error));
    for (int s = 0; s < r->stages; s++)
        out->plans[s] = r->at[s].plan;
    out->book = *book;
    zr_rate_book_use_disk(&out->book, first_nvme_directory(q->config));
    out->question = (zr_forecast_question){
        .plans = out->plans,
        .operations = r->operations,
        .stages = r->stages,
        .book = &out->book,
        .setting = setting,
        .overlaps = zr_wants_overlap(q->config, is_on_one_machine(q), q->threads * together),
        .kv_replicas = together,
        .cores = cores,
    };
    return find_links(r, out, error);
}

zero_status zr_estimate_forecast(zr_estimate *r, const zr_rate_book *book, zr_forecast *out,
                                 zero_error *error)
{
    asking asking;
    ZERO_TRY(fill_forecast_question(r, book, &asking, error));
    return zr_forecast_find(&asking.question, out, error);
}

zero_status zr_estimate_evaluation(zr_estimate *r, const zr_rate_book *book, int64_t micro_batches,
                                   double *out, zero_error *error)
{
    const double most_unknown = 0.5; // of the time
    double unknown;
    asking asking;
    ZERO_TRY(fill_forecast_question(r, book, &asking, error));
    ZERO_TRY(zr_forecast_evaluation(&asking.question, micro_batches, out, &unknown, error));
    *out = unknown <= most_unknown ? *out : 0;
    return ZERO_OK;
}

zero_status zr_estimate_token(zr_estimate *r, const zr_rate_book *book, double *out,
                              zero_error *error)
{
    const double most_unknown = 0.3; // of the time
    const zr_estimate_question *q = r->question;
    const zr_attention_run run = {.first = q->seq / 2, .rows = 1};
    int32_t token = 0;
    int64_t wanted = 0;
    const zr_harness_decode_question decode = {.step = {.runs = &run,
                                                        .run_count = 1,
                                                        .rows = 1,
                                                        .tokens = &token,
                                                        .wanted = &wanted,
                                                        .wanted_count = 1},
                                               .sequences = 1,
                                               .capacity = q->seq};
    zr_plan_operations operations;
    double unknown = 1;
    asking asking;
    *out = 0;
    if (r->stages > 1)
        return ZERO_OK;
    ZERO_TRY(fill_forecast_question(r, book, &asking, error));
    zero_status status =
        zr_plan_operations_decode(r->at[0].plan, backend_or_cpu(r), &decode, &operations, error);
    asking.question.operations = &operations;
    if (status == ZERO_OK)
        status = zr_forecast_evaluation(&asking.question, 1, out, &unknown, error);
    zr_plan_operations_free(&operations);
    *out = status == ZERO_OK && unknown <= most_unknown ? *out : 0;
    return status;
}

// Measures what one pipeline stage does, keeps it for later runs, and adds it to the book.
static zero_status measure_stage(const zr_unit_rates_question *question, zr_rate_book *book,
                                 zero_error *error)
{
    zr_rate_book found = {0};
    zr_busy busy;
    zr_busy_find(zr_cpu_budget_get().allowed, 1, NULL, &busy);
    zero_status status = zr_unit_rates_measure(question, book, &found, error);
    for (int i = 0; i < found.count; i++)
        found.settings[i].quiet = 1 / busy.slowdown;
    zr_rate_book_keep(&found, question->logger);
    if (status == ZERO_OK)
        status = zr_rate_book_merge(book, &found, error);
    zr_rate_book_free(&found);
    return status;
}

zero_status zr_estimate_measure(zr_estimate *r, const zero_logger *logger, zr_rate_book *book,
                                zero_error *error)
{
    const zr_estimate_question *q = r->question;
    int ends = r->stages > 1 ? 2 : 1; // those between have nothing but blocks
    for (int i = 0; i < ends; i++) {
        const zr_unit_rates_question question = {
            .plan = r->at[i ? r->stages - 1 : 0].plan,
            .backend = backend_or_cpu(r),
            .together = ranks_on_one_machine(q),
            .seconds = 1.0 / ends,
            .update = zr_optimizer_update_kind(q->config->optimizer.kind),
            .directory = first_nvme_directory(q->config),
            .logger = logger,
        };
        ZERO_TRY(measure_stage(&question, book, error));
    }
    return ZERO_OK;
}
