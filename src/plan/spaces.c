// Which spaces, stores and slots a rank has.
#include "plan/spaces.h"
#include "base/numbers.h"
#include "plan/far_spaces.h"
#include "plan/plan_parts.h"

enum { WORD = sizeof(float) };

int zr_store_of_vector(zero_tier tier, zr_vector vector)
{
    return (int)tier * (int)ZR_VECTOR_COUNT + (int)vector;
}

zr_space_id zr_space_of_buffer(zr_buffer_id buffer)
{
    static const zr_space_id spaces[ZR_BUFFER_COUNT] = {
        [ZR_BUFFER_NONE] = ZR_SPACE_COUNT,
        [ZR_BUFFER_PARAMETERS] = ZR_SPACE_PARAMETERS,
        [ZR_BUFFER_FROZEN] = ZR_SPACE_FROZEN,
        [ZR_BUFFER_SHARDS] = ZR_SPACE_COUNT,
        [ZR_BUFFER_GATHERED] = ZR_SPACE_GATHERED,
        [ZR_BUFFER_GRADIENTS] = ZR_SPACE_GRADIENTS,
        [ZR_BUFFER_FULL_GRADS] = ZR_SPACE_FULL_GRADS,
        [ZR_BUFFER_OPEN_SUMS] = ZR_SPACE_OPEN_SUMS,
        [ZR_BUFFER_STAGED_PARAMETERS] = ZR_SPACE_STAGED_PARAMETERS,
        [ZR_BUFFER_STAGED_SUMS] = ZR_SPACE_STAGED_SUMS,
        [ZR_BUFFER_ACTIVATION_CHECKPOINTS] = ZR_SPACE_ACTIVATION_CHECKPOINTS,
        [ZR_BUFFER_STORED] = ZR_SPACE_COUNT,
    };
    return spaces[buffer];
}

static int64_t vector_bytes(const zr_plan *plan, zero_tier tier, zr_vector vector)
{
    if (vector == ZR_VECTOR_PARAMETERS)
        return plan->holding == ZR_HOLDS_SHARDS ? plan->versions * plan->shard_bytes[tier] : 0;
    if (plan->settings.inference || !zr_plan_has_vector(plan, vector))
        return 0;
    if (vector == ZR_VECTOR_GRADIENT && tier != ZERO_TIER_nvme)
        return plan->accumulator_bytes[tier];
    int64_t elems = 0; // whose optimizer states are on a tier where this vector is here
    for (zero_tier states = 0; states < ZERO_TIER_COUNT; states++)
        elems += zr_vector_tier(states, vector) == tier ? plan->state_elems[states] : 0;
    return (vector == ZR_VECTOR_GRADIENT ? zr_plan_accumulators(plan) : 1) *
           zr_vector_bytes(&plan->settings, vector, elems);
}

// On NVMe, parameters have a scratch space, and so have activation checkpoints; optimizer states
// follow each other in a third one, and parked contributions follow them.
static void list_stores(zr_plan *plan)
{
    const zr_settings *settings = &plan->settings;
    int64_t states_on_nvme = 0;
    for (zero_tier t = 0; t < ZERO_TIER_COUNT; t++)
        for (zr_vector v = 0; v < ZR_VECTOR_COUNT; v++) {
            bool parameters = v == ZR_VECTOR_PARAMETERS, states_follow = t == ZERO_TIER_nvme;
            zr_store_plan store = {.tier = t,
                                   .category = parameters                ? ZERO_MEM_parameters
                                               : v == ZR_VECTOR_GRADIENT ? ZERO_MEM_gradients
                                                                         : ZERO_MEM_optimizer,
                                   .bytes = vector_bytes(plan, t, v)};
            if (states_follow && !parameters) {
                store.first = states_on_nvme;
                states_on_nvme += store.bytes;
            }
            plan->stores[zr_store_of_vector(t, v)] = store;
        }
    plan->stores[ZR_STORE_PARKED] = (zr_store_plan){
        .tier = settings->tiering.optimizer,
        .category = ZERO_MEM_gradients,
        .bytes = plan->parked_bytes,
        .first = settings->tiering.optimizer == ZERO_TIER_nvme ? states_on_nvme : 0};
    plan->stores[ZR_STORE_ACTIVATION_CHECKPOINTS] =
        (zr_store_plan){.tier = settings->activation_checkpoint_tier,
                        .category = ZERO_MEM_checkpoints,
                        .bytes = plan->activation_checkpoint_bytes};
}

static bool has_stores_on_nvme(const zr_plan *plan)
{
    int64_t bytes = 0;
    for (int s = 0; s < ZR_STORE_COUNT; s++)
        bytes += plan->stores[s].tier == ZERO_TIER_nvme ? plan->stores[s].bytes : 0;
    return bytes > 0;
}

