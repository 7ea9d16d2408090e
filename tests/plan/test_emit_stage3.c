// Stage 3: on one machine versions are awaited and nothing moves; otherwise a visit's flat
// parameters are gathered while the visit before it computes.
#include "fixture.h"
#include "pass_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const pass_concern mapped = {
    .codes = BIT(ZR_AWAIT) | BIT(ZR_GATHER) | BIT(ZR_BIND) | BIT(ZR_CALL) | BIT(ZR_RELEASE) |
             BIT(ZR_REDUCE) | BIT(ZR_UPDATE) | BIT(ZR_PUBLISH),
    .slots = BIT(ZR_SLOT_PUBLISHED) | BIT(ZR_SLOT_RELEASED) | BIT(ZR_SLOT_GATHER),
    .buffers = BIT(ZR_BUFFER_PARAMETERS),
};
static const pass_concern gathered = {
    .codes = BIT(ZR_AWAIT) | BIT(ZR_GATHER) | BIT(ZR_CALL) | BIT(ZR_RELEASE) | BIT(ZR_PUBLISH),
    .slots = BIT(ZR_SLOT_GATHER) | BIT(ZR_SLOT_PUBLISHED) | BIT(ZR_SLOT_RELEASED),
};

static zr_plan *planned(const zr_settings *settings, int ranks, bool on_one_machine)
{
    static fixture f;
    fixture_build(&f, 1, 1000, 96);
    return fixture_plan_of(&f, settings, ranks, on_one_machine);
}

static void a_map_waits_for_versions_and_moves_nothing(void **state)
{
    const zr_settings settings = fixture_settings(ZERO_F32, 3, 1);
    zr_plan *plan = planned(&settings, 2, true);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    expect_pass(pass, &mapped,
                "AWAIT published 0 | GATHER 0 | BIND 0 parameters | CALL forward 0"
                " | AWAIT published 1 | GATHER 1 | BIND 1 parameters | CALL forward 1"
                " | AWAIT published 2 | GATHER 2 | BIND 2 parameters"
                " | AWAIT published 0 | GATHER 0 | BIND 0 parameters | CALL forward_backward 2"
                " | RELEASE 2 if last | REDUCE 2"
                " | AWAIT published 1 | GATHER 1 | BIND 1 parameters | CALL backward 1"
                " | RELEASE 1 if last | REDUCE 1 | CALL backward 0 | RELEASE 0 if last | REDUCE 0");
    for (int i = 0; i < pass->count; i++)
        assert_true(pass->at[i].code != ZR_GATHER ||
                    (pass->at[i].bytes == 0 && pass->at[i].place.buffer == ZR_BUFFER_NONE));
    expect_pass(&plan->program.passes[ZR_PASS_UPDATE], &mapped,
                "AWAIT released 0 if changed | AWAIT released 1 if changed"
                " | AWAIT released 2 if changed"
                " | UPDATE groups if at once");
    expect_pass(&plan->program.passes[ZR_PASS_PUBLISH], &mapped,
                "PUBLISH 0 | PUBLISH 1 | PUBLISH 2");
    zr_plan_destroy(plan);
}

static void the_next_visit_is_gathered_while_this_one_computes(void **state)
{
    const zr_settings settings = fixture_settings(ZERO_F32, 3, 1);
    zr_plan *plan = planned(&settings, 3, false);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    expect_pass(pass, &gathered,
                "GATHER 0 | AWAIT gather 0 | GATHER 1 | CALL forward 0"
                " | AWAIT gather 1 | GATHER 2 | GATHER 0 | CALL forward 1"
                " | AWAIT gather 2 | AWAIT gather 0 | GATHER 1 | CALL forward_backward 2"
                " | AWAIT gather 1 | CALL backward 1 | CALL backward 0");
    expect_pass(&plan->program.passes[ZR_PASS_EVALUATION], &gathered,
                "GATHER 0 | AWAIT gather 0 | GATHER 1 | CALL forward 0"
                " | AWAIT gather 1 | GATHER 2 | GATHER 0 | CALL forward 1"
                " | AWAIT gather 2 | AWAIT gather 0 | CALL forward 2");
    for (int p = 0; p < 3; p++) {
        const zr_instruction *gather = &pass->at[find_instruction(pass, ZR_GATHER, p, 0)];
        const zr_instruction *bind = &pass->at[find_instruction(pass, ZR_BIND, p, 0)];
        assert_int_equal(gather->place.buffer, ZR_BUFFER_GATHERED);
        expect_place(bind->place, gather->place);
        assert_int_equal(gather->from.buffer, ZR_BUFFER_SHARDS);
        assert_int_equal(gather->from.first, plan->flat_params[p].shard_first);
        assert_int_equal(gather->bytes, 2 * zr_flat_param_shard_bytes(&plan->flat_params[p]));
    }
    // others look at nothing of it
    expect_pass(&plan->program.passes[ZR_PASS_PUBLISH], &gathered, "");
    zr_plan_destroy(plan);
}

