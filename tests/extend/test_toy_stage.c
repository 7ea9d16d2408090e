// A toy stage: stage 3 with gathering, which never looks ahead. The flat parameters of a visit are
// fetched, gathered and awaited when they are read, into the places that gathers.c has found. Units
// read the same bytes, so no bit changes; only the waiting differs.
#include "plan/emit.h"
#include "program_checks.h"
#include "toy.h"

static void acquire(zr_emitter *e, int v, int visits)
{
    const zr_visit *visit = &e->plan->visits[v];
    zr_emit_fetches(e, v);
    zr_emit_gather_visit(e, v);
    for (int i = 0; i < visit->flat_param_count; i++) {
        if (visit->gathers[i])
            zr_emit_await(e, ZR_ALWAYS, ZR_SLOT_GATHER, visit->flat_params[i]);
        zr_emit_bind(e, visit->flat_params[i],
                     (zr_buffer_ref){ZR_BUFFER_GATHERED, visit->gather_first[i]});
    }
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
