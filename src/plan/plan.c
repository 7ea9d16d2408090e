// zr_plan_create makes the parts of a plan, each by a pure function of those before it.
#include "base/random.h"
#include "base/traffic.h"
#include "model/pipeline_stage_cut.h"
#include "model/unit.h"
#include "plan/exchanges.h"
#include "plan/pipeline/tied_weights.h"
#include "plan/plan_parts.h"
#include "plan/settings_fields.h"
#include "plan/stage_traits.h"

#include <string.h>

bool zr_plan_whole_gradients(const zr_plan *plan)
{
    return !zr_stage_traits_of(plan->settings.stage)->shards_gradients;
}

static uint64_t mix_values(uint64_t hash, const int64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = zr_message_fold(hash, 0, 0, values[i]);
    return hash;
}

// Mixes integers into a hash, in their order.
#define MIX(hash, ...)                                                                             \
    mix_values(hash, (const int64_t[]){__VA_ARGS__},                                               \
               sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

// Hashes how a pipeline is cut, and in which order its stages work.
static uint64_t pipeline_hash(const zr_pipeline_part *part, uint64_t hash)
{
    const zr_pipeline *pipeline = &part->pipeline;
    hash = MIX(hash, pipeline->kind, pipeline->stages, pipeline->chunks);
    for (int i = 0; i <= pipeline->stages * pipeline->chunks; i++)
        hash = MIX(hash, part->first_unit[i]);
    return MIX(hash, part->exact, part->checkpoint_interval, pipeline->micro_batches,
               pipeline->steps);
}

// Hashes what does not depend on the part of the model that a rank holds.
static uint64_t common_hash(const zr_plan *plan)
{
    uint64_t hash = MIX(ZR_MESSAGE_SEED, plan->ranks, plan->mapped, plan->machine_ranks);
    hash = zr_settings_hash(&plan->settings, hash);
    if (plan->pipeline)
        hash = pipeline_hash(plan->pipeline, hash);
    return MIX(hash, plan->shape.batch, plan->shape.seq, plan->shape.threads);
}

// Hashes what all ranks of a job must agree on: settings and shape, the tensors of the whole model,
// and what tensor ranks exchange.
static uint64_t job_hash(const zr_plan *plan)
{
    const zero_model *whole = plan->model->whole ? plan->model->whole : plan->model;
    uint64_t hash = MIX(common_hash(plan), plan->tensor_ranks);
    for (int u = 0; u < whole->unit_count; u++)
        for (int p = 0; p < whole->units[u].flat_param_count; p++) {
            const zero_flat_param_desc *flat_param = &whole->units[u].flat_params[p];
            for (int t = 0; t < flat_param->tensor_count; t++)
                hash = MIX(hash, zr_tensor_desc_elements(&flat_param->tensors[t]),
                           (int64_t)zr_hash_text(flat_param->tensors[t].name));
        }
    for (int i = 0; i < ZR_PASSES && !plan->pipeline; i++)
        hash = MIX(hash, (int64_t)plan->traffic[i].tensor.hash,
                   (int64_t)plan->traffic[i].replicas.hash);
    return hash;
}

// Hashes which part of a whole model a flat parameter has: tiles may have their whole's name and
// one size.
static uint64_t part_hash(const zr_flat_param *flat_param, uint64_t hash)
{
    hash = MIX(hash, flat_param->replicas);
    for (int t = 0; t < flat_param->tensor_count; t++) {
        const zero_tensor_desc *tensor = flat_param->tensors[t].desc;
        hash = MIX(hash, flat_param->tensors[t].number, tensor->tp_parts);
        if (tensor->tile.whole)
            hash = MIX(hash, tensor->tile.axis, tensor->tile.first);
    }
    return hash;
}

// Hashes what the data ranks that hold the same part must agree on before the first message.
static uint64_t plan_hash(const zr_plan *plan)
{
    uint64_t hash = common_hash(plan);
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        hash = MIX(hash, flat_param->shard, flat_param->grad_first, flat_param->kind);
        for (int t = 0; t < flat_param->tensor_count; t++)
            hash = MIX(hash, flat_param->tensors[t].count,
                       (int64_t)zr_hash_text(flat_param->tensors[t].desc->name));
        if (plan->model->whole)
            hash = part_hash(flat_param, hash);
    }
    for (int i = 0; i < ZR_PASSES; i++)
        hash = MIX(hash, (int64_t)plan->traffic[i].data.hash, plan->traffic[i].data.messages);
    return hash;
}

