// From the end of backward to new parameters: the norm on every rank, means, groups and copies, in
// this order.
#include "fixture.h"
#include "pass_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const pass_concern all = {~0u, ~0u, ~0u};

static zr_plan *planned(int stage, bool delayed, zero_tier optimizer)
{
    static fixture f;
    zr_settings settings = fixture_settings(ZERO_F32, stage, 1);
    fixture_build(&f, 1, 1000, 96);
    f.pieces[1].kind = ZERO_BUFFER;
    settings.delayed = delayed;
    settings.tiering.optimizer = optimizer;
    return fixture_plan_of(&f, &settings, 2, true);
}

static void scalars_are_summed_when_the_norm_is_known(void **state)
{
    zr_plan *plan = planned(2, false, ZERO_TIER_device);
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &all, "SQUARES 0 | SQUARES 2 | SCALARS");
    zr_plan_destroy(plan);
    plan = planned(2, false, ZERO_TIER_nvme); // squares were taken before the sums left
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &all,
                "AWAIT travelled 0 | AWAIT travelled 2 | SCALARS");
    zr_plan_destroy(plan);
    plan = planned(0, false, ZERO_TIER_device); // first gradients become whole
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &all,
                "AWAIT readers 0 | GATHER 0 | AWAIT readers 1 | GATHER 1 | AWAIT readers 2"
                " | GATHER 2"
                " | AWAIT gather 0 | AWAIT gather 1 | AWAIT gather 2"
                " | SQUARES 0 | SQUARES 2 | SCALARS");
    zr_plan_destroy(plan);
}

static void means_come_before_groups(void **state)
{
    zr_plan *plan = planned(2, false, ZERO_TIER_device);
    expect_pass(&plan->program.passes[ZR_PASS_UPDATE], &all,
                "AWAIT readers 0 if changed | AWAIT readers 1 if changed"
                " | AWAIT readers 2 if changed"
                " | UPDATE mean 1 if finite | UPDATE groups if at once");
    zr_plan_destroy(plan);
    plan = planned(0, false, ZERO_TIER_device);
    expect_pass(&plan->program.passes[ZR_PASS_UPDATE], &all,
                "UPDATE mean 1 if finite | UPDATE groups if at once");
    zr_plan_destroy(plan);
}

// The update before has ended when the norm is taken; parameters are copied from the master; then
// the next begins, and its group 0 is the last.
static void a_delayed_update_copies_what_is_behind_and_begins_at_the_end(void **state)
{
    zr_plan *plan = planned(2, true, ZERO_TIER_device);
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &all,
                "AWAIT group -1 | SQUARES 0 | SQUARES 2 | SCALARS");
    expect_pass(&plan->program.passes[ZR_PASS_UPDATE], &all,
                "AWAIT readers 0 if changed | AWAIT readers 1 if changed"
                " | AWAIT readers 2 if changed"
                " | UPDATE mean 1 if finite | UPDATE groups if at once | UPDATE copy if behind");
    const zr_pass *publish = &plan->program.passes[ZR_PASS_PUBLISH];
    expect_pass(publish, &all,
                "GATHER 0 | GATHER 1 | GATHER 2 | AWAIT gather 0 | AWAIT gather 1 | AWAIT gather 2"
                " | UPDATE groups if beside");
    assert_int_equal(publish->at[publish->count - 1].slot.kind, ZR_SLOT_GROUP);
    assert_int_equal(publish->at[publish->count - 1].slot.index, 0);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_summed_when_the_norm_is_known),
        cmocka_unit_test(means_come_before_groups),
        cmocka_unit_test(a_delayed_update_copies_what_is_behind_and_begins_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
