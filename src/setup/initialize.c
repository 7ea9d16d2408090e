// From options to an engine: this makes configuration, queue, machine and plan; engine/ does the
// rest. Called by users and by the jobs of the rooms above.
#include "setup/initialize.h"

#include "base/cpu.h"
#include "base/errors.h"
#include "comm/agreement.h"
#include "comm/communicator.h"
#include "config/config_ranks.h"
#include "layers/layers.h"
#include "model/architecture.h"
#include "model/pipeline_stage_cut.h"
#include "model/unit.h"
#include "monitor/observe.h"
#include "plan/exchanges.h"
#include "setup/backend_choice.h"
#include "setup/machine_facts.h"
#include "setup/model_lora.h"
#include "setup/model_part.h"
#include "setup/model_preference.h"
#include "setup/model_task.h"
#include "setup/pipeline_stages.h"
#include "setup/placement.h"
#include "setup/resolve.h"
#include "setup/input_fingerprints.h"
#include "setup/topology.h"

#include <string.h>

// Fails without agreeing with other ranks, because without options or comm there are none to reach.
static zero_status take_options(const zero_options *options, zero_options *out, zero_error *error)
{
    if (!options)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: options are missing");
    ZERO_TRY(zr_struct_take("zero_initialize: options", options,
                            ZR_STRUCT_UPTO(zero_options, allow_change), out, sizeof *out, error));
    return out->comm ? ZERO_OK
                     : zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: options.comm is missing");
}

static zero_status check_options(const zero_options *options, zero_error *error)
{
    if (!options->model)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: options.model is missing");
    if (options->config_path && options->config_text)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "zero_initialize: both options.config_path and options.config_text are given");
    if (options->shape.seq < 1 || options->shape.batch < 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_initialize: options.shape is %lld x %lld; seq must be at least 1, "
                       "batch 0 (the configuration's) or more",
                       (long long)options->shape.batch, (long long)options->shape.seq);
    return zr_model_check(options->model, error);
}

static zr_resolution describe_resolution(const zero_options *options, const zr_trial *trial)
{
    const zero_model *model = options->model;
    const int64_t parameters = zr_model_parameters(model->whole ? model->whole : model);
    zr_resolution how = {
        .name = options->config_path ? options->config_path : "config_text",
        .facts =
            zr_resolve_facts(&(zr_run_outline){.ranks = options->comm->size,
                                               .parameters = parameters,
                                               .steps = options->total_steps,
                                               .on_card = zr_backend_is_card(options->backend)}),
        .logger = options->comm->rank == 0 ? &options->logger : NULL,
    };
    how.facts.micro_batch = options->shape.batch;
    if (trial)
        how.facts.parallel = trial->parallel;
    return how;
}

static zero_status check_config(const zero_options *options, const zr_config *config,
                                zero_error *error)
{
    ZERO_TRY(zr_config_check_schedule(config, error));
    ZERO_TRY(zr_config_check_length(config, options->total_steps, error));
    if (options->shape.batch && config->micro_batch != options->shape.batch)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "zero_initialize: options.shape.batch is %lld, the configuration's micro-batch %lld",
            (long long)options->shape.batch, (long long)config->micro_batch);
    return ZERO_OK;
}

typedef struct making { // what an engine is created from
    const zero_options *options;
    zr_run_setup run;
    zr_rank_plan rank; // this one's
    zr_grid grid;
    zr_queue *queue;
    zr_lm_changes changes;
} making;

static zero_status make_plan(making *m, zero_error *error)
{
    const zr_grid *grid = &m->grid;
    zr_rank_question question = {.stage = grid->mesh.place[ZERO_AXIS_pipeline],
                                 .mapped = grid->pipeline && grid->pipeline->versions};
    zr_machine *machine = &question.machine;
    zr_machine_fill(m->queue, m->options->comm, machine);
    zr_machine_take_groups(grid, machine);
    zr_machine_set_limit(machine, &m->run.config->offload, zr_local_ranks(m->options->comm));
    ZERO_TRY(zr_run_setup_plan(&m->run, &question, &m->rank, error));
    return zr_plan_check_memory(m->rank.plan, &m->rank.machine, error);
}

