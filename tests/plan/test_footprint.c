// Bytes by category and tier: those of the papers, less on the nearer tier if a farther one is
// used, and refusals where they do not fit.
#include "pipeline_fixture.h"
#include "paper_states.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

// From two ranks on each stage plans less than the one before, unless the borrowed embedding is
// most of the model.
static void test_higher_stage_holds_less(void **state)
{
    fixture f;
    fixture_build(&f, 12, 8000, 512);
    for (int ranks = 2; ranks <= 8; ranks *= 2)
        for (int k = 1; k <= 2; k++) {
            int64_t before = INT64_MAX;
            for (int stage = 0; stage < 4; stage++) {
                zr_plan *plan = fixture_plan(&f, stage, ranks, k, true);
                assert_true(zr_plan_total_bytes(plan) < before);
                before = zr_plan_total_bytes(plan);
                zr_plan_destroy(plan);
            }
        }
}

static void check_bytes(int64_t planned, double paper)
{
    assert_true((double)planned >= paper && (double)planned < paper * 1.001 + 1e6);
}

// Padding aside, bytes are the paper's: 4 + 4 + 8 in fp32, 2 + 2 + 12 in 16 bits.
static void test_paper_bytes(void **state)
{
    fixture f;
    fixture_build(&f, 4, 4096, 2048);
    for (int stage = 0; stage < 4; stage++)
        for (zero_dtype dtype = ZERO_F32; dtype <= ZERO_F16; dtype++) {
            zr_plan *plan = fixture_plan_in(&f, dtype, stage, 8, 1, true);
            const paper_policy *policy = dtype == ZERO_F32 ? &paper_fp32 : &paper_mixed;
            paper_bytes paper = paper_states_of_rank(policy, (double)plan->parameters, stage, 8);
            check_bytes(plan->bytes[ZERO_TIER_device][ZERO_MEM_parameters], paper.parameters);
            check_bytes(plan->bytes[ZERO_TIER_device][ZERO_MEM_gradients], paper.gradients);
            check_bytes(plan->bytes[ZERO_TIER_device][ZERO_MEM_optimizer], paper.optimizer);
            zr_plan_destroy(plan);
        }
}

static void a_farther_tier_takes_less_of_the_nearer(void **state)
{
    fixture f;
    fixture_build(&f, 12, 1000, 96);
    zr_tiering nothing = {0};
    zr_plan *device = fixture_plan_on_tiers(&f, 3, 2, 1, &nothing),
            *host = fixture_plan_on_tiers(&f, 3, 2, 1, &fixture_on_host),
            *nvme = fixture_plan_on_tiers(&f, 3, 2, 1, &fixture_on_nvme);
    assert_true(zr_plan_tier_bytes(host, ZERO_TIER_device) <
                zr_plan_tier_bytes(device, ZERO_TIER_device));
    assert_true(zr_plan_tier_bytes(nvme, ZERO_TIER_host) <
                zr_plan_tier_bytes(host, ZERO_TIER_host));
    assert_int_equal(zr_plan_tier_bytes(device, ZERO_TIER_host), 0);
    assert_int_equal(zr_plan_tier_bytes(host, ZERO_TIER_nvme), 0);
    assert_int_equal(nvme->staging_buffer.count, 3);
    assert_true(device->hash != host->hash && host->hash != nvme->hash);
    zr_machine machine = {
        .tier_limit = {[ZERO_TIER_host] = zr_plan_tier_bytes(nvme, ZERO_TIER_host)}};
    assert_true(zr_plan_fits(nvme, &machine));
    machine.tier_limit[ZERO_TIER_host]--;
    assert_false(zr_plan_fits(nvme, &machine));
    zr_plan_destroy(device);
    zr_plan_destroy(host);
    zr_plan_destroy(nvme);
}

static void plan_stages(zr_pipeline_kind kind, int64_t micro_batches, const zr_settings *said,
                        pipeline_plans *out)
{
    static pipeline_model model;
    zr_settings settings = *said;
    zr_pipeline pipeline = pipeline_of(kind, 3, 1, (int)micro_batches);
    pipeline.steps = zr_pipeline_is_asynchronous(kind) ? 8 : 1;
    settings.accumulation = micro_batches;
    pipeline_build(&model, 7, (pipeline_style){0});
    pipeline_plans_make(&model.f.model, &pipeline, &settings, &(zr_machine){.ranks = 2}, out);
}

