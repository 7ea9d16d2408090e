// The program that plan/ writes, by itself: what is begun is awaited before its place is taken again,
// what units read and add to is there, no two places overlap while both are needed, and the windows are
// as large as the places need. Over stages, types, tiers, checkpoints and numbers of ranks.
#include "fixture.h"
#include "program_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

// Every code and every condition is met somewhere, so that the checks below look at all of them.
static uint32_t codes, conditions;

static void note_codes(const zr_plan *plan)
{
    for (int kind = 0; kind < ZR_PASS_COUNT; kind++)
        for (int i = 0; i < plan->program.passes[kind].count; i++) {
            codes |= 1u << plan->program.passes[kind].at[i].code;
            conditions |= 1u << plan->program.passes[kind].at[i].when;
        }
}

static void every_code_is_written(void **state)
{
    codes = conditions = 0;
    program_for_all(note_codes);
    for (int code = 0; code < ZR_CODE_COUNT; code++)
        if (!(codes >> code & 1))
            fail_msg("%s is in no program", zr_code_name((zr_code)code));
    const uint32_t of_buffers = 1u << ZR_FINITE; // the fixture has none
    assert_int_equal(conditions | of_buffers, (1u << ZR_WHEN_COUNT) - 1);
}

static void places_do_not_overlap_while_both_are_needed(void **state)
{
    program_for_all(program_check_lives);
}

static void what_units_see_is_there(void **state) { program_for_all(program_check_replay); }

static void what_peers_read_is_not_written_over(void **state)
{
    program_for_all(program_check_readers);
}

static void units_run_in_order(void **state) { program_for_all(program_check_calls); }

static bool is_same_place(zr_place a, zr_place b)
{
    return a.space == b.space && a.first == b.first;
}

static bool is_same(const zr_instruction *a, const zr_instruction *b)
{
    return a->code == b->code && a->when == b->when && a->mark == b->mark && a->what == b->what && a->unit == b->unit
           && a->piece == b->piece && a->bytes == b->bytes && a->body == b->body && is_same_place(a->place, b->place)
           && is_same_place(a->from, b->from) && a->slot.kind == b->slot.kind && a->slot.index == b->slot.index;
}

// Passes are written once, whatever the number of micro-batches: nothing depends on it but its conditions.
static void no_pass_depends_on_the_number_of_micro_batches(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 96);
    zr_settings settings = fixture_settings(ZERO_F32, 2, 2);
    zr_plan *two = fixture_plan_of(&f, &settings, 2, true);
    settings.accumulation = 7;
    zr_plan *seven = fixture_plan_of(&f, &settings, 2, true);
    for (int kind = 0; kind < ZR_PASS_COUNT; kind++) {
        const zr_pass *a = &two->program.passes[kind], *b = &seven->program.passes[kind];
        assert_int_equal(a->count, b->count);
        for (int i = 0; i < a->count; i++)
            assert_true(is_same(&a->at[i], &b->at[i]));
    }
    zr_plan_destroy(two);
    zr_plan_destroy(seven);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_is_written),
        cmocka_unit_test(places_do_not_overlap_while_both_are_needed),
        cmocka_unit_test(what_units_see_is_there),
        cmocka_unit_test(what_peers_read_is_not_written_over),
        cmocka_unit_test(units_run_in_order),
        cmocka_unit_test(no_pass_depends_on_the_number_of_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