static zr_nvme_options nvme_options_of_config(const zr_offload_config *o,
                                              const zr_io_faults *faults)
{
    return (zr_nvme_options){
        .paths = {[ZR_SCRATCH_PARAMETERS] = {o->parameter_paths.at, o->parameter_paths.count},
                  [ZR_SCRATCH_STATES] = {o->optimizer_paths.at, o->optimizer_paths.count},
                  [ZR_SCRATCH_ACTIVATION_CHECKPOINTS] = {o->activation_checkpoint_paths.at,
                                                         o->activation_checkpoint_paths.count}},
        .queue_depth = (int)o->queue_depth,
        .lanes = (int)o->lanes,
        .single_submit = o->single_submit,
        .overlap_events = o->overlap_events,
        .faults = faults,
    };
}

// Prepares what each rank can do without the others.
static zero_status prepare_queue_and_plan(making *m, zero_error *error)
{
    const zero_options *options = m->options;
    zr_backend_configure(m->run.config);
    ZERO_TRY(zr_said_queue_open(options->backend, ZR_MAX(options->threads, 1), &m->queue, error));
    ZERO_TRY(zr_model_tiles_check(m->run.config, m->run.part.model, error));
    ZERO_TRY(zr_model_lora_check(m->run.config, m->run.part.model, error));
    ZERO_TRY(zr_model_preference_check(m->run.config, m->run.part.model, error));
    ZERO_TRY(zr_model_task_check(m->run.config, m->run.part.model, error));
    ZERO_TRY(zr_lm_changes_parse(options->allow_change, &m->changes, error));
    ZERO_TRY(make_plan(m, error));
    if (m->grid.data->size > 1 && zr_wants_overlap(m->run.config, options->comm->versions != NULL,
                                                   m->queue->threads * options->comm->size))
        return zr_comm_overlap(m->grid.data, error);
    return ZERO_OK;
}

static zero_status make_part(making *m, const zr_trial *trial, zero_error *error)
{
    const zero_options *options = m->options;
    if (trial && trial->unsplit) {
        m->run.part.model = options->model;
        return ZERO_OK;
    }
    return zr_run_setup_part(&m->run, options->comm->rank % m->run.config->tensor, error);
}

// Makes the communicator this engine's, and splits it. A split is collective, so all ranks agree to
// it before.
static zero_status attach_comm_and_make_grid(making *m, const zr_trial *trial, bool *attached,
                                             zero_error *error)
{
    const zero_options *options = m->options;
    int tensor = m->run.config->tensor, replicas = 0;
    zero_status status = zr_comm_attach(options->comm, ZR_MAX(options->threads, 1), error);
    *attached = status == ZERO_OK;
    if (*attached)
        zr_comm_report_multiple(options->comm, zr_config_model_ranks(m->run.config));
    if (status == ZERO_OK)
        status = make_part(m, trial, error);
    if (tensor > 1) {
        if (status == ZERO_OK)
            status = zr_model_replicas(m->run.part.model, tensor, &replicas, error);
        ZERO_TRY(zr_comm_agree(options->comm, status, error));
    }
    return status == ZERO_OK ? zr_grid_create(options->comm, tensor, replicas,
                                              m->run.config->pipeline.stages, &m->grid, error)
                             : status;
}

// Returns the bytes that every rank may hold.
static zero_status least_memory(const making *m, int64_t *out, zero_error *error)
{
    char reason[128];
    zero_comm *world = m->options->comm;
    int64_t budget = m->run.config->offload.device_memory;
    *out = zr_memory_available(reason, sizeof reason) / zr_local_ranks(world);
    if (budget > 0)
        *out = ZR_MIN(*out, budget);
    return zr_comm_all_reduce_small(world, out, 1, ZERO_I64, ZR_MIN, error);
}

// All ranks find the same division.
static zero_status divide_units(making *m, zero_error *error)
{
    int64_t limit;
    if (m->run.config->pipeline.stages <= 1)
        return ZERO_OK;
    ZERO_TRY(least_memory(m, &limit, error));
    return zr_run_setup_divide(&m->run, limit, error);
}

