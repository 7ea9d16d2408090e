// The life of a gradient: opened before its first contribution, sealed after its last, reduced,
// awaited.
#include "fixture.h"
#include "pass_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const pass_concern way = {
    .codes = BIT(ZR_OPEN) | BIT(ZR_CALL) | BIT(ZR_UNBIND) | BIT(ZR_ROUND) | BIT(ZR_REDUCE) |
             BIT(ZR_AWAIT),
    .slots = BIT(ZR_SLOT_SUM),
    .buffers = BIT(ZR_BUFFER_GRADIENTS),
};
static const pass_concern exchange = {
    .codes = BIT(ZR_ROUND) | BIT(ZR_OPEN) | BIT(ZR_REDUCE) | BIT(ZR_AWAIT),
    .slots = BIT(ZR_SLOT_READERS) | BIT(ZR_SLOT_GROUP) | BIT(ZR_SLOT_SUM),
};

static zr_plan *planned(const zr_settings *settings)
{
    static fixture f;
    fixture_build(&f, 1, 1000, 96);
    return fixture_plan_of(&f, settings, 2, true);
}

// From the first that is opened on.
static void expect_backward(const zr_plan *plan, const pass_concern *concern, const char *expected)
{
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    expect_between(pass, find_instruction(pass, ZR_BIND, 2, 0), pass->count, concern, expected);
}

// Flat parameter 0 collects from the head to the embedding, flat parameter 1 and 2 from one unit
// each. In slots a sum is awaited while the next visit's is under way.
static void slots_are_reduced_while_the_next_unit_computes(void **state)
{
    const zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    zr_plan *plan = planned(&settings);
    expect_backward(plan, &way,
                    "OPEN 2 | OPEN 0 | CALL forward_backward 2 | UNBIND 2 gradients | REDUCE 2"
                    " | OPEN 1 | CALL backward 1 | UNBIND 1 gradients | REDUCE 1 | AWAIT sum 2"
                    " | CALL backward 0 | UNBIND 0 gradients | REDUCE 0 | AWAIT sum 1"
                    " | AWAIT sum 0");
    zr_plan_destroy(plan);
}

static void whole_gradients_wait_up_to_the_bucket(void **state)
{
    zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    const pass_concern sums = {BIT(ZR_REDUCE) | BIT(ZR_AWAIT), BIT(ZR_SLOT_SUM), 0};
    zr_plan *plan = planned(&settings);
    expect_backward(plan, &sums,
                    "REDUCE 2 | REDUCE 1 | REDUCE 0 | AWAIT sum 2 | AWAIT sum 1 | AWAIT sum 0");
    zr_plan_destroy(plan);
    settings.reduce_bucket = 1;
    plan = planned(&settings);
    expect_backward(plan, &sums,
                    "REDUCE 2 | AWAIT sum 2 | REDUCE 1 | AWAIT sum 1 | REDUCE 0 | AWAIT sum 0");
    zr_plan_destroy(plan);
}

// In fp32 units add up in the window itself, which has to be free when the flat parameter is
// opened.
static void the_window_is_free_before_it_is_written(void **state)
{
    zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    zr_plan *plan = planned(&settings);
    expect_backward(plan, &exchange,
                    "AWAIT readers 2 | OPEN 2 | AWAIT readers 0 | OPEN 0 | REDUCE 2"
                    " | AWAIT readers 1 | OPEN 1 | REDUCE 1"
                    " | REDUCE 0 | AWAIT sum 2 | AWAIT sum 1 | AWAIT sum 0");
    zr_plan_destroy(plan);
    settings = fixture_settings(ZERO_BF16, 1, 1);
    plan = planned(&settings);
    expect_backward(plan, &exchange,
                    "OPEN 2 | OPEN 0 | AWAIT readers 2 | ROUND 2 | REDUCE 2"
                    " | OPEN 1 | AWAIT readers 1 | ROUND 1 | REDUCE 1"
                    " | AWAIT readers 0 | ROUND 0 | REDUCE 0"
                    " | AWAIT sum 2 | AWAIT sum 1 | AWAIT sum 0");
    zr_plan_destroy(plan);
}

static void what_is_rounded_is_what_was_opened(void **state)
{
    const zr_settings settings = fixture_settings(ZERO_BF16, 2, 1);
    zr_plan *plan = planned(&settings);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    for (int p = 0; p < 3; p++) {
        const zr_instruction *open = &pass->at[find_instruction(pass, ZR_OPEN, p, 0)];
        const zr_instruction *round = &pass->at[find_instruction(pass, ZR_ROUND, p, 0)];
        const zr_instruction *reduce = &pass->at[find_instruction(pass, ZR_REDUCE, p, 0)];
        assert_int_equal(open->place.buffer, ZR_BUFFER_OPEN_SUMS);
        expect_place(round->from, open->place);
        assert_int_equal(reduce->place.buffer, ZR_BUFFER_GRADIENTS);
        expect_place(reduce->place, round->place);
        assert_int_equal(reduce->bytes, zr_flat_param_gradient_shard_bytes(&plan->flat_params[p]));
    }
    zr_plan_destroy(plan);
}

