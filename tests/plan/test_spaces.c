// The tables of spaces, stores and slots. Their bytes are those of the formulas below, which add up
// the plan's parts category by category, in every kind of plan; what each row is follows from how
// parameters are held; and the slots are those that the program names.
#include "pipeline_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

typedef int64_t bytes_of_tiers[ZERO_TIER_COUNT][ZERO_MEM_COUNT];

static void add_parameters(const zr_plan *plan, bytes_of_tiers bytes)
{
    bool sharded = plan->settings.stage == 3;
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        bytes[t][ZERO_MEM_parameters] = sharded ? plan->versions * plan->shard_bytes[t] : 0;
    if (!sharded)
        bytes[ZERO_TIER_device][ZERO_MEM_parameters] =
            plan->versions * plan->full_bytes +
            ZR_ROUND_UP(plan->frozen_bytes, plan->machine_ranks) / plan->machine_ranks;
    bytes[ZERO_TIER_host][ZERO_MEM_parameters] += plan->staged_parameter_bytes;
}

static void add_states(const zr_plan *plan, bytes_of_tiers bytes)
{
    const zr_staging_buffer_plan *staging = &plan->staging_buffer;
    int vectors = 0;
    for (int v = 0; v < ZR_VECTOR_GRADIENT; v++)
        vectors += zr_plan_has_vector(plan, v);
    for (int t = 0; t < ZERO_TIER_COUNT; t++) {
        bytes[t][ZERO_MEM_gradients] = plan->accumulator_bytes[t];
        bytes[t][ZERO_MEM_optimizer] =
            plan->settings.inference ? 0 : vectors * plan->state_elems[t] * (int64_t)sizeof(float);
    }
    bytes[ZERO_TIER_nvme][ZERO_MEM_gradients] =
        zr_plan_accumulators(plan) *
        zr_vector_bytes(&plan->settings, ZR_VECTOR_GRADIENT, plan->state_elems[ZERO_TIER_nvme]);
    bytes[ZERO_TIER_host][ZERO_MEM_gradients] += plan->staged_gradient_bytes;
    bytes[plan->settings.tiering.optimizer][ZERO_MEM_gradients] += plan->parked_bytes;
    bytes[ZERO_TIER_host][ZERO_MEM_optimizer] += staging->count * staging->bytes;
}

static void add_device(const zr_plan *plan, bytes_of_tiers bytes)
{
    int64_t *device = bytes[ZERO_TIER_device];
    device[ZERO_MEM_gradients] += plan->whole_bytes;
    device[ZERO_MEM_activations] = plan->activation_bytes;
    device[ZERO_MEM_checkpoints] = plan->activation_checkpoint_buffer_bytes;
    bytes[plan->settings.activation_checkpoint_tier][ZERO_MEM_checkpoints] +=
        plan->activation_checkpoint_bytes;
    device[ZERO_MEM_workspace] =
        ZR_ROUND_UP(plan->workspace_bytes, ZR_ACTIVATION_ALIGN) + plan->product_scratch_bytes;
    device[ZERO_MEM_communication] = plan->open_bytes + plan->gather_share + plan->exchange_bytes +
                                     plan->shared_exchange_bytes + zr_plan_link_bytes(plan);
    device[plan->gradient_window_is] += plan->grad_bytes;
}

static void check_bytes(const zr_plan *plan)
{
    bytes_of_tiers bytes = {{0}}, listed = {{0}};
    add_parameters(plan, bytes);
    add_states(plan, bytes);
    add_device(plan, bytes);
    assert_memory_equal(plan->bytes, bytes, sizeof bytes);
    for (int s = 0; s < ZR_SPACE_COUNT; s++)
        listed[plan->spaces[s].tier][plan->spaces[s].category] += plan->spaces[s].counted;
    for (int s = 0; s < ZR_STORE_COUNT; s++)
        listed[plan->stores[s].tier][plan->stores[s].category] += plan->stores[s].bytes;
    listed[ZERO_TIER_device][ZERO_MEM_communication] += zr_plan_link_bytes(plan);
    assert_memory_equal(listed, bytes, sizeof bytes);
}