// Rejects another tier for states that the stage does not partition, because every rank would keep
// a copy of them there.
static zero_status check_tiers(const zero_model *model, const zr_settings *settings,
                               zero_error *error)
{
    const zr_stage_traits *traits = zr_stage_traits_of(settings->stage);
    if (settings->tiering.parameters != ZERO_TIER_device && !traits->shards_parameters)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "planning %s: stage %d with parameters on %s (offload_param); they are "
                       "partitioned at stage 3 alone",
                       model->name, settings->stage,
                       settings->tiering.parameters == ZERO_TIER_nvme ? "NVMe" : "the host");
    if (settings->tiering.optimizer != ZERO_TIER_device && !traits->shards_optimizer)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "planning %s: stage %d with optimizer states on %s (offload_optimizer); "
                       "they are partitioned at stages 1 to 3",
                       model->name, settings->stage,
                       settings->tiering.optimizer == ZERO_TIER_nvme ? "NVMe" : "the host");
    return ZERO_OK;
}

// Checks that there can be one tree over micro-batches and ranks without a sum that is rounded to
// 16 bits.
static zero_status check_exact_world_tree(const zero_model *model, const zr_settings *settings,
                                          const zr_machine *machine, zero_error *error)
{
    if (!settings->exact_world || settings->inference)
        return ZERO_OK;
    if (settings->precision.gradients != ZERO_F32 || settings->precision.accumulator != ZERO_F32)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "planning %s with exact_world: gradients of 16 bits on the wire or in their "
                       "sum; they have to be fp32",
                       model->name);
    if (ZR_IS_POWER_OF_TWO(machine->ranks) && ZR_IS_POWER_OF_TWO(settings->accumulation))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "planning %s with exact_world: %d ranks, %lld micro-batches each; one tree over "
                   "all of them needs powers of two",
                   model->name, machine->ranks, (long long)settings->accumulation);
}

static zero_status check_shape(const zero_model *model, const zero_shape *shape, zero_error *error)
{
    long long batch = shape->batch, seq = shape->seq;
    if (batch < 1 || seq < 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "planning %s: micro-batch %lld x %lld must be at least 1 x 1", model->name,
                       batch, seq);
    if (batch > ZR_MOST_POSITIONS / seq)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "planning %s: micro-batch %lld x %lld: at most %lld positions can be addressed",
            model->name, batch, seq, (long long)ZR_MOST_POSITIONS);
    return ZERO_OK;
}

static void plan_begin(zr_plan *plan, const zero_model *model, const zero_shape *shape,
                       const zr_settings *settings, const zr_machine *machine)
{
    const zr_stage_traits *traits = zr_stage_traits_of(settings->stage);
    plan->model = model;
    plan->settings = *settings;
    plan->shape = *shape;
    plan->shape.dtype = settings->precision.parameters;
    if (!traits->shards_parameters)
        plan->settings.weight_bits = plan->settings.frozen_bits = 0;
    if (!traits->shards_optimizer)
        plan->settings.gradient_bits = plan->settings.carries = 0;
    plan->ranks = machine->ranks;
    plan->tensor_ranks = ZR_MAX(machine->tensor_ranks, 1);
    plan->tensor_rank = machine->tensor_rank;
    plan->pipeline = machine->pipeline;
    plan->world =
        plan->ranks * plan->tensor_ranks * (plan->pipeline ? plan->pipeline->pipeline.stages : 1);
    // Tensor ranks of a model without a split do not exchange anything.
    plan->checkpoint_shares =
        settings->partition_activations && zr_pipeline_stage_origin(model)->whole
            ? plan->tensor_ranks
            : 1;
    plan->far = machine->far;
    plan->backend = machine->backend;
    plan->runtime_bytes = machine->runtime_bytes;
    plan->mapped = machine->mapped &&
                   (!traits->shards_parameters || settings->tiering.parameters == ZERO_TIER_device);
    plan->holding = !traits->shards_parameters ? ZR_HOLDS_TIED_COPIES
                    : plan->mapped             ? ZR_HOLDS_A_MAP
                                               : ZR_HOLDS_SHARDS;
    plan->updates_whole = !traits->shards_optimizer;
    plan->gradient_window_is =
        zr_plan_whole_gradients(plan) ? ZERO_MEM_gradients : ZERO_MEM_communication;
    plan->machine_ranks = machine->mapped ? machine->ranks : ZR_MAX(machine->machine_ranks, 1);
}