static int64_t most_slice_elems(const zr_plan *plan)
{
    int64_t most = 0;
    for (int s = 0; s < plan->shard_slice_count; s++)
        most = ZR_MAX(most, plan->shard_slices[s].group >= 0 ? plan->shard_slices[s].count : 0);
    return most;
}

// Returns the elements of a portion of weights in blocks that are read and written without a
// master: those that have none, and codes that lag behind theirs.
static int64_t most_blocked_elems(const zr_plan *plan)
{
    int64_t most = 0;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        bool read =
            flat_param->state_first < 0 || (flat_param->coded && zr_plan_parameters_lag(plan));
        if (flat_param->weight_bits && read)
            most = ZR_MAX(most, ZR_MIN(flat_param->shard, ZR_STAGING_BUFFER_ELEMS));
    }
    return most;
}

// Returns the bytes of the exact sums of norms: the step's, and those by tensor.
static int64_t far_norm_bytes(const zr_plan *plan)
{
    int64_t by_tensor = plan->settings.per_tensor_norms ? 2 * plan->tensor_count : 0;
    return (1 + by_tensor) * (int64_t)sizeof(zr_exact);
}

// Returns the bytes of the strip by which portions travel.
static int64_t far_strip_bytes(const zr_plan *plan)
{
    int64_t most = 0;
    for (int p = 0; p < plan->flat_param_count; p++)
        most = ZR_MAX(most, plan->flat_params[p].shard);
    return ZR_MIN(most, ZR_STAGING_BUFFER_ELEMS) * WORD;
}

// Ranks of a machine share what is gathered, but each far device gathers for itself.
static zr_space_kind gather_window(const zr_plan *plan)
{
    return plan->far ? ZR_SPACE_SYMMETRIC : ZR_SPACE_MACHINE;
}

static void list_spaces(zr_plan *plan)
{
    const zero_tier device = ZERO_TIER_device, host = ZERO_TIER_host;
    const zr_space_kind window = ZR_SPACE_SYMMETRIC, arena = ZR_SPACE_ARENA;
    const zr_space_kind gathers = gather_window(plan);
    bool trains = !plan->settings.inference, nvme = has_stores_on_nvme(plan);
    bool copies = plan->holding == ZR_HOLDS_TIED_COPIES, mapped = plan->holding == ZR_HOLDS_A_MAP;
    // Tensor ranks of a model without a split do not exchange anything.
    bool exchanges = plan->tensor_ranks > 1 && plan->model->whole;
    const struct {
        zr_space_kind kind;
        bool exists;
        zero_tier tier;
        zero_memory_category category;
        int64_t bytes;
    } rows[ZR_SPACE_COUNT] = {
        [ZR_SPACE_PARAMETERS] = {mapped ? ZR_SPACE_SHARED : window,
                                 (copies && plan->full_bytes > 0) || mapped, device,
                                 ZERO_MEM_parameters, plan->versions * plan->full_bytes},
        [ZR_SPACE_FROZEN] = {plan->mapped ? ZR_SPACE_SHARED : gathers, plan->frozen_bytes > 0,
                             device, ZERO_MEM_parameters, plan->frozen_bytes},
        [ZR_SPACE_GATHERED] = {gathers, !copies && !mapped, device, ZERO_MEM_communication,
                               plan->gather_bytes},
        [ZR_SPACE_GRADIENTS] = {window, trains, device, plan->gradient_window_is, plan->grad_bytes},
        [ZR_SPACE_FULL_GRADS] = {window, trains && plan->whole_bytes > 0, device,
                                 ZERO_MEM_gradients, plan->whole_bytes},
        [ZR_SPACE_EXCHANGE] = {window, exchanges, device, ZERO_MEM_communication,
                               plan->exchange_bytes},
        [ZR_SPACE_SHARED_EXCHANGE] = {window, exchanges && plan->replicas, device,
                                      ZERO_MEM_communication, plan->shared_exchange_bytes},
        [ZR_SPACE_OPEN_SUMS] = {arena, trains, device, ZERO_MEM_communication, plan->open_bytes},
        [ZR_SPACE_ACTIVATIONS] = {arena, true, device, ZERO_MEM_activations,
                                  plan->activation_bytes},
        [ZR_SPACE_ACTIVATION_CHECKPOINTS] = {arena, true, device, ZERO_MEM_checkpoints,
                                             plan->activation_checkpoint_buffer_bytes},
        [ZR_SPACE_WORKSPACE] = {arena, true, device, ZERO_MEM_workspace,
                                ZR_ROUND_UP(plan->workspace_bytes, ZR_ACTIVATION_ALIGN) +
                                    plan->product_scratch_bytes},
        [ZR_SPACE_STAGED_PARAMETERS] = {arena, nvme, host, ZERO_MEM_parameters,
                                        plan->staged_parameter_bytes},
        [ZR_SPACE_STAGED_SUMS] = {arena, nvme, host, ZERO_MEM_gradients,
                                  plan->staged_gradient_bytes},
        [ZR_SPACE_STAGING_BUFFERS] = {arena, nvme || plan->staging_buffer.count, host,
                                      ZERO_MEM_optimizer,
                                      plan->staging_buffer.count * plan->staging_buffer.bytes},
        [ZR_SPACE_MUON] = {arena, trains && plan->matrix_bytes > 0, device, ZERO_MEM_optimizer,
                           2 * plan->matrix_bytes + plan->orthogonal_bytes},
        [ZR_SPACE_STATE_VALUES] = {arena, trains && zr_plan_codes_states(plan), host,
                                   ZERO_MEM_optimizer, most_slice_elems(plan) * WORD},
        [ZR_SPACE_WEIGHT_VALUES] = {arena, true, host, ZERO_MEM_parameters,
                                    most_blocked_elems(plan) * WORD},
        [ZR_SPACE_FACTORS] = {arena, plan->factor_elems > 0,
                              plan->settings.tiering.optimizer == ZERO_TIER_device ? device : host,
                              ZERO_MEM_optimizer, plan->factor_elems * ZR_FACTOR_BYTES},
        [ZR_SPACE_CARRIES] = {arena, plan->carry_bytes > 0, device, ZERO_MEM_gradients,
                              plan->carry_bytes},
    };
    for (int i = 0; i < ZR_SPACE_COUNT; i++)
        if (rows[i].exists)
            plan->spaces[i] = (zr_space_plan){rows[i].kind, rows[i].tier, rows[i].category,
                                              rows[i].bytes, rows[i].bytes};
    // What several ranks share, each counts a part of.
    plan->spaces[ZR_SPACE_FROZEN].counted = zr_plan_share_of_machine(plan, plan->frozen_bytes);
    plan->spaces[ZR_SPACE_GATHERED].counted = plan->gather_share;
    if (mapped)
        plan->spaces[ZR_SPACE_PARAMETERS].counted = plan->versions * plan->shard_bytes[device];
}

