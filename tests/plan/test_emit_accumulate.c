// The order of accumulation: forward of every unit, then backward of every unit, last first; flat
// parameters that a unit streams come and go inside its body.
#include "fixture.h"
#include "pass_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const pass_concern calls = {BIT(ZR_CALL), 0, 0};

static const zr_pass *pass_of(const zr_plan *plan, zr_pass_kind kind)
{
    return &plan->program.passes[kind];
}

static void forward_then_backward_with_a_forward_end_between(void **state)
{
    fixture f;
    fixture_build(&f, 2, 1000, 96);
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    const zr_pass *pass = pass_of(plan, ZR_PASS_MICRO_BATCH);
    expect_between(pass, 0, pass->forward_end, &calls,
                   "CALL forward 0 | CALL forward 1 | CALL forward 2 | CALL forward_backward 3");
    expect_between(pass, pass->forward_end, pass->count, &calls,
                   "CALL backward 2 | CALL backward 1 | CALL backward 0");
    expect_pass(pass_of(plan, ZR_PASS_EVALUATION), &calls,
                "CALL forward 0 | CALL forward 1 | CALL forward 2 | CALL forward 3");
    zr_plan_destroy(plan);
}

static void a_last_unit_of_two_functions_has_its_backward_after_the_forward_end(void **state)
{
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    zero_unit_ops apart = *f.units[2].ops;
    apart.forward_backward = NULL;
    f.units[2].ops = &apart;
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    const zr_pass *pass = pass_of(plan, ZR_PASS_MICRO_BATCH);
    expect_between(pass, 0, pass->forward_end, &calls,
                   "CALL forward 0 | CALL forward 1 | CALL forward 2");
    expect_between(pass, pass->forward_end, pass->count, &calls,
                   "CALL backward 2 | CALL backward 1 | CALL backward 0");
    zr_plan_destroy(plan);
}

static void a_model_of_one_call_has_its_forward_end_at_the_end(void **state)
{
    fixture f;
    fixture_build(&f, 0, 1000, 96);
    f.units[1].borrowed_count = 0;
    f.model = (zero_model){"head", 1, &f.units[1]};
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    const zr_pass *pass = pass_of(plan, ZR_PASS_MICRO_BATCH);
    expect_pass(pass, &calls, "CALL forward_backward 0");
    assert_int_equal(pass->forward_end, pass->count);
    zr_plan_destroy(plan);
}

// A segment is computed again when its backward begins; what forward has just computed is there.
static void segments_are_computed_again(void **state)
{
    fixture f;
    zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    settings.activation_checkpoints = 2;
    fixture_build(&f, 3, 1000, 96);
    zr_plan *plan = fixture_plan_of(&f, &settings, 2, true);
    const zr_pass *pass = pass_of(plan, ZR_PASS_MICRO_BATCH);
    expect_between(pass, pass->forward_end, pass->count, &calls,
                   "CALL backward 3 | CALL backward 2"
                   " | CALL forward again 0 | CALL forward again 1 | CALL backward 1"
                   " | CALL backward 0");
    zr_plan_destroy(plan);
}

// Flat parameters of a unit are bound around its call; backward reads those that the unit says.
static void flat_params_are_there_while_the_unit_runs(void **state)
{
    const pass_concern concern = {BIT(ZR_CALL) | BIT(ZR_BIND) | BIT(ZR_UNBIND), 0,
                                  BIT(ZR_BUFFER_PARAMETERS)};
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    expect_pass(pass_of(plan, ZR_PASS_MICRO_BATCH), &concern,
                "BIND 0 parameters | CALL forward 0 | UNBIND 0 parameters"
                " | BIND 1 parameters | CALL forward 1 | UNBIND 1 parameters"
                " | BIND 2 parameters | BIND 0 parameters | CALL forward_backward 2"
                " | UNBIND 2 parameters | UNBIND 0 parameters"
                " | BIND 1 parameters | CALL backward 1 | UNBIND 1 parameters | CALL backward 0");
    zr_plan_destroy(plan);
}

// The marks of a body, as "begin"s and "end"s of flat parameters, are these; they end with the
// body.
static void expect_body(const zr_pass *pass, int call, const int *flat_params, int count)
{
    const zr_instruction *body = &pass->at[call + 1];
    int marks = 0;
    for (int i = 0; i < pass->at[call].body; i++) {
        if (body[i].mark == ZR_UNMARKED)
            continue;
        assert_true(marks < 2 * count);
        assert_int_equal(body[i].mark, marks % 2 ? ZR_ENDED : ZR_BEGUN);
        assert_int_equal(body[i].stream, flat_params[marks / 2]);
        assert_int_equal(body[i].unit, pass->at[call].unit);
        marks++;
    }
    assert_int_equal(marks, 2 * count);
    assert_int_equal(body[pass->at[call].body - 1].mark, ZR_ENDED);
}

// embedding: flat parameters 0 and 1; block: 2, and 3 and 4 streamed; head: 5, and the embedding's.
static void streamed_flat_params_come_and_go_in_the_body(void **state)
{
    fixture f;
    fixture_build_streamed(&f, 1, 1000, 96);
    for (int stage = 1; stage <= 3; stage++)
        for (int mapped = 0; mapped < 2; mapped++) {
            zr_plan *plan = fixture_plan(&f, stage, 2, 1, mapped);
            const zr_pass *pass = pass_of(plan, ZR_PASS_MICRO_BATCH);
            expect_body(pass, find_instruction(pass, ZR_CALL, -1, 0), (int[]){0, 1}, 2);
            expect_body(pass, find_instruction(pass, ZR_CALL, -1, 1), (int[]){3, 4}, 2);
            expect_body(pass, find_instruction(pass, ZR_CALL, -1, 2), (int[]){0, 1, 1, 0}, 4);
            expect_body(pass, find_instruction(pass, ZR_CALL, -1, 3), (int[]){4, 3}, 2);
            expect_body(pass, find_instruction(pass, ZR_CALL, -1, 4), (int[]){1, 0}, 2);
            pass = pass_of(plan, ZR_PASS_EVALUATION);
            expect_body(pass, find_instruction(pass, ZR_CALL, -1, 2), (int[]){0, 1}, 2);
            zr_plan_destroy(plan);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_then_backward_with_a_forward_end_between),
        cmocka_unit_test(a_last_unit_of_two_functions_has_its_backward_after_the_forward_end),
        cmocka_unit_test(a_model_of_one_call_has_its_forward_end_at_the_end),
        cmocka_unit_test(segments_are_computed_again),
        cmocka_unit_test(flat_params_are_there_while_the_unit_runs),
        cmocka_unit_test(streamed_flat_params_come_and_go_in_the_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
