// Which spaces, stores and slots a rank has.
#include "plan/spaces.h"
#include "plan/plan_parts.h"

int zr_store_of_vector(zero_tier tier, zr_vector vector)
{
    return (int)tier * (int)ZR_VECTOR_COUNT + (int)vector;
}

zr_space_id zr_space_of_buffer(zr_buffer_id buffer)
{
    static const zr_space_id spaces[ZR_BUFFER_COUNT] = {
        [ZR_BUFFER_NONE] = ZR_SPACE_COUNT,
        [ZR_BUFFER_PARAMETERS] = ZR_SPACE_PARAMETERS,
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
    return (vector == ZR_VECTOR_GRADIENT ? zr_plan_accumulators(plan) : 1) *
           plan->state_elems[tier] * zr_vector_size(plan, vector);
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

// Describes a space that this rank alone counts.
static zr_space_plan own_space(zr_space_kind kind, zero_tier tier, zero_memory_category category,
                               int64_t bytes)
{
    return (zr_space_plan){kind, tier, category, bytes, bytes};
}

static void list_windows(zr_plan *plan)
{
    const zero_tier device = ZERO_TIER_device;
    zr_space_plan *spaces = plan->spaces;
    bool trains = !plan->settings.inference;
    // Tensor ranks of a model without a split do not exchange anything.
    bool exchanges = plan->tensor_ranks > 1 && plan->model->whole;
    int64_t all = plan->versions * plan->full_bytes;
    if (plan->holding == ZR_HOLDS_TIED_COPIES)
        spaces[ZR_SPACE_PARAMETERS] =
            own_space(ZR_SPACE_SYMMETRIC, device, ZERO_MEM_parameters, all);
    else if (plan->holding == ZR_HOLDS_A_MAP)
        spaces[ZR_SPACE_PARAMETERS] =
            (zr_space_plan){ZR_SPACE_SHARED, device, ZERO_MEM_parameters, all,
                            plan->versions * plan->shard_bytes[device]};
    else
        spaces[ZR_SPACE_GATHERED] =
            (zr_space_plan){ZR_SPACE_MACHINE, device, ZERO_MEM_communication, plan->gather_bytes,
                            plan->gather_share};
    if (trains)
        spaces[ZR_SPACE_GRADIENTS] =
            own_space(ZR_SPACE_SYMMETRIC, device, plan->gradient_window_is, plan->grad_bytes);
    if (trains && plan->whole_bytes > 0)
        spaces[ZR_SPACE_FULL_GRADS] =
            own_space(ZR_SPACE_SYMMETRIC, device, ZERO_MEM_gradients, plan->whole_bytes);
    if (exchanges)
        spaces[ZR_SPACE_EXCHANGE] =
            own_space(ZR_SPACE_SYMMETRIC, device, ZERO_MEM_communication, plan->exchange_bytes);
    if (exchanges && plan->replicas)
        spaces[ZR_SPACE_SHARED_EXCHANGE] = own_space(
            ZR_SPACE_SYMMETRIC, device, ZERO_MEM_communication, plan->shared_exchange_bytes);
}

static void list_arenas(zr_plan *plan)
{
    const zr_staging_buffer_plan *staging = &plan->staging_buffer;
    const struct {
        zr_space_id id;
        bool exists;
        zero_tier tier;
        zero_memory_category category;
        int64_t bytes;
    } arenas[] = {
        {ZR_SPACE_OPEN_SUMS, !plan->settings.inference, ZERO_TIER_device, ZERO_MEM_communication,
         plan->open_bytes},
        {ZR_SPACE_ACTIVATIONS, true, ZERO_TIER_device, ZERO_MEM_activations,
         plan->activation_bytes},
        {ZR_SPACE_ACTIVATION_CHECKPOINTS, true, ZERO_TIER_device, ZERO_MEM_checkpoints,
         plan->activation_checkpoint_buffer_bytes},
        {ZR_SPACE_WORKSPACE, true, ZERO_TIER_device, ZERO_MEM_workspace,
         ZR_ROUND_UP(plan->workspace_bytes, ZR_ACTIVATION_ALIGN) + plan->product_scratch_bytes},
        {ZR_SPACE_STAGED_PARAMETERS, has_stores_on_nvme(plan), ZERO_TIER_host, ZERO_MEM_parameters,
         plan->staged_parameter_bytes},
        {ZR_SPACE_STAGED_SUMS, has_stores_on_nvme(plan), ZERO_TIER_host, ZERO_MEM_gradients,
         plan->staged_gradient_bytes},
        {ZR_SPACE_STAGING_BUFFERS, has_stores_on_nvme(plan), ZERO_TIER_host, ZERO_MEM_optimizer,
         staging->count * staging->bytes},
    };
    for (int i = 0; i < ZR_COUNT(arenas); i++)
        if (arenas[i].exists)
            plan->spaces[arenas[i].id] =
                own_space(ZR_SPACE_ARENA, arenas[i].tier, arenas[i].category, arenas[i].bytes);
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
    list_windows(plan);
    list_arenas(plan);
    count_slots(plan);
}
