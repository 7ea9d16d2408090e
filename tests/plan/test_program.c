// The program that plan/ writes, by itself: what is begun is awaited before its place is reused,
// what units read and add to is there, no two places overlap while both are needed, and the windows
// are as large as the places need. Over stages, types, tiers, activation checkpoints and numbers of
// ranks.
#include "fixture.h"
#include "pipeline_fixture.h"

#include "base/alloc.h"
#include "plan/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

// Every code and every condition is met somewhere, so that the checks below look at all of them.
static uint32_t codes, conditions;

static void note_codes(const zr_plan *plan)
{
    for (int kind = 0; kind < ZR_PASSES; kind++)
        for (int i = 0; i < plan->program.passes[kind].count; i++) {
            codes |= 1u << plan->program.passes[kind].at[i].code;
            conditions |= 1u << plan->program.passes[kind].at[i].when;
        }
}

static void every_code_is_written(void **state)
{
    codes = conditions = 0;
    program_for_all(note_codes);
    pipeline_for_each(note_codes);
    for (int code = 0; code < ZR_CODE_COUNT; code++)
        if (!(codes >> code & 1) && code != ZR_TIED_WEIGHT) // test_tied_weights.c has it
            fail_msg("%s is in no program", zr_code_names[code]);
    const uint32_t of_buffers = 1u << ZR_FINITE; // the fixture has none
    assert_int_equal(conditions | of_buffers, (1u << ZR_WHEN_COUNT) - 1);
}

static void places_do_not_overlap_while_both_are_needed(void **state)
{
    program_for_all(program_check_live_ranges);
    pipeline_for_each(program_check_live_ranges);
}

static void what_units_see_is_there(void **state)
{
    program_for_all(program_check_replay);
    pipeline_for_each(program_check_replay);
}

static void what_peers_read_is_not_written_over(void **state)
{
    program_for_all(program_check_readers);
    pipeline_for_each(program_check_readers);
}

static void units_run_in_order(void **state)
{
    program_for_all(program_check_calls);
    pipeline_for_each(program_check_calls);
}

static bool is_same_place(zr_buffer_ref a, zr_buffer_ref b)
{
    return a.buffer == b.buffer && a.first == b.first;
}

static bool is_same(const zr_instruction *a, const zr_instruction *b)
{
    return a->code == b->code && a->when == b->when && a->mark == b->mark && a->what == b->what &&
           a->unit == b->unit && a->flat_param == b->flat_param && a->bytes == b->bytes &&
           a->body == b->body && is_same_place(a->place, b->place) &&
           is_same_place(a->from, b->from) && a->slot.kind == b->slot.kind &&
           a->slot.index == b->slot.index;
}

// Passes are written once for any number of micro-batches from two on, and nothing but conditions
// depends on that number. A single micro-batch is planned without earlier sums.
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

static void expect_names(int count, const char *const *names)
{
    for (int i = 0; i < count; i++) {
        assert_non_null(names[i]);
        assert_true(*names[i]);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(names[i], names[k]);
    }
}

static void everything_has_a_name_of_its_own(void **state)
{
    const char *passes[ZR_PASS_COUNT];
    for (zr_pass_kind kind = 0; kind < ZR_PASS_COUNT; kind++)
        passes[kind] = zr_pass_name(kind);
    expect_names(ZR_CODE_COUNT, zr_code_names);
    expect_names(ZR_WHEN_COUNT, zr_when_names);
    expect_names(ZR_BUFFER_COUNT, zr_buffer_names);
    expect_names(ZR_SLOT_KIND_COUNT, zr_slot_names);
    expect_names(ZR_CALL_WEIGHT + 1, zr_call_names);
    expect_names(ZR_PART_COPY + 1, zr_update_part_names);
    expect_names(ZR_SCALARS_TAKE + 1, zr_scalars_part_names);
    expect_names(ZR_PASS_COUNT, passes);
    assert_string_equal(zr_code_names[ZR_AWAIT], "AWAIT");
    assert_string_equal(zr_code_names[ZR_UPDATE], "UPDATE");
    assert_string_equal(zr_when_names[ZR_REWRITTEN], "rewritten");
    assert_string_equal(zr_buffer_names[ZR_BUFFER_STORED], "stored");
    assert_string_equal(zr_slot_names[ZR_SLOT_GROUP], "group");
    assert_string_equal(zr_call_names[ZR_CALL_AGAIN], "forward again");
    assert_string_equal(zr_pass_name(ZR_PASS_PUBLISH), "publish");
}

static void a_destroyed_program_is_empty(void **state)
{
    zero_error error;
    zr_program program = {.fetch_count = 3};
    for (int kind = 0; kind < ZR_PASS_COUNT; kind++) {
        program.passes[kind].at = zr_alloc(sizeof *program.passes[kind].at, &error);
        program.passes[kind].count = program.passes[kind].capacity = 1;
    }
    zr_program_destroy(&program);
    assert_int_equal(program.fetch_count, 0);
    for (int kind = 0; kind < ZR_PASS_COUNT; kind++) {
        assert_null(program.passes[kind].at);
        assert_int_equal(program.passes[kind].count, 0);
    }
    zr_program_destroy(&program);
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
        cmocka_unit_test(everything_has_a_name_of_its_own),
        cmocka_unit_test(a_destroyed_program_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