static void what_is_too_large_to_come_ahead_comes_at_its_visit(void **state)
{
    zr_settings settings = fixture_settings(ZERO_F32, 3, 1);
    settings.prefetch_bucket = 90000; // the block's flat parameter and no more
    zr_plan *plan = planned(&settings, 2, false);
    expect_pass(&plan->program.passes[ZR_PASS_MICRO_BATCH], &gathered,
                "GATHER 0 | AWAIT gather 0 | GATHER 1 | CALL forward 0 | AWAIT gather 1"
                " | CALL forward 1"
                " | GATHER 2 | GATHER 0 | AWAIT gather 2 | AWAIT gather 0 | GATHER 1"
                " | CALL forward_backward 2 | AWAIT gather 1 | CALL backward 1 | CALL backward 0");
    zr_plan_destroy(plan);
}

// In 16 bits gradients leave the window of gradients alone until the first is sealed.
static void readers_drain_a_place_before_it_is_gathered_into(void **state)
{
    const pass_concern concern = {BIT(ZR_AWAIT) | BIT(ZR_GATHER), BIT(ZR_SLOT_READERS), 0};
    const zr_settings settings = fixture_settings(ZERO_BF16, 3, 1);
    zr_plan *plan = planned(&settings, 2, false);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    int opened = find_instruction(pass, ZR_OPEN, 2, 0);
    expect_between(pass, 0, opened, &concern,
                   "AWAIT readers 1 | GATHER 0 | AWAIT readers 1 | GATHER 1"
                   " | AWAIT readers 2 | AWAIT readers 2 | GATHER 2 | GATHER 0 | GATHER 1");
    for (int i = 0; i < opened; i++)
        if (pass->at[i].slot.kind == ZR_SLOT_READERS)
            assert_int_equal(pass->at[i].place.buffer, ZR_BUFFER_GATHERED);
    zr_plan_destroy(plan);
}

// All of them at hpZ. A flat parameter that is here counts as a message of no bytes.
static void what_is_kept_is_gathered_when_it_is_outdated(void **state)
{
    const pass_concern concern = {BIT(ZR_GATHER) | BIT(ZR_AWAIT) | BIT(ZR_CALL),
                                  BIT(ZR_SLOT_READERS), 0};
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    zr_plan *plan = fixture_plan_on_machines(&f, 4, 2, true);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_EVALUATION];
    expect_pass(pass, &concern,
                "AWAIT readers 0 if stale | GATHER 0 if stale | GATHER 0 if fresh"
                " | AWAIT readers 1 if stale | GATHER 1 if stale | GATHER 1 if fresh"
                " | CALL forward 0"
                " | AWAIT readers 2 if stale | GATHER 2 if stale | GATHER 2 if fresh | GATHER 0"
                " | CALL forward 1 | CALL forward 2");
    const zr_instruction *outdated = &pass->at[find_instruction(pass, ZR_GATHER, 0, 0)];
    const zr_instruction *fresh = &pass->at[find_instruction(pass, ZR_GATHER, 0, 1)];
    assert_int_equal(outdated->bytes,
                     zr_flat_param_shard_bytes(&plan->flat_params[0])); // half of two: shared
    assert_int_equal(fresh->bytes, 0);
    assert_int_equal(fresh->place.buffer, ZR_BUFFER_NONE);
    zr_plan_destroy(plan);
}

static void what_is_reused_is_not_gathered_again(void **state)
{
    fixture f;
    zr_tiering tiering = fixture_on_host;
    tiering.reuse = 1000000000;
    fixture_build(&f, 1, 1000, 96);
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    const zr_instruction *first = &pass->at[find_instruction(pass, ZR_GATHER, 1, 0)];
    const zr_instruction *again = &pass->at[find_instruction(pass, ZR_GATHER, 1, 1)];
    expect_between(pass, find_instruction(pass, ZR_GATHER, 1, 1), pass->count, &gathered,
                   "GATHER 1 | CALL forward_backward 2 | CALL backward 1 | CALL backward 0");
    assert_int_equal(again->place.buffer, ZR_BUFFER_NONE);
    expect_place(pass->at[find_instruction(pass, ZR_BIND, 1, 1)].place, first->place);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_waits_for_versions_and_moves_nothing),
        cmocka_unit_test(the_next_visit_is_gathered_while_this_one_computes),
        cmocka_unit_test(what_is_too_large_to_come_ahead_comes_at_its_visit),
        cmocka_unit_test(readers_drain_a_place_before_it_is_gathered_into),
        cmocka_unit_test(what_is_kept_is_gathered_when_it_is_outdated),
        cmocka_unit_test(what_is_reused_is_not_gathered_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