// Returns the first unit of the whole model that has a buffer; NULL if there is none.
static const zero_unit *unit_with_buffer(const zero_model *model)
{
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++)
            if (model->units[u].flat_params[p].kind == ZERO_BUFFER)
                return &model->units[u];
    return NULL;
}

// Rejects what has no meaning with several versions of the parameters; all pipeline stages decide
// the same.
static zero_status check_versions(const zr_plan *plan, zero_error *error)
{
    const zero_model *model = zr_pipeline_stage_origin(plan->model);
    const zero_unit *buffered = unit_with_buffer(model);
    const char *schedule = zr_pipeline_kind_name(zr_plan_schedule(plan));
    if (!zr_plan_is_asynchronous(plan))
        return ZERO_OK;
    if (buffered)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "planning %s with schedule %s: unit \"%s\" has a buffer, which every step "
                       "reads and writes, and here steps overlap; a synchronous schedule would do "
                       "(1f1b)",
                       model->name, schedule, buffered->name);
    if (plan->settings.kept_by > 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "planning %s with schedule %s: %lld ranks keep gathered parameters "
                       "(zero_hpz_partition_size) until they change, and here %d versions are "
                       "read in turn: expected 1",
                       model->name, schedule, (long long)plan->settings.kept_by, plan->versions);
    if (plan->settings.tiering.parameters != ZERO_TIER_device)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "planning %s with schedule %s: %d versions of the parameters stay on the "
                       "device: expected no offload_param",
                       model->name, schedule, plan->versions);
    return ZERO_OK;
}

static zero_status make_parts(zr_plan *plan, const zr_machine *machine, zero_error *error)
{
    bool keep_all = !machine->mapped && plan->settings.kept_by > 1;
    ZERO_TRY(zr_model_replicas(plan->model, plan->tensor_ranks, &plan->replicas, error));
    ZERO_TRY(zr_plan_tied_weights_list(plan, error));
    ZERO_TRY(zr_plan_flat_params(plan, error));
    ZERO_TRY(zr_plan_factors(plan, error));
    ZERO_TRY(zr_plan_chunks(plan, error));
    ZERO_TRY(check_versions(plan, error));
    ZERO_TRY(zr_plan_units(plan, error));
    zr_plan_activations(plan);
    ZERO_TRY(zr_plan_visits(plan, error));
    zr_plan_gathers(plan, keep_all);
    ZERO_TRY(zr_plan_reductions(plan, error));
    ZERO_TRY(zr_plan_groups(plan, error));
    ZERO_TRY(zr_plan_muon(plan, machine, error));
    ZERO_TRY(zr_plan_program(plan, error));
    zr_plan_fold(plan);
    zr_plan_footprint(plan, machine);
    plan->job_hash = job_hash(plan);
    plan->hash = plan_hash(plan);
    return ZERO_OK;
}

zero_status zr_plan_create(const zero_model *model, const zero_shape *shape,
                           const zr_settings *settings, const zr_machine *machine, zr_plan **out,
                           zero_error *error)
{
    ZERO_TRY(zr_model_check(model, error));
    if (model->whole)
        ZERO_TRY(zr_model_check(model->whole, error));
    ZERO_TRY(check_tiers(model, settings, error));
    ZERO_TRY(check_exact_world_tree(model, settings, machine, error));
    ZERO_TRY(check_shape(model, shape, error));
    zr_plan *plan = zr_alloc(sizeof *plan, error);
    if (!plan)
        return ZERO_ERR_MEMORY;
    plan_begin(plan, model, shape, settings, machine);
    zero_status status = make_parts(plan, machine, error);
    if (status != ZERO_OK) {
        zr_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return ZERO_OK;
}

void zr_plan_destroy(zr_plan *plan)
{
    if (!plan)
        return;
    for (int p = 0; p < plan->flat_param_count; p++)
        zr_free(plan->flat_params[p].tensors);
    for (int u = 0; u < plan->unit_count && plan->units; u++)
        zr_free(plan->units[u].flat_params);
    zr_program_destroy(&plan->program);
    zr_free(plan->flat_params);
    zr_free(plan->units);
    zr_free(plan->sealed);
    zr_free(plan->visits);
    zr_free(plan->shard_slices);
    zr_free(plan->actions);
    zr_free(plan->links);
    zr_free(plan->tied_weights);
    zr_free(plan->groups);
    zr_free(plan->matrices);
    zr_free(plan->factors);
    zr_free(plan);
}
