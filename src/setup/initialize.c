// From options to an engine: configuration, queue, machine, plan; engine/ does the rest. Called by users and by the jobs of the rooms above.
#include "setup/initialize.h"

#include "base/cpu.h"
#include "comm/agree.h"
#include "layers/layers.h"
#include "model/model_compare.h"
#include "model/unit.h"
#include "observe/observe.h"
#include "setup/defaults.h"
#include "setup/machine_facts.h"
#include "setup/placement.h"
#include "setup/same_inputs.h"
#include "setup/tiling.h"

#include <string.h>

// What the file says of single types replaces what the policy has.
static zr_precision precision_of(const zr_config *config)
{
    zr_precision precision = zr_precision_of(config->dtype, config->accumulation);
    if (config->exact_world)
        precision.gradients = precision.accumulator = ZERO_F32;
    if (config->wire_given)
        precision.gradients = config->wire_dtype;
    if (config->wire_given && config->accumulation == 1)
        precision.accumulator = config->wire_dtype;
    if (config->accumulator_given)
        precision.accumulator = config->accumulator_dtype;
    return precision;
}

// What is on its way from NVMe is as much as the pipeline of section 6.2 (ZeRO-Infinity) has: the visit after the next one to be gathered,
// and one more.
static zr_tiering tiering_of(const zr_offload_config *o, bool inference)
{
    zero_tier optimizer = inference ? ZERO_TIER_device : (zero_tier)o->optimizer;
    int64_t ahead;
    if (__builtin_mul_overflow(o->parameter_buffers, o->parameter_buffer_elems, &ahead))
        ahead = INT64_MAX;
    return (zr_tiering){
        .parameters = (zero_tier)o->parameters,
        .optimizer = optimizer,
        .on_device = 1 - o->ratio,
        .on_host = o->in_host,
        .sub_group = o->sub_group ? o->sub_group : ZR_EACH_PARAMETER,
        .read_ahead = !inference && o->read_ahead && o->optimizer_buffers > 1, // between steps one portion is in memory
        .write_behind = !inference && o->write_behind && o->optimizer_buffers > 2,
        .visits_ahead = 2,
        .elems_ahead = ahead,
        .block = o->block,
        .persistent = o->persistent,
        .persistent_most = o->persistent_most,
        .live = ZR_MAX(o->live, 1), // 0 would be no limit
        .reuse = o->reuse,
    };
}

zr_settings zr_settings_of(const zr_config *config, bool inference)
{
    return (zr_settings){
        .precision = precision_of(config),
        .stage = (int)config->stage,
        .accumulation = config->accumulation,
        .state_vectors = inference ? 0 : zr_optimizer_states(&config->optimizer),
        .delayed = !inference && config->offload.delayed_from > 0,
        .per_tensor_norms = !inference && !zr_optimizer_traits_of(config->optimizer.kind)->elementwise,
        .exact_world = config->exact_world && !inference,
        .decay_all = config->optimizer.decay_all,
        .reduce_bucket = config->reduce_bucket,
        .prefetch_bucket = config->prefetch_bucket,
        .kept_by = config->kept_by,
        .tiering = tiering_of(&config->offload, inference),
        .checkpoints = inference ? 0 : config->offload.checkpoints,
        .checkpoint_tier = inference ? ZERO_TIER_device : (zero_tier)config->offload.checkpoint_tier,
        .inference = inference,
    };
}

// Without these there is nobody to agree with.
static zero_status check_reach(const zero_options *options, zero_error *error)
{
    if (!options)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: options are missing");
    if (options->struct_size != sizeof *options)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: options.struct_size is %zu, this library expects %zu", options->struct_size, sizeof *options);
    return options->comm ? ZERO_OK : zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: options.comm is missing");
}

static zero_status check_options(const zero_options *options, zero_error *error)
{
    if (!options->model)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: options.model is missing");
    if (options->config_path && options->config_text)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: both options.config_path and options.config_text are given");
    if (options->shape.seq < 1 || options->shape.batch < 0)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: options.shape is %lld x %lld; seq must be at least 1, batch 0 (the configuration's) or more",
                       (long long)options->shape.batch, (long long)options->shape.seq);
    return zr_model_check(options->model, error);
}