zero_status zr_engine_make(const zero_options *options, zr_config *config, const zr_trial *trial,
                           zero_engine **out, zero_error *error)
{
    making m = {.options = options,
                .run = {.config = config,
                        .model = options->model,
                        .name = options->model->name,
                        .shape = zr_run_shape(config, options->shape.batch, options->shape.seq,
                                              ZR_MAX(options->threads, 1)),
                        .inference = options->inference}};
    bool attached;
    *out = NULL;
    zero_status status = attach_comm_and_make_grid(&m, trial, &attached, error);
    if (status == ZERO_OK)
        status = divide_units(&m, error);
    if (status == ZERO_OK)
        status = prepare_queue_and_plan(&m, error);
    status = zr_comm_agree(options->comm, status, error);
    if (status == ZERO_OK && !options->inference)
        status = zr_topology_warn(&m.grid, m.rank.plan, &options->logger, error);
    if (status == ZERO_OK)
        zr_topology_note_codes(&m.grid, m.rank.plan, &options->logger);
    if (status != ZERO_OK) {
        zr_grid_destroy(&m.grid);
        if (attached)
            zr_comm_detach(options->comm);
        zr_rank_plan_free(&m.rank);
        zr_run_setup_free(&m.run);
        zr_queue_close(m.queue);
        zr_config_destroy(config);
        return status;
    }
    zr_pipeline_stages_free(m.run.division); // the rank has its own copy
    zr_comm_report_need(options->comm, zr_plan_total_bytes(m.rank.plan));
    const zr_engine_parts parts = {
        .plan = m.rank.plan,
        .part = m.run.part.made,
        .stage = m.rank.model,
        .pipeline = m.rank.pipeline,
        .config = config,
        .queue = m.queue,
        .grid = m.grid,
        .seed = options->seed,
        .logger = options->logger,
        .changes = m.changes,
        .nvme = nvme_options_of_config(&config->offload, trial ? trial->faults : NULL),
    };
    return zr_engine_create(&parts, out, error);
}

static zero_status compare_ranks(const zero_options *options, const zr_config *config,
                                 zero_error *error)
{
    zr_fingerprints list = {0};
    // NULL for a user's own model, whose tensors are compared with the plans.
    const zr_lm_config *model = zr_lm_config_of(options->model);
    if (options->comm->size == 1)
        return ZERO_OK;
    zr_fingerprint_number(&list, "options.seed", (int64_t)options->seed);
    zr_fingerprint_number(&list, "options.shape.seq", options->shape.seq);
    zr_fingerprint_config(&list, config);
    if (model)
        zr_fingerprint_model(&list, model);
    return zr_comm_compare_fingerprints(options->comm, &list, error);
}

// Resolves the configuration of options.config_path or options.config_text, which must be the same
// on all ranks. Collective.
static zero_status resolve_agreed_config(const zero_options *options, const zr_trial *trial,
                                         zr_config **config, zero_error *error)
{
    zr_resolution how = {0};
    char *file = NULL;
    size_t length = 0;
    zero_status status = check_options(options, error);
    if (status == ZERO_OK)
        status = zr_resolve_text(options->config_path, &file, &length, error);
    if (status == ZERO_OK) {
        const char *text = file ? file : options->config_text;
        how = describe_resolution(options, trial);
        how.text = text;
        how.length = file ? length : text ? strlen(text) : 0;
        status = zr_resolve(&how, config, error);
    }
    if (status == ZERO_OK)
        status = check_config(options, *config, error);
    status = zr_comm_agree(options->comm, status, error);
    if (status == ZERO_OK)
        status = compare_ranks(options, *config, error);
    if (status == ZERO_OK && !options->inference)
        status = zr_placement_settle(&how, options, NULL, config, error);
    zr_free(file);
    return status;
}

zero_status zr_initialize(const zero_options *options, const zr_trial *trial, zero_engine **out,
                          zero_error *error)
{
    zr_config *config = NULL;
    zr_observation *observation;
    *out = NULL;
    zero_options taken;
    ZERO_TRY(take_options(options, &taken, error));
    options = &taken;
    zero_status status = resolve_agreed_config(options, trial, &config, error);
    if (status != ZERO_OK) {
        zr_config_destroy(config);
        return status;
    }
    ZERO_TRY(zr_engine_make(options, config, trial, out, error));
    status = zr_observe(*out, &options->logger, (zr_step_range){0}, NULL, &observation, error);
    if (status != ZERO_OK) {
        zero_destroy(*out);
        *out = NULL;
    }
    return status;
}

zero_status zero_initialize(const zero_options *options, zero_engine **out, zero_error *error)
{
    ZR_NEED(error, out);
    return zr_initialize(options, NULL, out, error);
}
