// Flat parameters, shards and units (contract 1): who owns what, and where it lies.
#include "base/dtype.h"
#include "model/pipeline_stage_cut.h"
#include "model/unit.h"
#include "plan/plan_parts.h"
#include "plan/pipeline/tied_weights.h"
#include "plan/stage_traits.h"

#include <stdio.h>

int64_t zr_plan_tensor_parameters(const zr_flat_param *flat_param, const zr_plan_tensor *tensor)
{
    return zr_tensor_parameters(flat_param->kind, tensor->desc);
}

static int flat_param_number(const zr_plan *plan, zero_flat_param_ref ref)
{
    int number = ref.flat_param;
    for (int u = 0; u < ref.unit; u++)
        number += plan->model->units[u].flat_param_count;
    return number;
}

static zero_status lay_tensors(zr_plan *plan, zr_flat_param *flat_param,
                               const zero_flat_param_desc *desc, zero_error *error)
{
    flat_param->tensor_count = desc->tensor_count;
    flat_param->tensors = zr_alloc(sizeof *flat_param->tensors * (size_t)desc->tensor_count, error);
    if (!flat_param->tensors)
        return ZERO_ERR_MEMORY;
    int64_t align = zr_tensor_align(&plan->settings);
    for (int t = 0; t < desc->tensor_count; t++) {
        zr_plan_tensor *tensor = &flat_param->tensors[t];
        tensor->desc = &desc->tensors[t];
        tensor->first = ZR_ROUND_UP(flat_param->elems, align);
        tensor->count = zr_tensor_desc_elements(tensor->desc);
        tensor->decays =
            desc->kind == ZERO_TRAINABLE && (plan->settings.decay_all || tensor->desc->dims >= 2);
        flat_param->elems = tensor->first + tensor->count;
        if (flat_param->elems > ZR_MOST_ELEMS - plan->elems)
            return zr_fail(error, ZERO_ERR_USAGE,
                           "planning %s: with tensor \"%s\" the model has more than %lld elements",
                           plan->model->name, tensor->desc->name, (long long)ZR_MOST_ELEMS);
    }
    return ZERO_OK;
}

static int bits_of_weights(const zr_plan *plan, zero_class kind)
{
    return kind == ZERO_TRAINABLE ? plan->settings.weight_bits
           : kind == ZERO_FROZEN  ? plan->settings.frozen_bits
                                  : 0;
}

// Chooses the types of a flat parameter.
static void choose_types(const zr_plan *plan, zr_flat_param *flat_param)
{
    const zr_precision *precision = &plan->settings.precision;
    bool buffer = flat_param->kind == ZERO_BUFFER;
    flat_param->dtype = zr_class_dtype(flat_param->kind, precision->parameters);
    flat_param->gradient_dtype = buffer ? ZERO_F32 : precision->gradients;
    flat_param->accumulator_dtype = buffer ? ZERO_F32 : precision->accumulator;
    flat_param->weight_bits = bits_of_weights(plan, flat_param->kind);
    flat_param->coded = flat_param->weight_bits && plan->holding == ZR_HOLDS_SHARDS;
    flat_param->gradient_bits = buffer ? 0 : plan->settings.gradient_bits;
}

// Returns the tier of a flat parameter whose kind is kept there: what is tied stays in memory,
// because shards of it are exchanged there.
static zero_tier tier_unless_tied(const zr_plan *plan, const zr_flat_param *flat_param,
                                  zero_tier tier)
{
    return zr_flat_param_is_tied(plan, flat_param) ? ZR_MIN(tier, ZERO_TIER_host) : tier;
}

// Returns where a flat parameter's parameters are kept. Running statistics stay on the device,
// because they are few and every step writes them. Where parameters are on NVMe, the first
// tiering.on_host elements stay on the host.
static zero_tier parameter_tier(const zr_plan *plan, const zr_flat_param *flat_param)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    if (!zr_stage_traits_of(plan->settings.stage)->shards_parameters ||
        flat_param->kind == ZERO_BUFFER)
        return ZERO_TIER_device;
    if (tiering->parameters == ZERO_TIER_nvme &&
        plan->elems + flat_param->padded <= tiering->on_host)
        return ZERO_TIER_host;
    return tier_unless_tied(plan, flat_param, tiering->parameters);
}