static zero_status read_config(const zero_options *options, zr_config **out, zero_error *error)
{
    if (options->config_path)
        return zr_config_load(options->config_path, out, error);
    const char *text = options->config_text;
    return zr_config_parse(text, text ? strlen(text) : 0, "config_text", out, error);
}

static zero_status resolve_config(const zero_options *options, zr_config *config, zero_error *error)
{
    const zero_logger *logger = options->comm->rank == 0 ? &options->logger : NULL;
    zr_config_facts facts = {
        .ranks = options->comm->size,
        .micro_batch = options->shape.batch,
        .total_steps = options->total_steps,
        .warmup_steps = options->total_steps ? zr_default_warmup(options->total_steps) : 0,
        .lr = zr_default_lr(zr_model_parameters(options->model)),
        .auto_dtype = zr_default_dtype(),
    };
    ZERO_TRY(zr_config_defaults_apply(config, &facts, logger, error));
    ZERO_TRY(zr_config_resolve(config, &facts, logger, error));
    ZERO_TRY(zr_config_check_length(config, options->total_steps, error));
    if (options->shape.batch && config->micro_batch != options->shape.batch)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_initialize: options.shape.batch is %lld, the configuration's micro-batch %lld",
                       (long long)options->shape.batch, (long long)config->micro_batch);
    return ZERO_OK;
}

// What the configuration leaves to the program is settled on a second reading of it.
static zero_status place(const zero_options *options, zr_config **config, zero_error *error)
{
    zr_placement_answer answer;
    zr_config *again = NULL;
    zr_buffer text = {0};
    ZERO_TRY(zr_placement_of(options, NULL, *config, &answer, error));
    zr_placement_describe(&answer, answer.chosen < 0 ? "; " : ZR_PLACEMENT_LINES, &text);
    zero_status status = text.failed ? ZERO_ERR_MEMORY : ZERO_OK;
    if (status == ZERO_OK && answer.chosen < 0)
        status = zr_fail(error, ZERO_ERR_LIMIT, "planning %s with libzero.offload auto: %s", options->model->name, text.data);
    else if (status == ZERO_OK && options->comm->rank == 0)
        zr_log(&options->logger, ZERO_LOG_INFO, "offload  auto: %s", text.data);
    zr_buffer_free(&text);
    if (status == ZERO_OK)
        status = read_config(options, &again, error);
    if (status == ZERO_OK)
        status = zr_placement_apply(&answer.at[answer.chosen], *config, again, error);
    if (status == ZERO_OK)
        status = resolve_config(options, again, error);
    zr_config_destroy(*config);
    *config = again;
    return zr_comm_agree(options->comm, status, error);
}

// A copy of the weights on each machine is shared by all its ranks.
static zero_status check_machines(const zr_settings *settings, const zero_comm *comm, zero_error *error)
{
    if (settings->stage < 3 || comm->versions || settings->kept_by <= 1 || settings->kept_by == comm->machine_ranks)
        return ZERO_OK;
    if (comm->machine_ranks <= 1)
        return zr_fail(error, ZERO_ERR_CONFIG, "zero_optimization.zero_hpz_partition_size is %lld, but a machine here has one rank, or its ranks cannot map each other's memory: it has to be 1",
                       (long long)settings->kept_by);
    return zr_fail(error, ZERO_ERR_CONFIG, "zero_optimization.zero_hpz_partition_size is %lld, but %d ranks share the memory of a machine here: it has to be %d, or 1 for no copy of the weights",
                   (long long)settings->kept_by, comm->machine_ranks, comm->machine_ranks);
}

zero_status zr_plan_of(const zero_options *options, const zr_config *config, zr_queue *queue, zr_machine *machine, zr_plan **out, zero_error *error)
{
    zr_machine_fill(queue, options->comm, machine);
    zr_machine_limit(machine, &config->offload, zr_local_ranks(options->comm));
    zr_settings settings = zr_settings_of(config, options->inference);
    ZERO_TRY(check_machines(&settings, options->comm, error));
    zero_shape shape = {.batch = options->inference && options->shape.batch ? options->shape.batch : config->micro_batch,
                        .seq = options->shape.seq, .threads = queue->threads, .dtype = config->dtype};
    return zr_plan_create(options->model, &shape, &settings, machine, out, error);
}

static zero_status make_plan(const zero_options *options, const zr_config *config, zr_queue *queue, zr_plan **out, zero_error *error)
{
    zr_machine machine;
    ZERO_TRY(zr_plan_of(options, config, queue, &machine, out, error));
    return zr_plan_check_memory(*out, &machine, error);
}

