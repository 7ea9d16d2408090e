// The loss scale, compared with the sequences that DeepSpeed's own scaler gives.
#include "engine/step_schedules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// cmocka needs the headers above.
#include <cmocka.h>

#define START .kind = ZR_SCALE_DYNAMIC, .initial = 65536, .min_scale = 1, .window = 3

typedef struct after { // a step
    double scale;
    int hysteresis;
} after;

// steps: X an overflow, . a clean step; the state after each is in `expected`.
static void check(const zr_loss_scale_spec *spec, const char *steps, const after *expected,
                  int count)
{
    zr_loss_scale state = zr_loss_scale_begin(spec);
    assert_int_equal(strlen(steps), count);
    assert_true(state.scale == spec->initial);
    for (int i = 0; i < count; i++) {
        assert_int_equal(zr_loss_scale_next(spec, steps[i] == 'X', &state, NULL), ZERO_OK);
        if (state.scale != expected[i].scale || state.hysteresis != expected[i].hysteresis)
            fail_msg("%s: after step %d %g/%d, not %g/%d", steps, i + 1, state.scale,
                     state.hysteresis, expected[i].scale, expected[i].hysteresis);
        assert_int_equal(state.iteration, i + 1);
    }
}

#define CHECK(spec, steps, ...)                                                                    \
    do {                                                                                           \
        const after expected_[] = {__VA_ARGS__};                                                   \
        check(&(spec), steps, expected_, ZR_COUNT(expected_));                                     \
    } while (0)

// The first growth comes after window + 1 clean steps, then one every window.
static void test_growth(void **state)
{
    const zr_loss_scale_spec spec = {START, .hysteresis = 2};
    CHECK(spec, "........", {65536, 2}, {65536, 2}, {65536, 2}, {131072, 2}, {131072, 2},
          {131072, 2}, {262144, 2}, {262144, 2});
}

static void test_overflows_apart(void **state)
{
    zr_loss_scale_spec spec = {START, .hysteresis = 2};
    CHECK(spec, "X.X", {65536, 1}, {65536, 1}, {32768, 1});
    spec.consecutive_hysteresis = true;
    CHECK(spec, "X.X", {65536, 1}, {65536, 2}, {65536, 1});
}

// Growth forgives again: with four clean steps between the overflows it has come, with three it has
// not.
static void test_overflows_around_a_growth(void **state)
{
    const zr_loss_scale_spec spec = {START, .hysteresis = 2};
    CHECK(spec, "XX....XX", {65536, 1}, {32768, 1}, {32768, 1}, {32768, 1}, {32768, 1}, {65536, 2},
          {65536, 1}, {32768, 1});
    CHECK(spec, "XX...XX", {65536, 1}, {32768, 1}, {32768, 1}, {32768, 1}, {32768, 1}, {16384, 1},
          {8192, 1});
}

static void test_larger_hysteresis(void **state)
{
    const zr_loss_scale_spec spec = {START, .hysteresis = 3};
    CHECK(spec, "XXXXX....X.", {65536, 2}, {65536, 1}, {32768, 1}, {16384, 1}, {8192, 1}, {8192, 1},
          {8192, 1}, {8192, 1}, {16384, 3}, {16384, 2}, {16384, 2});
}

// Consecutive hysteresis is restored by every clean step, and a growth does not count on it.
static void test_consecutive_growth(void **state)
{
    const zr_loss_scale_spec spec = {START, .hysteresis = 3, .consecutive_hysteresis = true};
    CHECK(spec, "XXX....X", {65536, 2}, {65536, 1}, {32768, 1}, {32768, 3}, {32768, 3}, {32768, 3},
          {65536, 3}, {65536, 2});
}

static void test_no_hysteresis_never_shrinks(void **state)
{
    const zr_loss_scale_spec spec = {START, .hysteresis = 0};
    CHECK(spec, "XXXX....", {65536, 0}, {65536, 0}, {65536, 0}, {65536, 0}, {65536, 0}, {65536, 0},
          {65536, 0}, {131072, 0});
}

static void test_the_first_overflow_shrinks(void **state)
{
    zr_loss_scale_spec spec = {START, .hysteresis = 1};
    CHECK(spec, "X.X", {32768, 1}, {32768, 1}, {16384, 1});
    spec.window = 1;
    CHECK(spec, "..X..", {65536, 1}, {131072, 1}, {65536, 1}, {65536, 1}, {131072, 1});
}

static void test_the_minimum(void **state)
{
    const zr_loss_scale_spec spec = {
        .kind = ZR_SCALE_DYNAMIC, .initial = 4, .min_scale = 3, .window = 3, .hysteresis = 1};
    zr_loss_scale scale = zr_loss_scale_begin(&spec);
    zero_error error = {0};
    assert_int_equal(zr_loss_scale_next(&spec, true, &scale, &error), ZERO_OK);
    assert_true(scale.scale == 3 && scale.hysteresis == 1);
    const zr_loss_scale before = scale;
    assert_int_equal(zr_loss_scale_next(&spec, true, &scale, &error), ZERO_ERR_DATA);
    assert_true(scale.scale == before.scale && scale.iteration == before.iteration);
    assert_true(scale.last_overflow == before.last_overflow &&
                scale.hysteresis == before.hysteresis);
    static const char *const parts[] = {
        "step 2",       "smallest loss scale, 3", "fp16.min_loss_scale",
        "--dtype bf16", "lower learning rate",    "fp16.initial_scale_power"};
    for (int i = 0; i < ZR_COUNT(parts); i++)
        assert_non_null(strstr(error.message, parts[i]));
    assert_int_equal(zr_loss_scale_next(&spec, false, &scale, &error), ZERO_OK);
}

