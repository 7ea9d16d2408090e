// Pieces, shards and units (contract 1): who owns what, and where it lies.
#include "base/dtype.h"
#include "model/stage_cut.h"
#include "model/unit.h"
#include "plan/plan_parts.h"
#include "plan/ties.h"

#include <stdio.h>

static int count_pieces(const zero_model *model)
{
    int count = 0;
    for (int u = 0; u < model->unit_count; u++)
        count += model->units[u].piece_count;
    return count;
}

static int piece_number(const zr_plan *plan, zero_piece_ref ref)
{
    int number = ref.piece;
    for (int u = 0; u < ref.unit; u++)
        number += plan->model->units[u].piece_count;
    return number;
}

static zero_status lay_tensors(zr_plan *plan, zr_piece *piece, const zero_piece_desc *desc,
                               zero_error *error)
{
    piece->tensor_count = desc->tensor_count;
    piece->tensors = zr_alloc(sizeof *piece->tensors * (size_t)desc->tensor_count, error);
    if (!piece->tensors)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < desc->tensor_count; t++) {
        zr_plan_tensor *tensor = &piece->tensors[t];
        tensor->desc = &desc->tensors[t];
        tensor->first = ZR_ROUND_UP(piece->elems, ZR_TENSOR_ALIGN);
        tensor->count = zr_tensor_desc_elements(tensor->desc);
        tensor->decays =
            desc->kind == ZERO_TRAINABLE && (plan->settings.decay_all || tensor->desc->dims >= 2);
        piece->elems = tensor->first + tensor->count;
        if (piece->elems > ZR_MOST_ELEMS - plan->elems)
            return zr_fail(error, ZERO_ERR_USAGE,
                           "planning %s: with tensor \"%s\" the model has more than %lld elements",
                           plan->model->name, tensor->desc->name, (long long)ZR_MOST_ELEMS);
    }
    return ZERO_OK;
}

// Chooses the types of a piece. Buffers stay in fp32, because running statistics would stop moving
// in 16 bits.
static void choose_types(const zr_plan *plan, zr_piece *piece)
{
    const zr_precision *precision = &plan->settings.precision;
    bool buffer = piece->kind == ZERO_BUFFER;
    piece->dtype = buffer ? ZERO_F32 : precision->parameters;
    piece->gradient_dtype = buffer ? ZERO_F32 : precision->gradients;
    piece->accumulator_dtype = buffer ? ZERO_F32 : precision->accumulator;
}

// Returns the tier of a piece whose kind is kept there: what is tied stays in memory, because
// shards of it are exchanged there.
static zero_tier tier_of(const zr_plan *plan, const zr_piece *piece, zero_tier tier)
{
    return zr_piece_is_tied(plan, piece) ? ZR_MIN(tier, ZERO_TIER_host) : tier;
}

// Returns where a piece's parameters are kept. Running statistics stay on the device, because they
// are few and every step writes them. Where parameters are on NVMe, the first tiering.on_host
// elements stay on the host.
static zero_tier parameter_tier(const zr_plan *plan, const zr_piece *piece)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    if (plan->settings.stage < 3 || piece->kind == ZERO_BUFFER)
        return ZERO_TIER_device;
    if (tiering->parameters == ZERO_TIER_nvme && plan->elems + piece->padded <= tiering->on_host)
        return ZERO_TIER_host;
    return tier_of(plan, piece, tiering->parameters);
}

int64_t zr_shard_elems(int64_t elems, int ranks)
{
    return ZR_ROUND_UP((elems + ranks - 1) / ranks, ZR_CHUNK);
}

