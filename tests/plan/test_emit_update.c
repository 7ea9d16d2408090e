// From the end of backward to new parameters: the norm on every rank, means, groups and copies, in
// this order.
#include "pass_text.h"
#include "pipeline_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const pass_concern all = {~0u, ~0u, ~0u};

static zr_plan *planned(int stage, bool delayed, zero_tier optimizer)
{
    static fixture f;
    zr_settings settings = fixture_settings(ZERO_F32, stage, 1);
    fixture_build(&f, 1, 1000, 96);
    f.flat_params[1].kind = ZERO_BUFFER;
    settings.delayed = delayed;
    settings.tiering.optimizer = optimizer;
    return fixture_plan_of(&f, &settings, 2, true);
}

static void scalars_are_summed_when_the_norm_is_known(void **state)
{
    zr_plan *plan = planned(2, false, ZERO_TIER_device);
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &all,
                "SQUARES 0 | SQUARES 2 | SCALARS all");
    zr_plan_destroy(plan);
    plan = planned(2, false, ZERO_TIER_nvme); // squares were taken before the sums left
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &all,
                "AWAIT travelled 0 | AWAIT travelled 2 | SCALARS all");
    zr_plan_destroy(plan);
    plan = planned(0, false, ZERO_TIER_device); // first gradients become whole
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &all,
                "AWAIT readers 0 | GATHER 0 | AWAIT readers 1 | GATHER 1 | AWAIT readers 2"
                " | GATHER 2"
                " | AWAIT gather 0 | AWAIT gather 1 | AWAIT gather 2"
                " | SQUARES 0 | SQUARES 2 | SCALARS all");
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
                "AWAIT group -1 | SQUARES 0 | SQUARES 2 | SCALARS all");
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

// Three pipeline stages of a unit each, which has one flat parameter, on 2 data ranks.
static void plan_stages(zr_pipeline_kind kind, int stage, pipeline_plans *out)
{
    static pipeline_model model;
    const zr_pipeline pipeline = pipeline_of(kind, 3, 1, 4);
    const zr_settings settings = fixture_settings(ZERO_F32, stage, 4);
    const zr_machine machine = {.ranks = 2, .threads = 1, .mapped = true};
    pipeline_build(&model, 1, (pipeline_style){0});
    pipeline_plans_make(&model.f.model, &pipeline, &settings, &machine, out);
}

static void expect_stage(const pipeline_plans *plans, int stage, zr_pass_kind kind,
                         const char *expected)
{
    expect_pass(&plans->plans[stage]->program.passes[kind], &all, expected);
}

// All stages but the first send it their sums of a step, and it sends the total back; they take it
// when they update.
static void the_first_pipeline_stage_adds_up_the_sums_of_2bw(void **state)
{
    static pipeline_plans plans;
    plan_stages(ZR_PIPELINE_2BW, 2, &plans);
    expect_stage(&plans, 0, ZR_PASS_BOUNDARY,
                 "SQUARES 0 | SCALARS stage"
                 " | RECEIVE 4 | SCALARS add 4 | GIVE 4 | RECEIVE 6 | SCALARS add 6 | GIVE 6"
                 " | TAKE 5 | SCALARS give 5 | SEND 5 | TAKE 7 | SCALARS give 7 | SEND 7");
    expect_stage(&plans, 1, ZR_PASS_BOUNDARY,
                 "SQUARES 0 | SCALARS stage | TAKE 4 | SCALARS give 4 | SEND 4");
    expect_stage(&plans, 2, ZR_PASS_BOUNDARY,
                 "SQUARES 0 | SCALARS stage | TAKE 6 | SCALARS give 6 | SEND 6");
    expect_stage(&plans, 0, ZR_PASS_TOTAL, "");
    expect_stage(&plans, 1, ZR_PASS_TOTAL, "RECEIVE 5 | SCALARS take 5 | GIVE 5");
    expect_stage(&plans, 2, ZR_PASS_TOTAL, "RECEIVE 7 | SCALARS take 7 | GIVE 7");
    pipeline_plans_free(&plans);
}

// Nor is a whole gradient gathered there.
static void nothing_is_sent_at_the_end_of_a_step_of_pipedream(void **state)
{
    static pipeline_plans plans;
    for (int stage = 0; stage <= 2; stage += 2) {
        plan_stages(ZR_PIPELINE_PIPEDREAM, stage, &plans);
        for (int s = 0; s < plans.count; s++) {
            expect_stage(&plans, s, ZR_PASS_BOUNDARY, "SQUARES 0 | SCALARS stage");
            expect_stage(&plans, s, ZR_PASS_TOTAL, "");
        }
        pipeline_plans_free(&plans);
    }
}

// Parameters are made from the master in a walk of their own. What an update needs of all data
// ranks comes with it, because other micro-batches come between it and the end of its step.
static void an_asynchronous_update_gathers_and_copies(void **state)
{
    static const zr_pipeline_kind kinds[] = {ZR_PIPELINE_PIPEDREAM, ZR_PIPELINE_2BW};
    for (int k = 0; k < ZR_COUNT(kinds); k++)
        for (int stage = 0; stage <= 2; stage += 2) {
            static pipeline_plans plans;
            plan_stages(kinds[k], stage, &plans);
            for (int s = 0; s < plans.count; s++)
                expect_stage(&plans, s, ZR_PASS_UPDATE,
                             stage ? "AWAIT readers 0 if changed"
                                     " | UPDATE groups if at once | UPDATE copy if behind"
                                   : "AWAIT readers 0 | GATHER 0 | AWAIT gather 0"
                                     " | UPDATE groups if at once | UPDATE copy if behind");
            pipeline_plans_free(&plans);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_summed_when_the_norm_is_known),
        cmocka_unit_test(means_come_before_groups),
        cmocka_unit_test(a_delayed_update_copies_what_is_behind_and_begins_at_the_end),
        cmocka_unit_test(the_first_pipeline_stage_adds_up_the_sums_of_2bw),
        cmocka_unit_test(nothing_is_sent_at_the_end_of_a_step_of_pipedream),
        cmocka_unit_test(an_asynchronous_update_gathers_and_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