// Says whether a flat parameter lies once on a machine: every rank needs all of it, none writes it
// once it is loaded, and the ranks share memory there.
static bool lies_once(const zr_plan *plan, const zr_flat_param *flat_param)
{
    return zr_class_is_frozen(flat_param->kind) && plan->holding == ZR_HOLDS_TIED_COPIES &&
           (plan->mapped || plan->machine_ranks > 1);
}

static void place_flat_param(zr_plan *plan, zr_flat_param *flat_param)
{
    int64_t ranks = plan->ranks;
    flat_param->shard = zr_shard_elems(flat_param->kind, plan->settings.precision.moments,
                                       flat_param->elems, plan->ranks);
    flat_param->padded = flat_param->shard * ranks;
    flat_param->shared = lies_once(plan, flat_param);
    int64_t *whole_bytes = flat_param->shared ? &plan->frozen_bytes : &plan->full_bytes;
    flat_param->full_first = *whole_bytes;
    flat_param->parameter_tier = parameter_tier(plan, flat_param);
    flat_param->shard_first = plan->shard_bytes[flat_param->parameter_tier];
    flat_param->streamed = zr_flat_param_is_streamed(plan->model, flat_param->ref);
    flat_param->sealed_at = -1;
    flat_param->parked_first = flat_param->kept_first = flat_param->grad_first =
        flat_param->accumulator_first = flat_param->state_first = flat_param->carry_first = -1;
    flat_param->first_backward = flat_param->last_backward = flat_param->reduced_after = -1;
    plan->elems += flat_param->padded;
    *whole_bytes += ranks * zr_flat_param_shard_bytes(flat_param);
    plan->shard_bytes[flat_param->parameter_tier] +=
        zr_flat_param_own_bytes(flat_param, flat_param->shard);
}

// Finds how many neighbouring tensor ranks hold a flat parameter. A whole model is held by all of
// them.
static int replicas_of_flat_param(const zr_plan *plan, const zero_flat_param_desc *desc)
{
    bool split = false;
    if (desc->replicas)
        return desc->replicas;
    for (int t = 0; t < desc->tensor_count && plan->model->whole; t++)
        split = split || desc->tensors[t].tile.whole;
    return split ? 1 : plan->tensor_ranks;
}

// Chooses, of the ranks that hold a flat parameter, the first one as the one by which it counts. A
// tied copy counts by its owner.
static zero_status settle_replicas(const zr_plan *plan, const zero_flat_param_desc *desc,
                                   zr_flat_param *flat_param, zero_error *error)
{
    flat_param->replicas = replicas_of_flat_param(plan, desc);
    if (flat_param->replicas < 1 || plan->tensor_ranks % flat_param->replicas)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "planning %s: flat parameter %s is held by %d tensor ranks at a time, which does not "
            "divide %d tensor rank%s",
            plan->model->name, flat_param->name, flat_param->replicas, plan->tensor_ranks,
            plan->tensor_ranks == 1 ? "" : "s");
    flat_param->tied_copy = zr_pipeline_stage_tied_copy_at(plan->model, flat_param->ref);
    flat_param->counted = !flat_param->tied_copy && plan->tensor_rank % flat_param->replicas == 0;
    return ZERO_OK;
}

zero_status zr_plan_flat_params(zr_plan *plan, zero_error *error)
{
    const zero_model *model = plan->model;
    const zero_flat_param_ref end = {model->unit_count, 0};
    size_t count = (size_t)flat_param_number(plan, end);
    plan->flat_params = zr_alloc(sizeof *plan->flat_params * count, error);
    if (!plan->flat_params)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < model->unit_count; u++) {
        for (int p = 0; p < model->units[u].flat_param_count; p++) {
            zr_flat_param *flat_param = &plan->flat_params[plan->flat_param_count++];
            const zero_flat_param_desc *desc = &model->units[u].flat_params[p];
            flat_param->ref = (zero_flat_param_ref){u, p};
            flat_param->kind = desc->kind;
            choose_types(plan, flat_param);
            if (model->units[u].flat_param_count == 1)
                snprintf(flat_param->name, sizeof flat_param->name, "%s", model->units[u].name);
            else
                snprintf(flat_param->name, sizeof flat_param->name, "%s/%d", model->units[u].name,
                         p);
            ZERO_TRY(lay_tensors(plan, flat_param, desc, error));
            ZERO_TRY(settle_replicas(plan, desc, flat_param, error));
            place_flat_param(plan, flat_param);
        }
    }
    plan->parameters = zr_model_parameters(model->whole ? model->whole : model);
    return zr_plan_tensor_numbers(plan, error);
}