static void place_piece(zr_plan *plan, zr_piece *piece)
{
    int64_t ranks = plan->ranks;
    piece->shard = zr_shard_elems(piece->elems, plan->ranks);
    piece->padded = piece->shard * ranks;
    piece->full_first = plan->full_bytes;
    piece->parameter_tier = parameter_tier(plan, piece);
    piece->shard_first = plan->shard_bytes[piece->parameter_tier];
    piece->streamed = zr_piece_is_streamed(plan->model, piece->ref);
    piece->sealed_at = -1;
    piece->parked_first = piece->kept_first = piece->open_first = piece->grad_first =
        piece->accumulator_first = piece->state_first = -1;
    piece->first_backward = piece->last_backward = piece->reduced_after = piece->fetched_with = -1;
    plan->elems += piece->padded;
    plan->full_bytes += ranks * zr_piece_shard_bytes(piece);
    plan->shard_bytes[piece->parameter_tier] += zr_piece_shard_bytes(piece);
}

// Finds how many neighbouring tensor ranks hold a piece. A whole model is held by all of them.
static int replicas_of(const zr_plan *plan, const zero_piece_desc *desc)
{
    bool split = false;
    if (desc->replicas)
        return desc->replicas;
    for (int t = 0; t < desc->tensor_count && plan->model->whole; t++)
        split = split || desc->tensors[t].tile.whole;
    return split ? 1 : plan->tensor_ranks;
}

// Chooses, of the ranks that hold a piece, the first one as the one by which it counts. A tied copy
// counts by its owner.
static zero_status choose_replica(const zr_plan *plan, const zero_piece_desc *desc, zr_piece *piece,
                                  zero_error *error)
{
    piece->replicas = replicas_of(plan, desc);
    if (piece->replicas < 1 || plan->tensor_ranks % piece->replicas)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "planning %s: piece %s is held by %d tensor ranks at a time, which does not "
                       "divide %d tensor rank%s",
                       plan->model->name, piece->name, piece->replicas, plan->tensor_ranks,
                       plan->tensor_ranks == 1 ? "" : "s");
    piece->tied_copy = zr_stage_tied_copy_at(plan->model, piece->ref);
    piece->counted = !piece->tied_copy && plan->tensor_rank % piece->replicas == 0;
    return ZERO_OK;
}

zero_status zr_plan_pieces(zr_plan *plan, zero_error *error)
{
    const zero_model *model = plan->model;
    plan->pieces = zr_alloc(sizeof *plan->pieces * (size_t)count_pieces(model), error);
    if (!plan->pieces)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < model->unit_count; u++) {
        for (int p = 0; p < model->units[u].piece_count; p++) {
            zr_piece *piece = &plan->pieces[plan->piece_count++];
            const zero_piece_desc *desc = &model->units[u].pieces[p];
            piece->ref = (zero_piece_ref){u, p};
            piece->kind = desc->kind;
            choose_types(plan, piece);
            if (model->units[u].piece_count == 1)
                snprintf(piece->name, sizeof piece->name, "%s", model->units[u].name);
            else
                snprintf(piece->name, sizeof piece->name, "%s/%d", model->units[u].name, p);
            ZERO_TRY(lay_tensors(plan, piece, desc, error));
            ZERO_TRY(choose_replica(plan, desc, piece, error));
            place_piece(plan, piece);
        }
    }
    plan->parameters = zr_model_parameters(model->whole ? model->whole : model);
    return zr_plan_tensor_numbers(plan, error);
}

static zero_status list_unit_pieces(zr_plan *plan, int u, zero_error *error)
{
    const zero_unit *unit = &plan->model->units[u];
    zr_unit_plan *out = &plan->units[u];
    out->piece_count = unit->piece_count + unit->borrowed_count;
    out->pieces = zr_alloc(sizeof *out->pieces * (size_t)ZR_MAX(out->piece_count, 1), error);
    if (!out->pieces)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < out->piece_count; i++)
        out->pieces[i] = piece_number(plan, zr_unit_piece(plan->model, u, i));
    return ZERO_OK;
}

// Notes which units contribute to a piece: to a buffer only its owner, to a trainable piece every
// unit that lists it.
static void note_contributions(zr_plan *plan, int u)
{
    for (int i = 0; i < plan->units[u].piece_count; i++) {
        zr_piece *piece = &plan->pieces[plan->units[u].pieces[i]];
        bool contributes =
            piece->kind == ZERO_TRAINABLE || (piece->kind == ZERO_BUFFER && piece->ref.unit == u);
        if (!contributes || plan->settings.inference)
            continue;
        piece->first_backward = ZR_MAX(piece->first_backward, u);
        piece->last_backward = piece->last_backward < 0 ? u : ZR_MIN(piece->last_backward, u);
    }
}