// A space that does not exist has no bytes, and none counts more than it has.
static void check_spaces(const zr_plan *plan)
{
    const zr_space_plan *spaces = plan->spaces;
    for (int s = 0; s < ZR_SPACE_COUNT; s++) {
        assert_true(spaces[s].kind != ZR_SPACE_NONE || spaces[s].bytes == 0);
        assert_true(spaces[s].counted <= spaces[s].bytes);
        assert_int_equal(spaces[s].kind == ZR_SPACE_ARENA,
                         s >= ZR_SPACE_OPEN_SUMS && spaces[s].kind != ZR_SPACE_NONE);
    }
    assert_int_equal(spaces[ZR_SPACE_PARAMETERS].kind, plan->settings.stage < 3 ? ZR_SPACE_SYMMETRIC
                                                       : plan->mapped           ? ZR_SPACE_SHARED
                                                                                : ZR_SPACE_NONE);
    assert_int_equal(spaces[ZR_SPACE_GATHERED].kind,
                     plan->settings.stage == 3 && !plan->mapped ? ZR_SPACE_MACHINE : ZR_SPACE_NONE);
    assert_int_equal(spaces[ZR_SPACE_GRADIENTS].kind,
                     plan->settings.inference ? ZR_SPACE_NONE : ZR_SPACE_SYMMETRIC);
}

// In their scratch space, stores follow each other without a gap.
static void check_scratch(const zr_plan *plan)
{
    int64_t states = 0;
    for (zr_vector v = 0; v < ZR_VECTOR_PARAMETERS; v++) {
        const zr_store_plan *store = &plan->stores[zr_store_of_vector(ZERO_TIER_nvme, v)];
        assert_int_equal(store->first, states);
        states += store->bytes;
    }
    const zr_store_plan *parked = &plan->stores[ZR_STORE_PARKED];
    assert_int_equal(parked->first, parked->tier == ZERO_TIER_nvme ? states : 0);
    assert_int_equal(plan->stores[zr_store_of_vector(ZERO_TIER_nvme, ZR_VECTOR_PARAMETERS)].first,
                     0);
    assert_int_equal(plan->stores[ZR_STORE_ACTIVATION_CHECKPOINTS].first, 0);
}

// Every slot and every place of the program exists.
static void check_program(const zr_plan *plan)
{
    int slots[ZR_SLOT_KIND_COUNT] = {0};
    for (int k = 0; k < ZR_PASSES; k++)
        for (int i = 0; i < plan->program.passes[k].count; i++) {
            const zr_instruction *at = &plan->program.passes[k].at[i];
            const zr_space_id space = zr_space_of_buffer(at->place.buffer);
            slots[at->slot.kind] = ZR_MAX(slots[at->slot.kind], at->slot.index + 1);
            if (space == ZR_SPACE_COUNT || at->code == ZR_UNBIND)
                continue;
            assert_true(plan->spaces[space].kind != ZR_SPACE_NONE);
            assert_true(at->place.first <= plan->spaces[space].bytes);
        }
    assert_memory_equal(plan->slots, slots, sizeof slots);
}

static void check(const zr_plan *plan)
{
    check_bytes(plan);
    check_spaces(plan);
    check_scratch(plan);
    check_program(plan);
}

static void test_all_plans(void **state) { program_for_all(check); }

static void test_all_pipelines(void **state) { pipeline_for_each(check); }

// What program_for_all leaves out: delayed updates, LAMB's direction, inference, tiers of
// activation checkpoints.
static void test_settings(void **state)
{
    enum { PLAIN, DELAYED, NORMS, INFERENCE, HOST_CHECKPOINTS, NVME_CHECKPOINTS, VARIANTS };
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    for (int t = 0; t < PROGRAM_TIERINGS; t++)
        for (int stage = program_least_stage(&program_tierings[t]); stage < 4; stage++)
            for (int variant = PLAIN; variant < VARIANTS; variant++) {
                zr_settings settings = fixture_settings(ZERO_BF16, stage, 2);
                settings.tiering = program_tierings[t];
                settings.delayed = variant == DELAYED;
                settings.per_tensor_norms = variant == NORMS;
                settings.inference = variant == INFERENCE;
                settings.activation_checkpoints = variant >= HOST_CHECKPOINTS ? 3 : 0;
                settings.activation_checkpoint_tier = variant == HOST_CHECKPOINTS ? ZERO_TIER_host
                                                      : variant == NVME_CHECKPOINTS
                                                          ? ZERO_TIER_nvme
                                                          : ZERO_TIER_device;
                if (settings.inference && settings.tiering.optimizer != ZERO_TIER_device)
                    continue;
                zr_plan *plan = fixture_plan_of(&f, &settings, 2, variant != INFERENCE);
                check(plan);
                zr_plan_destroy(plan);
            }
}