static zero_status list_unit_flat_params(zr_plan *plan, int u, zero_error *error)
{
    const zero_unit *unit = &plan->model->units[u];
    zr_unit_plan *out = &plan->units[u];
    out->flat_param_count = unit->flat_param_count + unit->borrowed_count;
    out->flat_params =
        zr_alloc(sizeof *out->flat_params * (size_t)ZR_MAX(out->flat_param_count, 1), error);
    if (!out->flat_params)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < out->flat_param_count; i++)
        out->flat_params[i] = flat_param_number(plan, zr_unit_flat_param(plan->model, u, i));
    return ZERO_OK;
}

// Notes which units contribute to a flat parameter: to a buffer only its owner, to a trainable flat
// parameter every unit that lists it.
static void note_contributions(zr_plan *plan, int u)
{
    for (int i = 0; i < plan->units[u].flat_param_count; i++) {
        zr_flat_param *flat_param = &plan->flat_params[plan->units[u].flat_params[i]];
        bool contributes = flat_param->kind == ZERO_TRAINABLE ||
                           (flat_param->kind == ZERO_BUFFER && flat_param->ref.unit == u);
        if (!contributes || plan->settings.inference)
            continue;
        flat_param->first_backward = ZR_MAX(flat_param->first_backward, u);
        flat_param->last_backward =
            flat_param->last_backward < 0 ? u : ZR_MIN(flat_param->last_backward, u);
    }
}

static zero_status check_dtype(const zero_unit *unit, const zero_shape *shape,
                               const char *precision, zero_error *error)
{
    uint32_t stated = unit->ops->dtypes & ~ZERO_UNIT_DEVICE,
             known = stated ? stated : 1u << ZERO_F32;
    if (known >> shape->dtype & 1)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "planning unit \"%s\" in %s: it does not compute with %s parameters "
                   "(zero_unit_ops.dtypes says what it can)",
                   unit->name, precision, zr_dtype_name(shape->dtype));
}

static bool tensor_is_usable(const zero_tensor *tensor)
{
    int64_t bytes = (int64_t)zero_dtype_bytes(tensor->dtype);
    bool usable = bytes > 0 && tensor->dims >= 0 && tensor->dims <= ZERO_MAX_DIMS;
    for (int d = 0; usable && d < tensor->dims; d++)
        usable = tensor->shape[d] >= 0 &&
                 !__builtin_mul_overflow(bytes, tensor->shape[d], &bytes) &&
                 bytes <= ZR_MOST_BYTES / ZERO_MAX_BOUNDARY;
    return usable;
}

// Checks what a unit, which may be the user's own, says of itself. `total`: bytes that it and the
// units before it keep.
static zero_status check_sizes(const zero_unit *unit, const zero_unit_sizes *sizes, int64_t *total,
                               zero_error *error)
{
    if (sizes->out.count < 0 || sizes->out.count > ZERO_MAX_BOUNDARY || sizes->product_count < 0 ||
        sizes->product_count > ZERO_MAX_PRODUCTS)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "planning unit \"%s\": %d tensors in its boundary (at most %d) and %d "
                       "products (at most %d)",
                       unit->name, sizes->out.count, ZERO_MAX_BOUNDARY, sizes->product_count,
                       ZERO_MAX_PRODUCTS);
    for (int i = 0; i < sizes->out.count; i++)
        if (!tensor_is_usable(&sizes->out.at[i]))
            return zr_fail(
                error, ZERO_ERR_USAGE,
                "planning unit \"%s\": tensor %d of its boundary has no usable type and shape",
                unit->name, i);
    const size_t most = (size_t)ZR_MOST_BYTES;
    if (sizes->saved_bytes > most || sizes->workspace_bytes > most || sizes->held_bytes > most)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "planning unit \"%s\": it asks for more memory than can be addressed",
                       unit->name);
    *total +=
        (int64_t)sizes->saved_bytes + (int64_t)sizes->held_bytes + zr_boundary_bytes(&sizes->out);
    if (*total > ZR_MOST_BYTES)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "planning unit \"%s\": with it the activations take more memory than can be addressed",
            unit->name);
    return ZERO_OK;
}

