// Ranks on a grid: what a job computes does not depend on ranks that hold the same once more, and
// every use of a communicator takes the group that it means.
#include "harness.h"

#include "engine/engine_inner.h"
#include "engine/rank_grid.h"
#include "setup/initialize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zero/grid.h>
#include <cmocka.h>

static void twice_is_the_same(harness_case c)
{
    static harness_result once, twice;
    c.twice = false;
    harness_run(&c, &once);
    c.twice = true;
    harness_run(&c, &twice);
    assert_true(harness_equal(&once, &twice));
    assert_int_equal(once.skipped, twice.skipped);
    harness_expect_held(&once);
    harness_expect_held(&twice);
    assert_memory_equal(&once.memory, &twice.memory, sizeof once.memory);
    static const zero_comm_op moved[] = {ZERO_COMM_reduce_scatter, ZERO_COMM_all_gather};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(once.traffic.calls[moved[i]], twice.traffic.calls[moved[i]]);
        assert_int_equal(once.traffic.bytes[moved[i]], twice.traffic.bytes[moved[i]]);
    }
}

static void stages_are_the_same_twice(void **state)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 3; ranks++)
            twice_is_the_same((harness_case){.stage = stage,
                                             .ranks = ranks,
                                             .accumulation = 2,
                                             .batch = 2,
                                             .dropout = 0.1f,
                                             .clipping = 0.5});
}

static void numbers_over_all_ranks_count_once(void **state)
{
    const harness_case c = {.stage = 2, .ranks = 2, .accumulation = 2, .batch = 2};
    harness_case lamb = c, masked = c, fp16 = c, bf16 = c;
    lamb.optimizer = "LAMB";
    masked.masked = true;
    fp16.precision = "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 40}";
    bf16.precision = "\"bf16\": {\"enabled\": true}";
    twice_is_the_same(lamb);
    twice_is_the_same(masked);
    twice_is_the_same(fp16);
    twice_is_the_same(bf16);
}

static void tiers_are_the_same_twice(void **state)
{
    harness_case c = {.stage = 3, .ranks = 2, .accumulation = 2, .batch = 2, .overlap = true};
    c.tiers = harness_tiers(ZERO_TIER_nvme, ZERO_TIER_nvme);
    twice_is_the_same(c);
    c.optimizer = "LAMB";
    c.tiers = harness_tiers(ZERO_TIER_host, ZERO_TIER_host);
    twice_is_the_same(c);
}

static void expect_place(const zero_engine *engine, zero_axis axis, int rank, int size)
{
    int r = -1, s = -1;
    zero_grid_of(engine, axis, &r, &s);
    assert_int_equal(r, rank);
    assert_int_equal(s, size);
    zero_grid_of(engine, axis, NULL, NULL);
}

static zero_status expect_places(zero_engine *engine, int step, zero_error *error)
{
    int world = zr_engine_comm(engine)->rank;
    int64_t number;
    zero_position(engine, NULL, &number);
    expect_place(engine, ZERO_AXIS_tensor, world % 2, 2);
    expect_place(engine, ZERO_AXIS_data, world / 2, 3);
    expect_place(engine, ZERO_AXIS_pipeline, 0, 1);
    expect_place(engine, ZERO_AXIS_COUNT, 0, 0);
    assert_int_equal(number, world / 2);
    assert_int_equal(zr_engine_plan(engine)->world, 6);
    assert_int_equal(zr_engine_plan(engine)->ranks, 3);
    return ZERO_OK;
}

static zero_status expect_one_group(zero_engine *engine, int step, zero_error *error)
{
    const zr_grid *grid = zr_engine_grid(engine);
    expect_place(engine, ZERO_AXIS_tensor, 0, 1);
    expect_place(engine, ZERO_AXIS_data, grid->world->rank, 3);
    assert_ptr_equal(grid->data, grid->world);
    assert_null(grid->tensor);
    return ZERO_OK;
}

static void ranks_know_their_places(void **state)
{
    static harness_result out;
    harness_case c = {.stage = 1, .ranks = 3, .accumulation = 1, .batch = 1};
    c.after = expect_places;
    c.twice = true;
    harness_run(&c, &out);
    c.after = expect_one_group;
    c.twice = false;
    harness_run(&c, &out);
    expect_place(NULL, ZERO_AXIS_tensor, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_the_same_twice),
        cmocka_unit_test(numbers_over_all_ranks_count_once),
        cmocka_unit_test(tiers_are_the_same_twice),
        cmocka_unit_test(ranks_know_their_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