// An update beside the step still reads the sum of the step before: each flat parameter waits for
// its own group.
static void a_delayed_update_has_read_the_sum_before_it_is_overwritten(void **state)
{
    zr_settings settings = fixture_settings(ZERO_F32, 2, 2);
    settings.delayed = true;
    settings.tiering = (zr_tiering){.optimizer = ZERO_TIER_host, .sub_group = ZR_EACH_PARAMETER};
    zr_plan *plan = planned(&settings);
    const pass_concern joins = {BIT(ZR_REDUCE) | BIT(ZR_AWAIT), BIT(ZR_SLOT_GROUP), 0};
    assert_int_equal(plan->shard_slices[plan->flat_params[1].shard_slice_first].group, 1);
    assert_int_equal(plan->shard_slices[plan->flat_params[2].shard_slice_first].group,
                     plan->group_count - 1);
    assert_int_equal(plan->group_count, 4);
    expect_backward(plan, &joins,
                    "AWAIT group 3 if first | REDUCE 2 | AWAIT group 1 if first | REDUCE 1"
                    " | AWAIT group 0 if first | REDUCE 0");
    zr_plan_destroy(plan);
}

// Squares of what lies in memory are taken at the boundary, of what goes on to NVMe before it
// leaves.
static void squares_are_taken_where_the_sum_is_at_hand(void **state)
{
    const pass_concern squares = {BIT(ZR_SQUARES), 0, 0};
    zr_settings settings = fixture_settings(ZERO_BF16, 2, 1);
    zr_plan *plan = planned(&settings);
    expect_pass(&plan->program.passes[ZR_PASS_MICRO_BATCH], &squares, "");
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &squares,
                "SQUARES 0 | SQUARES 1 | SQUARES 2");
    zr_plan_destroy(plan);
    settings.tiering.optimizer = ZERO_TIER_nvme;
    plan = planned(&settings);
    expect_pass(&plan->program.passes[ZR_PASS_MICRO_BATCH], &squares,
                "SQUARES 2 if last | SQUARES 1 if last | SQUARES 0 if last");
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &squares, "");
    zr_plan_destroy(plan);
}

static bool share_bytes(const zr_plan *plan, int p, int q)
{
    const zr_flat_param *a = &plan->flat_params[p], *b = &plan->flat_params[q];
    return a->grad_first < b->grad_first + b->padded * 4 &&
           b->grad_first < a->grad_first + a->padded * 4;
}

// What is summed while a unit runs forward again is awaited there; the unit's own gradient, which
// is opened after that, lies elsewhere, so that it does not wait for readers of that sum.
static void a_unit_that_runs_again_has_bytes_of_its_own(void **state)
{
    zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    int call = -1, pairs = 0;
    fixture f;
    fixture_build_streamed(&f, 3, 1000, 96);
    settings.activation_checkpoints = 3;
    zr_plan *plan = fixture_plan_of(&f, &settings, 2, true);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    for (int i = 0; i < pass->count; i++) {
        const zr_instruction *open = &pass->at[i];
        if (open->code == ZR_CALL)
            call = open->what == ZR_CALL_AGAIN ? i : -1;
        for (int k = call; k >= 0 && k < i && open->code == ZR_OPEN; k++)
            if (pass->at[k].code == ZR_AWAIT && pass->at[k].slot.kind == ZR_SLOT_SUM) {
                assert_false(share_bytes(plan, open->flat_param, pass->at[k].slot.index));
                pairs++;
            }
    }
    assert_true(pairs > 0);
    zr_plan_destroy(plan);
}

static void what_is_frozen_or_a_buffer_has_no_norm(void **state)
{
    const pass_concern concern = {BIT(ZR_OPEN) | BIT(ZR_REDUCE) | BIT(ZR_SQUARES), 0, 0};
    fixture f;
    fixture_build(&f, 2, 1000, 96);
    f.flat_params[1].kind = ZERO_FROZEN;
    f.flat_params[2].kind = ZERO_BUFFER;
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    expect_pass(&plan->program.passes[ZR_PASS_MICRO_BATCH], &concern,
                "OPEN 3 | OPEN 0 | REDUCE 3 | OPEN 2 | REDUCE 2 | REDUCE 0");
    expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &concern, "SQUARES 0 | SQUARES 3");
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_reduced_while_the_next_unit_computes),
        cmocka_unit_test(whole_gradients_wait_up_to_the_bucket),
        cmocka_unit_test(the_window_is_free_before_it_is_written),
        cmocka_unit_test(what_is_rounded_is_what_was_opened),
        cmocka_unit_test(a_delayed_update_has_read_the_sum_before_it_is_overwritten),
        cmocka_unit_test(squares_are_taken_where_the_sum_is_at_hand),
        cmocka_unit_test(a_unit_that_runs_again_has_bytes_of_its_own),
        cmocka_unit_test(what_is_frozen_or_a_buffer_has_no_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