static void list_far_spaces(zr_plan *plan)
{
    const zero_tier device = ZERO_TIER_device, host = ZERO_TIER_host;
    int64_t batch = ZR_FAR_TENSORS * zr_far_ids_bytes(plan), ids = zr_far_id_sets(plan) * batch,
            sent = zr_far_sent_sets(plan) * batch, norms = far_norm_bytes(plan),
            strip = far_strip_bytes(plan),
            saved = ZR_FAR_SAVED * ZR_ROUND_UP(strip / 4, (int64_t)ZR_FAR_PAGE);
    bool keeps = plan->stores[ZR_STORE_ACTIVATION_CHECKPOINTS].tier == ZERO_TIER_nvme,
         parks = plan->stores[ZR_STORE_PARKED].tier == ZERO_TIER_nvme && plan->parked_bytes > 0;
    int64_t kept = keeps ? plan->activation_checkpoint_buffer_bytes : 0,
            open = parks ? plan->open_bytes : 0;
    const zr_space_plan rows[] = {
        {ZR_SPACE_ARENA, device, ZERO_MEM_activations, ids, ids},
        {ZR_SPACE_ARENA, host, ZERO_MEM_activations, sent, sent},
        {ZR_SPACE_ARENA, device, ZERO_MEM_workspace, norms, norms},
        {ZR_SPACE_ARENA, host, ZERO_MEM_workspace, ZR_FAR_PAGE + norms, ZR_FAR_PAGE + norms},
        {ZR_SPACE_ARENA, host, ZERO_MEM_workspace, strip, strip},
        {ZR_SPACE_ARENA, host, ZERO_MEM_workspace, saved, saved},
        {ZR_SPACE_ARENA, host, ZERO_MEM_checkpoints, kept, kept},
        {ZR_SPACE_ARENA, host, ZERO_MEM_gradients, open, open},
    };
    static_assert(ZR_COUNT(rows) == ZR_SPACE_COUNT - ZR_SPACE_IDS,
                  "each has a row, in their order");
    for (int i = 0; i < ZR_COUNT(rows) && plan->far; i++)
        plan->spaces[ZR_SPACE_IDS + i] = rows[i];
}

// A kind has one slot more than the largest index that an instruction names.
static void count_slots(zr_plan *plan)
{
    for (int k = 0; k < ZR_PASSES; k++) {
        const zr_pass *pass = &plan->program.passes[k];
        for (int i = 0; i < pass->count; i++) {
            const zr_slot *slot = &pass->at[i].slot;
            plan->slots[slot->kind] = ZR_MAX(plan->slots[slot->kind], slot->index + 1);
        }
    }
}

void zr_plan_spaces(zr_plan *plan)
{
    list_stores(plan);
    list_spaces(plan);
    list_far_spaces(plan);
    count_slots(plan);
}
