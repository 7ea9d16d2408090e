// Which bytes a pass holds, and from when to when, for passes written by hand.
#include "fixture.h"
#include "pass_text.h"
#include "base/dtype.h"
#include "plan/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { RANKS = 2 };

static zr_plan *planned(zero_dtype dtype, int64_t accumulation, zero_tier tier)
{
    static fixture f;
    zr_settings settings = fixture_settings(dtype, 3, accumulation);
    settings.tiering.optimizer = settings.tiering.parameters = tier;
    fixture_build(&f, 1, 1000, 96);
    return fixture_plan_of(&f, &settings, RANKS, false);
}

// The live ranges of these instructions, as if they were the plan's evaluation.
static zr_live_ranges live_ranges_of(const zr_plan *plan, zr_instruction *at, int count)
{
    zr_plan other = *plan;
    zr_live_ranges live_ranges;
    other.program.passes[ZR_PASS_EVALUATION] = (zr_pass){.at = at, .count = count};
    assert_int_equal(zr_live_ranges_of(&other, ZR_PASS_EVALUATION, &live_ranges, NULL), ZERO_OK);
    return live_ranges;
}

static void expect_live_range(const zr_live_range *live_range, zr_buffer_ref place, int64_t bytes,
                              int from, int to)
{
    assert_string_equal(zr_buffer_names[live_range->buffer], zr_buffer_names[place.buffer]);
    assert_int_equal(live_range->first, place.first);
    assert_int_equal(live_range->bytes, bytes);
    assert_int_equal(live_range->from, from);
    assert_int_equal(live_range->to, to);
}

static zr_slot slot_of(zr_slot_kind kind, int index) { return (zr_slot){kind, index}; }

// From the gather until the unit is done with it, whatever another life of the flat parameter does
// meanwhile.
static void a_gathered_flat_param_lives_until_it_is_unbound(void **state)
{
    zr_plan *plan = planned(ZERO_F32, 1, ZERO_TIER_device);
    const zr_buffer_ref here = {ZR_BUFFER_GATHERED, 0}, there = {ZR_BUFFER_GATHERED, 5000};
    zr_instruction pass[] = {
        {.code = ZR_GATHER, .flat_param = 2, .place = here},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = slot_of(ZR_SLOT_GATHER, 2)},
        {.code = ZR_BIND, .flat_param = 2, .place = here},
        {.code = ZR_GATHER, .flat_param = 2, .place = there},
        {.code = ZR_CALL, .flat_param = -1},
        {.code = ZR_UNBIND, .flat_param = 2, .place = {ZR_BUFFER_PARAMETERS, 0}},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = slot_of(ZR_SLOT_GATHER, 2)},
        {.code = ZR_CALL, .flat_param = -1},
        {.code = ZR_UNBIND,
         .flat_param = 2,
         .place = {ZR_BUFFER_PARAMETERS, 0}}, // carries a mark alone
    };
    int64_t bytes = RANKS * zr_flat_param_shard_bytes(&plan->flat_params[2]);
    zr_live_ranges live_ranges = live_ranges_of(plan, pass, ZR_COUNT(pass));
    assert_int_equal(live_ranges.count, 2);
    expect_live_range(&live_ranges.at[0], here, bytes, 0, 5);
    expect_live_range(&live_ranges.at[1], there, bytes, 3, 6);
    assert_int_equal(zr_live_ranges_end(&live_ranges, ZR_BUFFER_GATHERED), 5000 + bytes);
    assert_int_equal(zr_live_ranges_end(&live_ranges, ZR_BUFFER_GRADIENTS), 0);
    zr_live_ranges_free(&live_ranges);
    assert_int_equal(live_ranges.count, 0);
    zr_plan_destroy(plan);
}

// In the open arena until it is rounded, in the window from then until its sum is awaited.
static void a_gradient_lives_in_two_places(void **state)
{
    zr_plan *plan = planned(ZERO_BF16, 1, ZERO_TIER_device);
    const zr_buffer_ref open = {ZR_BUFFER_OPEN_SUMS, 64}, window = {ZR_BUFFER_GRADIENTS, 128};
    zr_instruction pass[] = {
        {.code = ZR_OPEN, .flat_param = 1, .place = open},
        {.code = ZR_CALL, .flat_param = -1},
        {.code = ZR_UNBIND, .flat_param = 1, .place = {ZR_BUFFER_GRADIENTS, 0}},
        {.code = ZR_ROUND, .flat_param = 1, .from = open, .place = window},
        {.code = ZR_REDUCE, .flat_param = 1, .place = window, .slot = slot_of(ZR_SLOT_SUM, 1)},
        {.code = ZR_CALL, .flat_param = -1},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = slot_of(ZR_SLOT_SUM, 1)},
    };
    const zr_flat_param *flat_param = &plan->flat_params[1];
    zr_live_ranges live_ranges = live_ranges_of(plan, pass, ZR_COUNT(pass));
    assert_int_equal(live_ranges.count, 2);
    expect_live_range(&live_ranges.at[0], open, flat_param->padded * 4, 0, 3);
    expect_live_range(&live_ranges.at[1], window, flat_param->padded * 2, 3, 6);
    zr_live_ranges_free(&live_ranges);
    zr_plan_destroy(plan);
}

