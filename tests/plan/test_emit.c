// How instructions are emitted: in order, on behalf of a unit, with the values that they name.
#include "fixture.h"
#include "pass_text.h"
#include "base/alloc.h"
#include "plan/emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const pass_concern waits = {BIT(ZR_AWAIT), ~0u, 0};

static zr_buffer_ref in_window(int64_t first) { return (zr_buffer_ref){ZR_BUFFER_GATHERED, first}; }

static void end(zr_emitter *e) { zr_free(e->pass->at); }

static void instructions_follow_each_other_and_name_their_unit(void **state)
{
    zr_pass pass = {0};
    zr_emitter e = {.pass = &pass, .unit = 7};
    for (int p = 0; p < 200; p++) // beyond what it has room for at first
        zr_emit_bind(&e, p, in_window(p));
    assert_int_equal(e.status, ZERO_OK);
    assert_int_equal(pass.count, 200);
    for (int p = 0; p < 200; p++) {
        assert_int_equal(pass.at[p].code, ZR_BIND);
        assert_int_equal(pass.at[p].flat_param, p);
        assert_int_equal(pass.at[p].unit, 7);
        assert_int_equal(pass.at[p].place.first, p);
    }
    e.status = ZERO_ERR_MEMORY; // sticky: nothing is written after it
    zr_emit_unbind(&e, 0, ZR_BUFFER_GATHERED);
    assert_int_equal(pass.count, 200);
    end(&e);
}

// A value begins where it is named first, and keeps its number.
static void values_begin_where_they_are_named(void **state)
{
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    zr_pass pass = {0};
    zr_emitter e = {.plan = plan, .pass = &pass, .written = 10};
    assert_int_equal(zr_values_begin(&e.values, plan, NULL), ZERO_OK);
    for (int p = 0; p < 2; p++) {
        zr_emit_bind(&e, p, in_window(p));
        const zr_buffer_ref named = zr_emit_sums(&e, ZR_BUFFER_GRADIENTS, 1);
        assert_int_equal(named.buffer, ZR_BUFFER_GRADIENTS);
        assert_int_equal(named.value, zr_value_of_flat_param(ZR_BUFFER_GRADIENTS, 1));
    }
    const zr_plan_value *value = &e.values.at[e.values.begun[0]];
    assert_int_equal(e.values.begun_count, 1);
    assert_int_equal(value->from, 11);
    assert_int_equal(value->bytes, plan->flat_params[1].padded * 4);
    zr_values_end(&e.values);
    end(&e);
    zr_plan_destroy(plan);
}

// Each mark has an instruction of its own, and none is a call, which a unit's body begins after.
static void marks_stand_on_the_last_instruction_or_on_a_new_one(void **state)
{
    zr_pass pass = {0};
    zr_emitter e = {.pass = &pass};
    zr_emit(&e, &(zr_instruction){.code = ZR_CALL, .flat_param = -1});
    zr_emit_mark(&e, ZR_BEGUN, 5);
    assert_int_equal(pass.count, 2);
    assert_int_equal(pass.at[0].mark, ZR_UNMARKED);
    assert_int_equal(pass.at[1].mark, ZR_BEGUN);
    assert_int_equal(pass.at[1].stream, 5);
    zr_emit_unbind(&e, 5, ZR_BUFFER_PARAMETERS);
    zr_emit_mark(&e, ZR_ENDED, 5);
    assert_int_equal(pass.count, 3);
    assert_int_equal(pass.at[2].mark, ZR_ENDED);
    zr_emit_mark(&e, ZR_BEGUN, 6);
    assert_int_equal(pass.count, 4);
    assert_int_equal(pass.at[3].mark, ZR_BEGUN);
    assert_int_equal(pass.at[3].stream, 6);
    end(&e);
}

// The first gather of either pass waits for what may lie there: the head's or the block's flat
// parameters of the pass before.
static void a_pass_begins_where_another_has_ended(void **state)
{
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    zr_plan *plan = fixture_plan(&f, 3, 2, 1, false);
    for (zr_pass_kind kind = ZR_PASS_MICRO_BATCH; kind <= ZR_PASS_EVALUATION; kind++) {
        const zr_pass *pass = &plan->program.passes[kind];
        int first = find_instruction(pass, ZR_GATHER, 0, 0);
        int next = find_instruction(pass, ZR_GATHER, 1, 0);
        expect_between(pass, 0, first, &waits, "AWAIT readers 1");
        expect_between(pass, first, next, &waits, "AWAIT gather 0 | AWAIT readers 1");
    }
    zr_plan_destroy(plan);
}

static void inference_writes_what_it_needs(void **state)
{
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    zr_settings settings = fixture_settings(ZERO_F32, 3, 1);
    settings.inference = true;
    zr_plan *plan = fixture_plan_of(&f, &settings, 1, true);
    assert_true(plan->program.passes[ZR_PASS_EVALUATION].count > 0);
    assert_true(plan->program.passes[ZR_PASS_PUBLISH].count > 0);
    assert_int_equal(plan->program.passes[ZR_PASS_MICRO_BATCH].count, 0);
    assert_int_equal(plan->program.passes[ZR_PASS_BOUNDARY].count, 0);
    assert_int_equal(plan->program.passes[ZR_PASS_UPDATE].count, 0);
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_follow_each_other_and_name_their_unit),
        cmocka_unit_test(values_begin_where_they_are_named),
        cmocka_unit_test(marks_stand_on_the_last_instruction_or_on_a_new_one),
        cmocka_unit_test(a_pass_begins_where_another_has_ended),
        cmocka_unit_test(inference_writes_what_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