// Who exchanges by messages always gains from doing so meanwhile; who reads its peers' memory needs a core for it.
static bool wants_overlap(const zr_config *config, const zero_comm *comm, int threads)
{
    const zr_setting *said = zr_config_setting(config, "zero_optimization.overlap_comm");
    if (said && json_is_boolean(said->value))
        return json_is_true(said->value);
    return !comm->versions || zr_cpu_budget_get().allowed > threads * comm->size;
}

static zr_nvme_options nvme_of(const zr_offload_config *o, const zr_io_faults *faults)
{
    return (zr_nvme_options){
        .paths = {[ZR_SCRATCH_PARAMETERS] = {o->parameter_paths.at, o->parameter_paths.count},
                  [ZR_SCRATCH_STATES] = {o->optimizer_paths.at, o->optimizer_paths.count},
                  [ZR_SCRATCH_CHECKPOINTS] = {o->checkpoint_paths.at, o->checkpoint_paths.count}},
        .queue_depth = (int)o->queue_depth, .lanes = (int)o->lanes, .single_submit = o->single_submit, .overlap_events = o->overlap_events,
        .faults = faults,
    };
}

zero_status zr_engine_make(const zero_options *options, zr_config *config, const zr_io_faults *faults, zero_engine **out, zero_error *error)
{
    zr_queue *queue = NULL;
    zr_plan *plan = NULL;
    zr_lm_changes changes = 0;
    *out = NULL;
    zero_status status = zr_queue_open(options->backend ? options->backend : "cpu", NULL, ZR_MAX(options->threads, 1), &queue, error);
    if (status == ZERO_OK)
        status = zr_tiling_check(config, options->model, error);
    if (status == ZERO_OK)
        status = zr_lm_changes_parse(options->allow_change, &changes, error);
    if (status == ZERO_OK)
        status = make_plan(options, config, queue, &plan, error);
    if (status == ZERO_OK && options->comm->size > 1 && wants_overlap(config, options->comm, queue->threads))
        status = zr_comm_overlap(options->comm, error);
    status = zr_comm_agree(options->comm, status, error);
    if (status != ZERO_OK) {
        zr_plan_destroy(plan);
        zr_queue_close(queue);
        zr_config_destroy(config);
        return status;
    }
    zr_comm_say_need(options->comm, zr_plan_total_bytes(plan));
    zr_engine_parts parts = {.plan = plan, .config = config, .queue = queue, .comm = options->comm, .seed = options->seed, .logger = options->logger,
                             .changes = changes, .nvme = nvme_of(&config->offload, faults)};
    return zr_engine_create(&parts, out, error);
}

static zero_status compare_ranks(const zero_options *options, const zr_config *config, zero_error *error)
{
    zr_fingerprints list = {0};
    const zr_lm_config *model = zr_lm_config_of(options->model); // another's has its tensors compared, in the plans
    if (options->comm->size == 1)
        return ZERO_OK;
    zr_same_number(&list, "options.seed", (int64_t)options->seed);
    zr_same_number(&list, "options.shape.seq", options->shape.seq);
    zr_same_config(&list, config);
    if (model)
        zr_same_model(&list, model);
    return zr_comm_compare_fingerprints(options->comm, &list, error);
}

zero_status zr_initialize(const zero_options *options, const zr_io_faults *faults, zero_engine **out, zero_error *error)
{
    zr_config *config = NULL;
    *out = NULL;
    ZERO_TRY(check_reach(options, error));
    zero_status status = check_options(options, error);
    if (status == ZERO_OK)
        status = read_config(options, &config, error);
    if (status == ZERO_OK)
        status = resolve_config(options, config, error);
    status = zr_comm_agree(options->comm, status, error);
    if (status == ZERO_OK)
        status = compare_ranks(options, config, error);
    if (status != ZERO_OK) {
        zr_config_destroy(config);
        return status;
    }
    if (config->offload.automatic && !options->inference)
        status = place(options, &config, error);
    if (status != ZERO_OK) {
        zr_config_destroy(config);
        return status;
    }
    zr_observation *observation;
    ZERO_TRY(zr_engine_make(options, config, faults, out, error));
    status = zr_observe(*out, &options->logger, (zr_step_range){0}, &observation, error);
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