// Chooses where optimizer states are kept. Twin-Flow: the last flat parameters keep theirs on the
// device, as many as make up that part of the elements.
static void choose_state_tiers(zr_plan *plan)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    int64_t trained = 0, kept = 0;
    for (int p = 0; p < plan->flat_param_count; p++)
        trained += plan->flat_params[p].kind == ZERO_TRAINABLE ? plan->flat_params[p].padded : 0;
    for (int p = plan->flat_param_count - 1; p >= 0; p--) {
        zr_flat_param *flat_param = &plan->flat_params[p];
        bool stays = flat_param->kind != ZERO_TRAINABLE ||
                     (double)(kept + flat_param->padded) <= tiering->on_device * (double)trained;
        flat_param->state_tier =
            stays ? ZERO_TIER_device : tier_unless_tied(plan, flat_param, tiering->optimizer);
        if (stays && flat_param->kind == ZERO_TRAINABLE)
            kept += flat_param->padded;
    }
}

zero_status zr_unit_find_sizes(const zero_unit *unit, const struct zr_backend *backend,
                               const zero_shape *shape, const char *precision,
                               const zero_tensors *in, int64_t *total, zero_unit_sizes *out,
                               zero_error *error)
{
    // Tables of earlier programs end before sizes_on, and have no ZERO_UNIT_DEVICE.
    bool on = backend && unit->ops->dtypes & ZERO_UNIT_DEVICE && unit->ops->sizes_on;
    ZERO_TRY(check_dtype(unit, shape, precision, error));
    zero_status status = on ? unit->ops->sizes_on(unit, backend, shape, in, out)
                            : unit->ops->sizes(unit, shape, in, out);
    if (status != ZERO_OK)
        return zr_fail(
            error, status,
            "planning unit \"%s\" for micro-batch %lld x %lld: the unit refuses this shape",
            unit->name, (long long)shape->batch, (long long)shape->seq);
    return check_sizes(unit, out, total, error);
}

static bool is_fused(const zr_plan *plan, int u)
{
    const zr_chunk_plan *chunk = zr_plan_chunk_of(plan, u);
    bool last = u == chunk->end_unit - 1 && zr_chunk_is_last(plan, chunk);
    return last && plan->model->units[u].ops->forward_backward && !plan->settings.inference;
}

static bool has_streams(const zr_plan *plan, int u)
{
    for (int i = 0; i < plan->units[u].flat_param_count; i++)
        if (plan->flat_params[plan->units[u].flat_params[i]].streamed)
            return true;
    return false;
}

// Says whether backward is made in two parts: where the schedule wants it, and the unit can. What
// is computed again is gone before the second part, and streamed flat parameters come and go in one
// call.
static bool is_split(const zr_plan *plan, int u, const zero_unit_ops *ops)
{
    bool wanted = plan->pipeline && zr_pipeline_has_weights(plan->pipeline->pipeline.kind) &&
                  plan->settings.activation_checkpoints == 0;
    return wanted && ops->backward_input && plan->units[u].sizes.held_bytes > 0 &&
           !has_streams(plan, u);
}

// Returns the boundary that enters a unit.
static const zero_tensors *tensors_entering_unit(const zr_plan *plan, int u)
{
    const zr_chunk_plan *chunk = zr_plan_chunk_of(plan, u);
    return u > chunk->first_unit ? &plan->units[u - 1].sizes.out : &chunk->in;
}

zero_status zr_plan_units(zr_plan *plan, zero_error *error)
{
    const zero_model *model = plan->model, *origin = zr_pipeline_stage_origin(model);
    int64_t total = 0;
    plan->unit_count = model->unit_count;
    plan->units = zr_alloc(sizeof *plan->units * (size_t)model->unit_count, error);
    if (!plan->units)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < model->unit_count; u++) {
        zr_unit_plan *out = &plan->units[u];
        // Sizes are those of the unit as its model describes it, because it may count its borrowed
        // flat parameters.
        const zero_unit *unit = &origin->units[zr_pipeline_stage_unit(model, u)];
        ZERO_TRY(zr_unit_find_sizes(unit, plan->backend, &plan->shape,
                                    plan->settings.precision.name, tensors_entering_unit(plan, u),
                                    &total, &out->sizes, error));
        ZERO_TRY(zr_plan_exchanges(plan, &model->units[u], &out->sizes, error));
        ZERO_TRY(list_unit_flat_params(plan, u, error));
        note_contributions(plan, u);
        out->fused = is_fused(plan, u);
        out->split = is_split(plan, u, unit->ops);
        plan->workspace_bytes = ZR_MAX(plan->workspace_bytes, (int64_t)out->sizes.workspace_bytes);
    }
    choose_state_tiers(plan);
    return ZERO_OK;
}
