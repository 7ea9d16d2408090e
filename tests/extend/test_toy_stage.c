// A toy stage: stage 3 with gathering, which never looks ahead. The flat parameters of a visit are
// fetched, gathered and awaited when they are read. Units read the same bytes, so no bit changes;
// only the waiting differs, and fewer places are needed.
#include "plan/emit.h"
#include "program_checks.h"
#include "toy.h"

static void acquire(zr_emitter *e, int v, int visits)
{
    zr_emit_fetches(e, v);
    zr_emit_gather_visit(e, v);
    zr_emit_bind_gathered(e, v);
}

static const zr_stage_emitter when_read = {.acquire = acquire};

static bool chosen;

// Here the stage is.
zero_status __wrap_zr_plan_program(zr_plan *plan, zero_error *error);
zero_status __wrap_zr_plan_program(zr_plan *plan, zero_error *error)
{
    bool gathers = chosen && plan->holding == ZR_HOLDS_SHARDS;
    const zr_stage_emitter *stage = gathers ? &when_read : zr_stage_of(plan);
    return zr_emit_program(plan, stage, &zr_emit_accumulate, error);
}

static void check(const zr_plan *plan)
{
    assert_int_equal(program_calls_overlapped(plan, ZR_GATHER), 0);
    program_check_live_ranges(plan);
    program_check_replay(plan);
    program_check_readers(plan);
}

static void its_programs_hold(void **state)
{
    chosen = true;
    program_for_all(check);
}

static void it_trains_to_the_same_bits(void **state)
{
    harness_case c = {.stage = 3, .ranks = 2, .accumulation = 2, .batch = 2};
    for (int tier = 1; tier <= 2; tier++) {
        c.tiers = harness_tiers(tier, tier);
        toy_trains_alike(&c, &chosen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_programs_hold),
        cmocka_unit_test(it_trains_to_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