// An own shard from NVMe lies in the host's buffers until its gather has ended; a sum from when it
// is fetched, or else reduced, until it is stored.
static void what_travels_is_held_on_its_way(void **state)
{
    zr_plan *plan = planned(ZERO_BF16, 2, ZERO_TIER_nvme);
    const zr_buffer_ref shard = {ZR_BUFFER_STAGED_PARAMETERS, 32},
                        sum = {ZR_BUFFER_STAGED_SUMS, 96};
    zr_instruction pass[] = {
        {.code = ZR_FETCH, .flat_param = 1, .place = shard, .slot = slot_of(ZR_SLOT_FETCHED, 8)},
        {.code = ZR_FETCH, .flat_param = 1, .place = sum, .slot = slot_of(ZR_SLOT_TRAVELLED, 1)},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = slot_of(ZR_SLOT_FETCHED, 8)},
        {.code = ZR_GATHER, .flat_param = 1, .from = shard, .place = {ZR_BUFFER_GATHERED, 0}},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = slot_of(ZR_SLOT_GATHER, 1)},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = slot_of(ZR_SLOT_GATHER, 1)},
        {.code = ZR_REDUCE, .flat_param = 1, .place = {ZR_BUFFER_GRADIENTS, 0}},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = slot_of(ZR_SLOT_SUM, 1)},
        {.code = ZR_SQUARES, .flat_param = 1},
        {.code = ZR_STORE, .flat_param = 1, .from = sum, .slot = slot_of(ZR_SLOT_TRAVELLED, 1)},
        {.code = ZR_CALL, .flat_param = -1},
    };
    zr_flat_param *flat_param = &plan->flat_params[1];
    zr_live_ranges live_ranges = live_ranges_of(plan, pass, ZR_COUNT(pass));
    assert_int_equal(live_ranges.count, 3);
    expect_live_range(&live_ranges.at[0], shard, flat_param->shard * 2, 0, 4);
    expect_live_range(&live_ranges.at[1], sum, flat_param->shard * 4, 1, 9);
    zr_live_ranges_free(&live_ranges);
    plan->settings.accumulation = 1; // it is added to nothing
    flat_param->accumulator_first = sum.first;
    live_ranges = live_ranges_of(plan, &pass[6], 4);
    assert_int_equal(live_ranges.count, 1);
    expect_live_range(&live_ranges.at[0], sum, flat_param->shard * 4, 0, 3);
    zr_live_ranges_free(&live_ranges);
    zr_plan_destroy(plan);
}

// Contributions that leave hold their bytes until they are out, and those that return from the
// fetch on.
static void parked_contributions_are_held_while_they_travel(void **state)
{
    zr_plan *plan = planned(ZERO_BF16, 1, ZERO_TIER_device);
    const zr_buffer_ref before = {ZR_BUFFER_OPEN_SUMS, 0}, after = {ZR_BUFFER_OPEN_SUMS, 4096};
    const zr_slot parked = slot_of(ZR_SLOT_PARKED, 0);
    zr_instruction pass[] = {
        {.code = ZR_OPEN, .flat_param = 0, .place = before},
        {.code = ZR_STORE, .flat_param = 0, .from = before, .slot = parked},
        {.code = ZR_CALL, .flat_param = -1},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = parked},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = parked}, // of what has ended
        {.code = ZR_FETCH, .flat_param = 0, .place = after, .slot = parked},
        {.code = ZR_AWAIT, .flat_param = -1, .slot = parked},
        {.code = ZR_BIND, .flat_param = 0, .place = after},
        {.code = ZR_ROUND, .flat_param = 0, .from = after, .place = {ZR_BUFFER_GRADIENTS, 0}},
    };
    int64_t bytes = plan->flat_params[0].padded * 4;
    zr_live_ranges live_ranges = live_ranges_of(plan, pass, ZR_COUNT(pass));
    assert_int_equal(live_ranges.count, 3);
    expect_live_range(&live_ranges.at[0], before, bytes, 0, 3);
    expect_live_range(&live_ranges.at[1], after, bytes, 5, 8);
    zr_live_ranges_free(&live_ranges);
    zr_plan_destroy(plan);
}

// Tied copies, shards and activation checkpoints have places of their own for the whole step.
static void what_has_a_place_for_good_is_not_followed(void **state)
{
    zr_plan *plan = planned(ZERO_F32, 1, ZERO_TIER_device);
    zr_instruction pass[] = {
        {.code = ZR_GATHER, .flat_param = 0, .place = {ZR_BUFFER_PARAMETERS, 0}},
        {.code = ZR_GATHER, .flat_param = 0}, // it is here already
        {.code = ZR_FETCH, .flat_param = -1, .place = {ZR_BUFFER_ACTIVATION_CHECKPOINTS, 0}},
    };
    zr_live_ranges live_ranges = live_ranges_of(plan, pass, ZR_COUNT(pass));
    assert_int_equal(live_ranges.count, 0);
    zr_live_ranges_free(&live_ranges);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gathered_flat_param_lives_until_it_is_unbound),
        cmocka_unit_test(a_gradient_lives_in_two_places),
        cmocka_unit_test(what_travels_is_held_on_its_way),
        cmocka_unit_test(parked_contributions_are_held_while_they_travel),
        cmocka_unit_test(what_has_a_place_for_good_is_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
