// Bytes by category and tier: those of the papers, less on the nearer tier if a farther one is
// used, and refusals where they do not fit.
#include "fixture.h"
#include "plan/state_formulas.h"

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
            const zr_state_policy *policy = dtype == ZERO_F32 ? &zr_state_fp32 : &zr_state_mixed;
            zr_state_bytes paper = zr_states_of_rank(policy, (double)plan->parameters, stage, 8);
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
    assert_int_equal(nvme->slab.count, 3);
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
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
