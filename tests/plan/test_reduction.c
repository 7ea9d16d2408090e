// When gradients are sealed and reduced, found by a replay of backward.
#include "fixture.h"
#include "pass_text.h"
#include "program_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

// Replays backward: each gradient is reduced once and not before it is sealed, no two live ones
// overlap, and the ceiling holds.
static void check_windows(const zr_plan *plan)
{
    for (int v = 0; v < plan->visit_count; v++) {
        int64_t waiting = 0;
        for (int p = 0; p < plan->flat_param_count; p++) {
            const zr_flat_param *a = &plan->flat_params[p];
            assert_true(a->reduced_after >= a->sealed_at && a->reduced_after < plan->visit_count);
            assert_int_equal(plan->visits[a->sealed_at].unit, a->last_backward);
            if (a->sealed_at <= v && a->reduced_after > v)
                waiting += a->padded;
        }
        assert_true(waiting <= plan->settings.reduce_bucket);
    }
    program_check_live_ranges(plan);
}

static void test_windows(void **state) { fixture_for_stages(check_windows); }

// Several micro-batches meet in fp32; stage 0 gathers their sum, which is then wider than the
// window that it came through.
static void test_accumulators(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *one = fixture_plan_in(&f, ZERO_BF16, 0, 2, 1, true),
            *many = fixture_plan_in(&f, ZERO_BF16, 0, 2, 4, true);
    assert_int_equal(one->accumulator_bytes[ZERO_TIER_device], 0);
    assert_int_equal(one->whole_bytes, 0);
    assert_int_equal(many->whole_bytes, 2 * many->grad_bytes);
    assert_int_equal(many->accumulator_bytes[ZERO_TIER_device] * 2, many->whole_bytes);
    assert_int_equal(one->traffic[ZR_PASS_BOUNDARY].data.bytes[ZERO_COMM_all_gather] * 2,
                     many->traffic[ZR_PASS_BOUNDARY].data.bytes[ZERO_COMM_all_gather]);
    zr_plan_destroy(one);
    zr_plan_destroy(many);
}

// The drawing of src/plan/reduction.c: h.1 lies where h.3 lay, in 16 bits h.2 adds up where h.3
// did.
static void places_are_given_back(void **state)
{
    fixture f;
    fixture_build(&f, 4, 1000, 100);
    zr_plan *plan = fixture_plan_in(&f, ZERO_F32, 2, 2, 1, true);
    const zr_flat_param *h = &plan->flat_params[1];
    assert_int_equal(h[1].grad_first, h[3].grad_first);
    assert_int_equal(h[0].grad_first, h[2].grad_first);
    assert_int_not_equal(h[2].grad_first, h[3].grad_first);
    zr_plan_destroy(plan);
    plan = fixture_plan_in(&f, ZERO_BF16, 2, 2, 1, true);
    h = &plan->flat_params[1];
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    for (int p = 1; p < 4; p++)
        expect_place(pass->at[find_instruction(pass, ZR_OPEN, p, 0)].place,
                     pass->at[find_instruction(pass, ZR_OPEN, 4, 0)].place);
    assert_true(h[1].grad_first < h[2].grad_first); // where the head and h.3 lay
    zr_plan_destroy(plan);
}

static void a_small_bucket_lets_nothing_wait(void **state)
{
    fixture f;
    zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    settings.reduce_bucket = 1;
    fixture_build(&f, 4, 1000, 100);
    zr_plan *plan = fixture_plan_of(&f, &settings, 2, true);
    check_windows(plan);
    for (int p = 0; p < plan->flat_param_count; p++)
        assert_int_equal(plan->flat_params[p].reduced_after, plan->flat_params[p].sealed_at);
    zr_plan_destroy(plan);
}

// Two blocks fit into the bucket exactly: with a third one, the oldest is reduced and no other.
static void only_what_exceeds_the_bucket_is_reduced(void **state)
{
    fixture f;
    zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    int early = 0;
    fixture_build(&f, 6, 1000, 100);
    zr_plan *plan = fixture_plan_of(&f, &settings, 2, true);
    settings.reduce_bucket = 2 * plan->flat_params[1].padded;
    zr_plan_destroy(plan);
    plan = fixture_plan_of(&f, &settings, 2, true);
    check_windows(plan);
    for (int v = 0; v < plan->visit_count - 1; v++) {
        int64_t waiting = 0;
        for (int p = 0; p < plan->flat_param_count; p++)
            if (plan->flat_params[p].sealed_at <= v && plan->flat_params[p].reduced_after >= v)
                waiting += plan->flat_params[p].padded;
        for (int i = 0; i < plan->sealed_count; i++) {
            const zr_flat_param *flat_param = &plan->flat_params[plan->sealed[i]];
            if (flat_param->reduced_after != v)
                continue;
            assert_true(waiting > settings.reduce_bucket);
            waiting -= flat_param->padded;
            early++;
        }
    }
    assert_true(early > 2);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_accumulators),
        cmocka_unit_test(places_are_given_back),
        cmocka_unit_test(a_small_bucket_lets_nothing_wait),
        cmocka_unit_test(only_what_exceeds_the_bucket_is_reduced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
