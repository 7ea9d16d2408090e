// Activation checkpoints that leave the device are stored when a segment's forward has ended, come
// back before the backward of the segment that they enter, and each buffer is awaited before it is
// written again.
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
        expect_between(pass, 0, pass->seam, &concern,
                       "AWAIT kept 1 | CALL forward 0 | AWAIT kept 1 | STORE kept 1"
                       " | AWAIT kept 0 | CALL forward 1 | AWAIT kept 0 | STORE kept 0"
                       " | AWAIT kept 1 | CALL forward 2"
                       " | CALL forward 3 | CALL forward_backward 4");
        expect_between(pass, pass->seam, pass->count, &concern,
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
        assert_int_equal(out->from.space, ZR_SPACE_ACTIVATION_CHECKPOINTS);
        assert_int_equal(out->from.first, plan->units[s - 1].out_first);
        assert_int_equal(out->place.space, ZR_SPACE_STORED);
        assert_int_equal(out->place.first, (s - 1) * ZR_IO_PAGE);
        assert_int_equal(out->bytes, zr_activation_checkpoint_bytes(plan, s));
        expect_place(back->place, out->from);
        expect_place(back->from, out->place);
        assert_int_equal(back->bytes, out->bytes);
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
        cmocka_unit_test(on_the_device_nothing_travels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