// Adds what all tiers have of a category.
static int64_t on_all_tiers(const zr_plan *plan, zero_memory_category category)
{
    int64_t bytes = 0;
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        bytes += plan->bytes[t][category];
    return bytes;
}

static int64_t accumulated(const zr_plan *plan)
{
    int64_t bytes = 0;
    for (int t = 0; t < ZERO_TIER_nvme; t++)
        bytes += plan->accumulator_bytes[t];
    return bytes + plan->bytes[ZERO_TIER_nvme][ZERO_MEM_gradients];
}

// Compares a stage with that of a synchronous schedule, which has one version and no master in
// fp32: of the parameters it has all versions, of the accumulators those of two steps under 2bw.
static void assert_versions(const zr_plan *plan, const zr_plan *one, int versions, int steps)
{
    const bool nvme = plan->settings.tiering.optimizer == ZERO_TIER_nvme;
    int64_t elements = 0, more = (steps - 1) * accumulated(one);
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        elements += plan->state_elems[t];
    assert_int_equal(plan->versions, versions);
    assert_int_equal(plan->step_sums, steps);
    assert_int_equal(on_all_tiers(plan, ZERO_MEM_parameters),
                     versions * on_all_tiers(one, ZERO_MEM_parameters));
    assert_int_equal(accumulated(plan), steps * accumulated(one));
    assert_int_equal(on_all_tiers(plan, ZERO_MEM_gradients),
                     on_all_tiers(one, ZERO_MEM_gradients) + more);
    if (!nvme) // there staging buffers, through which vectors come, are states too
        assert_int_equal(on_all_tiers(plan, ZERO_MEM_optimizer), elements * 3 * 4);
    assert_true(zr_plan_has_vector(plan, ZR_VECTOR_MASTER));
}

static void check_versions(const zr_settings *settings)
{
    static pipeline_plans dream, summed, two, one, one_of_1;
    plan_stages(ZR_PIPELINE_PIPEDREAM, 1, settings, &dream);
    plan_stages(ZR_PIPELINE_PIPEDREAM, 4, settings, &summed);
    plan_stages(ZR_PIPELINE_2BW, 4, settings, &two);
    plan_stages(ZR_PIPELINE_1F1B, 4, settings, &one);
    plan_stages(ZR_PIPELINE_1F1B, 1, settings, &one_of_1);
    for (int s = 0; s < 3; s++) {
        assert_versions(dream.plans[s], one_of_1.plans[s], 3 - s, 1);
        assert_versions(summed.plans[s], one.plans[s], s < 2 ? 2 : 1, 1);
        assert_versions(two.plans[s], one.plans[s], 2, 2);
        assert_int_equal(one.plans[s]->versions, 1);
        assert_int_equal(one.plans[s]->step_sums, 1);
    }
    pipeline_plans_free(&dream);
    pipeline_plans_free(&summed);
    pipeline_plans_free(&two);
    pipeline_plans_free(&one);
    pipeline_plans_free(&one_of_1);
}

static void asynchronous_schedules_hold_versions_and_masters(void **state)
{
    for (int tier = 0; tier < 3; tier++) // the first of program_tierings have parameters on device
        for (int stage = program_least_stage(&program_tierings[tier]); stage < 4; stage++)
            for (zero_dtype dtype = ZERO_F32; dtype <= ZERO_F16; dtype++) {
                zr_settings settings = fixture_settings(dtype, stage, 1);
                settings.tiering = program_tierings[tier];
                check_versions(&settings);
            }
}

static void test_limit(void **state)
{
    fixture f;
    fixture_build(&f, 4, 4096, 1024);
    zr_plan *plan = fixture_plan(&f, 0, 8, 1, true);
    zr_machine machine = {.ranks = 8,
                          .threads = 1,
                          .mapped = true,
                          .memory_limit = zr_plan_total_bytes(plan) / 2,
                          .memory_reason = "a test"};
    zero_error error = {0};
    assert_int_equal(zr_plan_check_memory(plan, &machine, &error), ZERO_ERR_LIMIT);
    assert_non_null(strstr(error.message, "would fit"));
    machine.memory_limit = zr_plan_total_bytes(plan);
    assert_int_equal(zr_plan_check_memory(plan, &machine, &error), ZERO_OK);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_higher_stage_holds_less),
        cmocka_unit_test(test_paper_bytes),
        cmocka_unit_test(a_farther_tier_takes_less_of_the_nearer),
        cmocka_unit_test(asynchronous_schedules_hold_versions_and_masters),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
