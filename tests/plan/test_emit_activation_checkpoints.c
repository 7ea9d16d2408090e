// Activation checkpoints that leave the device are stored when a segment's forward has ended, come
// back before the backward of the segment that they enter, and each buffer is awaited before it is
// written again. Of those that tensor ranks divide, shares come and go, and are brought together
// before the segment runs again.
#include "fixture.h"
#include "pass_text.h"
#include "plan/plan_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const pass_concern concern = {
    .codes = BIT(ZR_FETCH) | BIT(ZR_STORE) | BIT(ZR_AWAIT) | BIT(ZR_CALL),
    .slots = BIT(ZR_SLOT_KEPT),
};

// Four units and the last: [0] c1 [1] c2 [2] c3 [3] last.
static zr_plan *planned(zero_tier tier)
{
    static fixture f;
    zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    fixture_build(&f, 3, 1000, 96);
    settings.activation_checkpoints = 4;
    settings.activation_checkpoint_tier = tier;
    return fixture_plan_of(&f, &settings, 2, true);
}

// c1 and c3 have buffer 1, c2 has buffer 0; c3 stays in its own until backward begins.
static void each_leaves_after_forward_and_is_back_before_backward(void **state)
{
    for (zero_tier tier = ZERO_TIER_host; tier <= ZERO_TIER_nvme; tier++) {
        zr_plan *plan = planned(tier);
        const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
        expect_between(pass, 0, pass->forward_end, &concern,
                       "AWAIT kept 1 | CALL forward 0 | AWAIT kept 1 | STORE kept 1"
                       " | AWAIT kept 0 | CALL forward 1 | AWAIT kept 0 | STORE kept 0"
                       " | AWAIT kept 1 | CALL forward 2"
                       " | CALL forward 3 | CALL forward_backward 4");
        expect_between(pass, pass->forward_end, pass->count, &concern,
                       "AWAIT kept 1 | AWAIT kept 0 | FETCH kept 0 | CALL backward 3"
                       " | AWAIT kept 0 | AWAIT kept 1 | FETCH kept 1"
                       " | CALL forward again 2 | CALL backward 2"
                       " | AWAIT kept 1 | CALL forward again 1 | CALL backward 1"
                       " | AWAIT kept 0 | CALL forward again 0 | CALL backward 0");
        zr_plan_destroy(plan);
    }
}

static void what_was_stored_comes_back_to_where_it_lay(void **state)
{
    zr_plan *plan = planned(ZERO_TIER_nvme);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    for (int s = 1; s <= 2; s++) {
        const zr_instruction *out = &pass->at[find_instruction(pass, ZR_STORE, -1, s - 1)];
        const zr_instruction *back = &pass->at[find_instruction(pass, ZR_FETCH, -1, 2 - s)];
        assert_int_equal(out->from.buffer, ZR_BUFFER_ACTIVATION_CHECKPOINTS);
        assert_int_equal(out->from.first, plan->units[s - 1].out_first);
        assert_int_equal(out->place.buffer, ZR_BUFFER_STORED);
        assert_int_equal(out->place.first, (s - 1) * ZR_IO_PAGE);
        assert_int_equal(out->bytes, zr_activation_checkpoint_bytes(plan, s));
        expect_place(back->place, out->from);
        expect_place(back->from, out->place);
        assert_int_equal(back->bytes, out->bytes);
    }
    zr_plan_destroy(plan);
}

// The same on rank 2 of four tensor ranks, which divide activation checkpoints.
static zr_plan *divided(zero_tier tier)
{
    static fixture whole, part;
    zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    fixture_build(&whole, 3, 1000, 96);
    fixture_cut(&part, &whole, 2, 4);
    settings.activation_checkpoints = 4;
    settings.activation_checkpoint_tier = tier;
    settings.partition_activations = true;
    return fixture_plan_set(&part, &settings, 2, 2, 4);
}

static void shares_are_brought_together_before_a_segment_runs_again(void **state)
{
    const pass_concern with_joins = {.codes = concern.codes | BIT(ZR_JOIN), .slots = concern.slots};
    for (zero_tier tier = ZERO_TIER_device; tier <= ZERO_TIER_nvme; tier++) {
        zr_plan *plan = divided(tier);
        const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
        expect_between(pass, 0, pass->forward_end, &with_joins,
                       "AWAIT kept 1 | CALL forward 0 | AWAIT kept 1 | STORE kept 1"
                       " | AWAIT kept 0 | CALL forward 1 | AWAIT kept 0 | STORE kept 0"
                       " | AWAIT kept 1 | CALL forward 2"
                       " | CALL forward 3 | CALL forward_backward 4");
        expect_between(pass, pass->forward_end, pass->count, &with_joins,
                       "AWAIT kept 1 | AWAIT kept 0 | FETCH kept 0 | CALL backward 3"
                       " | AWAIT kept 0 | AWAIT kept 1 | FETCH kept 1 | JOIN"
                       " | CALL forward again 2 | CALL backward 2"
                       " | AWAIT kept 1 | JOIN | CALL forward again 1 | CALL backward 1"
                       " | AWAIT kept 0 | CALL forward again 0 | CALL backward 0");
        zr_plan_destroy(plan);
    }
}

static void each_rank_stores_its_own_part_of_the_buffer(void **state)
{
    zr_plan *plan = divided(ZERO_TIER_device);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    for (int s = 1; s <= 2; s++) {
        const zr_instruction *out = &pass->at[find_instruction(pass, ZR_STORE, -1, s - 1)];
        const zr_instruction *back = &pass->at[find_instruction(pass, ZR_FETCH, -1, 2 - s)];
        const zr_instruction *join = &pass->at[find_instruction(pass, ZR_JOIN, -1, 2 - s)];
        int64_t share = zr_activation_checkpoint_bytes(plan, s);
        assert_int_equal(out->from.first, plan->units[s - 1].out_first + 2 * share);
        assert_int_equal(out->place.first, (s - 1) * share);
        assert_int_equal(out->bytes, share);
        expect_place(back->place, out->from);
        expect_place(back->from, out->place);
        expect_place(join->from, out->from);
        assert_int_equal(join->place.buffer, ZR_BUFFER_ACTIVATION_CHECKPOINTS);
        assert_int_equal(join->place.first, plan->units[s - 1].out_first);
        assert_int_equal(join->bytes, 3 * share);
    }
    zr_plan_destroy(plan);
}

static void on_the_device_nothing_travels(void **state)
{
    const pass_concern moves = {
        .codes = BIT(ZR_FETCH) | BIT(ZR_STORE) | BIT(ZR_AWAIT),
        .slots = BIT(ZR_SLOT_KEPT),
    };
    zr_plan *plan = planned(ZERO_TIER_device);
    expect_pass(&plan->program.passes[ZR_PASS_MICRO_BATCH], &moves, "");
    zr_plan_destroy(plan);
    plan = planned(ZERO_TIER_host);
    expect_pass(&plan->program.passes[ZR_PASS_EVALUATION], &moves, ""); // it has no backward
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_leaves_after_forward_and_is_back_before_backward),
        cmocka_unit_test(what_was_stored_comes_back_to_where_it_lay),
        cmocka_unit_test(shares_are_brought_together_before_a_segment_runs_again),
        cmocka_unit_test(each_rank_stores_its_own_part_of_the_buffer),
        cmocka_unit_test(on_the_device_nothing_travels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