// Tensor ranks exchange what units list, in a window that only they have.
static void test_tensor_ranks(void **state)
{
    fixture whole, part;
    fixture_build(&whole, 4, 1000, 96);
    fixture_cut(&part, &whole, 1, 4);
    for (int stage = 0; stage < 4; stage++) {
        zr_plan *plan = fixture_plan_cut(&part, stage, 2, 1, 4);
        check(plan);
        assert_int_equal(plan->spaces[ZR_SPACE_EXCHANGE].kind, ZR_SPACE_SYMMETRIC);
        assert_int_equal(plan->spaces[ZR_SPACE_SHARED_EXCHANGE].kind,
                         plan->replicas ? ZR_SPACE_SYMMETRIC : ZR_SPACE_NONE);
        zr_plan_destroy(plan);
    }
}

// What is frozen has a space of its own, of which each rank of the machine counts its part, however
// many versions of the other parameters there are.
static void check_frozen(const zr_plan *plan)
{
    const zr_space_plan *frozen = &plan->spaces[ZR_SPACE_FROZEN];
    bool once = plan->settings.stage < 3 && plan->machine_ranks > 1;
    check(plan);
    assert_int_equal(frozen->kind, !once          ? ZR_SPACE_NONE
                                   : plan->mapped ? ZR_SPACE_SHARED
                                                  : ZR_SPACE_MACHINE);
    assert_int_equal(frozen->bytes,
                     once ? 4 * zr_flat_param_shard_bytes(&plan->flat_params[1]) : 0);
    assert_int_equal(frozen->counted, frozen->bytes / plan->machine_ranks);
    assert_int_equal(frozen->category, once ? ZERO_MEM_parameters : frozen->category);
}

static void test_frozen(void **state)
{
    fixture f;
    fixture_build(&f, 2, 1000, 96);
    f.flat_params[1].kind = ZERO_FROZEN;
    for (int stage = 0; stage < 4; stage++)
        for (int machine = 1; machine <= 4; machine *= 2) {
            const zr_settings settings = fixture_settings(ZERO_F32, stage, 1);
            zr_plan *plan = machine == 4 ? fixture_plan_of(&f, &settings, 4, true)
                                         : fixture_plan_shared(&f, &settings, 4, machine);
            check_frozen(plan);
            zr_plan_destroy(plan);
        }
}

// A part of a model in which nothing is trained has no replicas at all.
static void test_all_is_frozen(void **state)
{
    fixture f;
    zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    settings.inference = true;
    fixture_build(&f, 1, 1000, 96);
    for (int p = 0; p < 3; p++)
        f.flat_params[p].kind = ZERO_FROZEN;
    zr_plan *plan = fixture_plan_of(&f, &settings, 2, true);
    assert_int_equal(plan->spaces[ZR_SPACE_PARAMETERS].kind, ZR_SPACE_NONE);
    check_bytes(plan);
    check_program(plan);
    zr_plan_destroy(plan);
}

static void frozen_has_one_version(const zr_plan *plan)
{
    const zr_space_plan *spaces = plan->spaces;
    check_bytes(plan);
    assert_int_equal(spaces[ZR_SPACE_FROZEN].bytes, plan->frozen_bytes);
    assert_int_equal(spaces[ZR_SPACE_PARAMETERS].bytes, plan->versions * plan->full_bytes);
}

static void test_frozen_versions(void **state)
{
    pipeline_model model;
    pipeline_plans plans;
    const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_2BW, 2, 1, 4);
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 4);
    const zr_machine machine = {.ranks = 2, .threads = 1, .mapped = true};
    pipeline_build(&model, 4, (pipeline_style){0});
    model.f.flat_params[1].kind = model.f.flat_params[4].kind = ZERO_FROZEN;
    pipeline_plans_make(&model.f.model, &pipeline, &settings, &machine, &plans);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(plans.plans[s]->versions, 2);
        assert_true(plans.plans[s]->frozen_bytes > 0);
        frozen_has_one_version(plans.plans[s]);
    }
    pipeline_plans_free(&plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_plans),       cmocka_unit_test(test_all_pipelines),
        cmocka_unit_test(test_settings),        cmocka_unit_test(test_tensor_ranks),
        cmocka_unit_test(test_frozen),          cmocka_unit_test(test_all_is_frozen),
        cmocka_unit_test(test_frozen_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
