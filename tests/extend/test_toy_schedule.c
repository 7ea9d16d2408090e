// A toy schedule: accumulation without overlap. The gradients that a unit seals are summed before
// the next unit runs, so no sum is made while units compute; the difference in time is what a step
// gains from overlapping. Sums are made in the same order, so no bit changes.
#include "plan/emit.h"
#include "plan/plan_parts.h"
#include "program_checks.h"
#include "toy.h"

#include <limits.h>

static void emit_micro_batch(zr_emitter *e)
{
    const zr_plan *plan = e->plan;
    int units = 0;
    for (int v = 0; v < plan->visit_count; v = plan->visits[v].turn_end + 1, units++) {
        if (units == plan->unit_count)
            e->pass->forward_end = e->pass->count;
        zr_emit_turn(e, v, units < plan->unit_count);
        zr_emit_reductions_end(e, INT_MAX);
    }
    if (units == plan->unit_count)
        e->pass->forward_end = e->pass->count;
}

static const zr_order_emitter one_by_one = {
    .micro_batch = emit_micro_batch,
    .evaluation = zr_emit_evaluation,
};

static bool chosen;

// Here the schedule is.
zero_status __wrap_zr_plan_program(zr_plan *plan, zero_error *error);
zero_status __wrap_zr_plan_program(zr_plan *plan, zero_error *error)
{
    const zr_order_emitter *order = chosen ? &one_by_one : &zr_emit_accumulate;
    return zr_emit_program(plan, zr_stage_of(plan), order, error);
}

static int most_overlapped;

static void note_overlap(const zr_plan *plan)
{
    most_overlapped = ZR_MAX(most_overlapped, program_calls_overlapped(plan, ZR_REDUCE));
}

static void nothing_is_summed_while_units_compute(void **state)
{
    chosen = false;
    program_for_all(note_overlap);
    assert_true(most_overlapped > 0);
    chosen = true;
    most_overlapped = 0;
    program_for_all(note_overlap);
    assert_int_equal(most_overlapped, 0);
}

static void its_programs_hold(void **state)
{
    chosen = true;
    program_for_all(program_check_live_ranges);
    program_for_all(program_check_replay);
    program_for_all(program_check_readers);
    program_for_all(program_check_calls);
}

static void it_trains_to_the_same_bits(void **state)
{
    harness_case c = {.ranks = 2, .accumulation = 2, .batch = 2, .overlap = true};
    for (c.stage = 0; c.stage <= 3; c.stage++)
        toy_trains_alike(&c, &chosen);
    c.stage = 3;
    c.tiers = harness_tiers(2, 2);
    c.tiles_mlp = 2;
    toy_trains_alike(&c, &chosen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_summed_while_units_compute),
        cmocka_unit_test(its_programs_hold),
        cmocka_unit_test(it_trains_to_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