// Overflows that are still forgiven are no error at the minimum.
static void test_forgiven_at_the_minimum(void **state)
{
    const zr_loss_scale_spec spec = {
        .kind = ZR_SCALE_DYNAMIC, .initial = 1, .min_scale = 1, .window = 3, .hysteresis = 2};
    CHECK(spec, "X....X", {1, 1}, {1, 1}, {1, 1}, {1, 1}, {2, 2}, {2, 1});
}

static void test_static_and_none(void **state)
{
    const zr_loss_scale_spec fixed = {.kind = ZR_SCALE_STATIC, .initial = 128, .hysteresis = 1};
    CHECK(fixed, "X....XX.", {128, 1}, {128, 1}, {128, 1}, {128, 1}, {128, 1}, {128, 1}, {128, 1},
          {128, 1});
    const zr_loss_scale_spec none = {.kind = ZR_SCALE_NONE, .initial = 5};
    zr_loss_scale scale = zr_loss_scale_begin(&none);
    assert_true(scale.scale == 1 && scale.last_overflow == -1);
    assert_int_equal(zr_loss_scale_next(&none, true, &scale, NULL), ZERO_OK);
    assert_true(scale.scale == 1 && scale.iteration == 1 && scale.last_overflow == 0);
}

// What was saved goes on only from one dynamic scale to another, within what the configuration now
// allows.
static void test_resumed(void **state)
{
    const zr_loss_scale_spec dynamic = {
        .kind = ZR_SCALE_DYNAMIC, .initial = 65536, .min_scale = 128, .window = 3, .hysteresis = 2};
    const zr_loss_scale_spec fixed = {.kind = ZR_SCALE_STATIC, .initial = 512},
                             none = {.kind = ZR_SCALE_NONE};
    const zr_loss_scale saved = {.scale = 4096,
                                 .iteration = 9,
                                 .last_overflow = 5,
                                 .hysteresis = 1},
                        small = {.scale = 1, .iteration = 9, .last_overflow = 5};
    zr_loss_scale now = zr_loss_scale_resume(&dynamic, &saved, true);
    assert_true(now.scale == 4096 && now.hysteresis == 1 && now.iteration == 9 &&
                now.last_overflow == 5);
    now = zr_loss_scale_resume(&dynamic, &small, true);
    assert_true(now.scale == 128 && now.hysteresis == 2 && now.iteration == 9 &&
                now.last_overflow == 5);
    now = zr_loss_scale_resume(&dynamic, &(zr_loss_scale){.scale = 256, .hysteresis = 7}, true);
    assert_true(now.scale == 256 && now.hysteresis == 2);
    now = zr_loss_scale_resume(&dynamic, &small, false);
    assert_true(now.scale == 65536 && now.hysteresis == 2 && now.iteration == 9);
    for (int clean = 0; clean < 4; clean++) { // it grows when one from the start would
        assert_true(now.scale == 65536);
        assert_int_equal(zr_loss_scale_next(&dynamic, false, &now, NULL), ZERO_OK);
    }
    assert_true(now.scale == 131072);
    now = zr_loss_scale_resume(&fixed, &saved, true);
    assert_true(now.scale == 512 && now.iteration == 9 && now.last_overflow == 5);
    assert_true(zr_loss_scale_resume(&none, &saved, true).scale == 1);
}

// A state from a run with another hysteresis: with one of 1 every overflow shrinks.
static void test_another_hysteresis_from_here(void **state)
{
    const zr_loss_scale_spec spec = {START, .hysteresis = 1};
    zr_loss_scale scale = {.scale = 1024, .iteration = 7, .last_overflow = 6, .hysteresis = 3};
    assert_int_equal(zr_loss_scale_next(&spec, true, &scale, NULL), ZERO_OK);
    assert_true(scale.scale == 512);
}

// The state is all: a run that goes on from it gives what the uninterrupted one gives.
static void test_the_state_resumes(void **state)
{
    static const char steps[] = "X...X.....XX....X......";
    const zr_loss_scale_spec spec = {START, .hysteresis = 2};
    for (int cut = 0; steps[cut]; cut++) {
        zr_loss_scale whole = zr_loss_scale_begin(&spec), part = whole;
        for (int i = 0; steps[i]; i++) {
            if (i == cut)
                part = (zr_loss_scale){whole.scale, whole.iteration, whole.last_overflow,
                                       whole.hysteresis};
            assert_int_equal(zr_loss_scale_next(&spec, steps[i] == 'X', &whole, NULL), ZERO_OK);
            if (i >= cut)
                assert_int_equal(zr_loss_scale_next(&spec, steps[i] == 'X', &part, NULL), ZERO_OK);
        }
        assert_true(whole.scale == part.scale && whole.hysteresis == part.hysteresis);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_overflows_apart),
        cmocka_unit_test(test_overflows_around_a_growth),
        cmocka_unit_test(test_larger_hysteresis),
        cmocka_unit_test(test_consecutive_growth),
        cmocka_unit_test(test_no_hysteresis_never_shrinks),
        cmocka_unit_test(test_the_first_overflow_shrinks),
        cmocka_unit_test(test_the_minimum),
        cmocka_unit_test(test_forgiven_at_the_minimum),
        cmocka_unit_test(test_static_and_none),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_another_hysteresis_from_here),
        cmocka_unit_test(test_the_state_resumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