static zero_status check_dtype(const zero_unit *unit, const zero_shape *shape,
                               const char *precision, zero_error *error)
{
    uint32_t known = unit->ops->dtypes ? unit->ops->dtypes : 1u << ZERO_F32;
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

// Chooses where optimizer states are kept. Twin-Flow: the last pieces keep theirs on the device, as
// many as make up that part of the elements.
static void choose_state_tiers(zr_plan *plan)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    int64_t trained = 0, kept = 0;
    for (int p = 0; p < plan->piece_count; p++)
        trained += plan->pieces[p].kind == ZERO_TRAINABLE ? plan->pieces[p].padded : 0;
    for (int p = plan->piece_count - 1; p >= 0; p--) {
        zr_piece *piece = &plan->pieces[p];
        bool stays = piece->kind != ZERO_TRAINABLE ||
                     (double)(kept + piece->padded) <= tiering->on_device * (double)trained;
        piece->state_tier = stays ? ZERO_TIER_device : tier_of(plan, piece, tiering->optimizer);
        if (stays && piece->kind == ZERO_TRAINABLE)
            kept += piece->padded;
    }
}

zero_status zr_unit_ask(const zero_unit *unit, const zero_shape *shape, const char *precision,
                        const zero_tensors *in, int64_t *total, zero_unit_sizes *out,
                        zero_error *error)
{
    ZERO_TRY(check_dtype(unit, shape, precision, error));
    zero_status status = unit->ops->sizes(unit, shape, in, out);
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
    for (int i = 0; i < plan->units[u].piece_count; i++)
        if (plan->pieces[plan->units[u].pieces[i]].streamed)
            return true;
    return false;
}

// Says whether backward is made in two parts: where the schedule wants it, and the unit can. What
// is computed again is gone before the second part, and streamed pieces come and go in one call.
static bool is_split(const zr_plan *plan, int u, const zero_unit_ops *ops)
{
    bool wanted = plan->pipeline && zr_pipeline_has_weights(plan->pipeline->pipeline.kind) &&
                  plan->settings.activation_checkpoints == 0;
    return wanted && ops->backward_input && plan->units[u].sizes.held_bytes > 0 &&
           !has_streams(plan, u);
}

// Returns the boundary that enters a unit.
static const zero_tensors *entering(const zr_plan *plan, int u)
{
    const zr_chunk_plan *chunk = zr_plan_chunk_of(plan, u);
    return u > chunk->first_unit ? &plan->units[u - 1].sizes.out : &chunk->in;
}

zero_status zr_plan_units(zr_plan *plan, zero_error *error)
{
    const zero_model *model = plan->model, *origin = zr_stage_origin(model);
    int64_t total = 0;
    plan->unit_count = model->unit_count;
    plan->units = zr_alloc(sizeof *plan->units * (size_t)model->unit_count, error);
    if (!plan->units)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < model->unit_count; u++) {
        zr_unit_plan *out = &plan->units[u];
        // A unit is asked as its model describes it, because it may count its borrowed pieces.
        const zero_unit *unit = &origin->units[zr_stage_unit(model, u)];
        ZERO_TRY(zr_unit_ask(unit, &plan->shape, plan->settings.precision.name, entering(plan, u),
                             &total, &out->sizes, error));
        ZERO_TRY(zr_plan_exchanges(plan, &model->units[u], &out->sizes, error));
        ZERO_TRY(list_unit_pieces(plan, u, error));
        note_contributions(plan, u);
        out->fused = is_fused(plan, u);
        out->split = is_split(plan, u, unit->ops);
        plan->workspace_bytes = ZR_MAX(plan->workspace_bytes, (int64_t)out->sizes.workspace_bytes);
    }
    choose_state_tiers(plan);
    return ZERO_OK;
}
