// What a run has taken: parts add up to the whole, in words and in the file, to which each start of
// the run is added.
#include "base/clock.h"
#include "base/file.h"
#include "predict/run_times.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static void near(double value, double expected)
{
    if (value < expected - 1e-9 || value > expected + 1e-9)
        fail_msg("%.12g, expected %.12g", value, expected);
}

// The first steps count until there are warm ones, and newer steps more than older ones.
static void test_pace(void **state)
{
    zr_run_pace pace = {0};
    near(zr_run_pace_step(&pace), 0);
    zr_run_pace_add(&pace, 9, true);
    near(zr_run_pace_step(&pace), 9);
    zr_run_pace_add(&pace, 7, true);
    zr_run_pace_add(&pace, 2, false);
    near(zr_run_pace_step(&pace), 2);
    zr_run_pace_add(&pace, 4, false);
    assert_true(zr_run_pace_step(&pace) > 3 && zr_run_pace_step(&pace) < 4 && pace.steps == 4);
}

// The rest of a run is steps and what comes between them; it is unknown if a step is.
static void test_work_left(void **state)
{
    zr_work_left work = {.steps = {10, 2},
                         .micro_batches = {4, 0.5},
                         .checkpoints = {2, 3},
                         .models = {3, 1},
                         .samples = {5, 0}};
    near(zr_work_left_seconds(&work), 31);
    work.steps.seconds = 0;
    near(zr_work_left_seconds(&work), 0);
    work.steps.count = 0; // after the last step an evaluation and the saving are left
    near(zr_work_left_seconds(&work), 11);
    assert_int_equal(zr_run_multiples(0, 10, 3), 3);
    assert_int_equal(zr_run_multiples(3, 10, 3), 2);
    assert_int_equal(zr_run_multiples(9, 10, 3), 0);
    assert_int_equal(zr_run_multiples(0, 10, 0), 0);
    assert_int_equal(zr_run_multiples(10, 5, 1), 0);
}

// Every moment belongs to one part, whatever calls what.
static void test_clock(void **state)
{
    zr_run_clock clock;
    double sum = 0;
    zr_run_clock_start(&clock);
    for (int step = 0; step < 5; step++) {
        zr_run_clock_turn(&clock, ZR_TIME_DATA);
        zr_run_clock_turn(&clock, ZR_TIME_COMPUTE);
        zr_sleep_seconds(step ? 0.001 : 0.02);
        zr_run_clock_end_steps(&clock, 1);
    }
    assert_int_equal(zr_run_clock_turn(&clock, ZR_TIME_EVALUATION), ZR_TIME_REST);
    assert_int_equal(zr_run_clock_turn(&clock, ZR_TIME_SAVING), ZR_TIME_EVALUATION);
    zr_sleep_seconds(0.005);
    assert_int_equal(zr_run_clock_turn(&clock, ZR_TIME_EVALUATION), ZR_TIME_SAVING);
    zr_run_clock_turn(&clock, ZR_TIME_REST);
    for (int part = 0; part <= ZR_TIME_REST; part++)
        sum += clock.seconds[part];
    near(sum, clock.since - clock.began);
    assert_true(clock.seconds[ZR_TIME_SAVING] >= 0.005 && clock.steps == 5 && clock.calls == 5);
    assert_int_equal(zr_run_clock_warm_steps(&clock), 3);
    near(zr_run_clock_step(&clock), (clock.seconds[ZR_TIME_COMPUTE] - clock.cold_seconds) / 3);
    assert_true(clock.cold_seconds >= 0.021);
}

// What has turned out to be of no part belongs to the rest, and the sum stays.
static void test_moved(void **state)
{
    zr_run_clock clock = {.seconds = {[ZR_TIME_EVALUATION] = 3}};
    zr_run_clock_move(&clock, ZR_TIME_EVALUATION, ZR_TIME_REST, 2);
    near(clock.seconds[ZR_TIME_EVALUATION], 1);
    near(clock.seconds[ZR_TIME_REST], 2);
}

// The median and the quartiles are of the newest warm steps.
static void test_median(void **state)
{
    zr_run_clock clock = {.steps = 1, .calls = 1, .cold_calls = 1, .cold_steps = 1};
    double spread = 1;
    clock.seconds[ZR_TIME_COMPUTE] = clock.cold_seconds = 0.5;
    near(zr_run_clock_median(&clock, &spread), 0.5);
    near(spread, 0);
    for (int i = 0; i < 8; i++)
        clock.recent[i] = i == 5 ? 9 : 0.1 + 0.01 * i; // one step was interrupted
    clock.calls = 9;
    near(zr_run_clock_median(&clock, &spread), (0.13 + 0.14) / 2);
    near(spread, (0.1625 - 0.1175) / 0.135);
    zr_run_clock_start(&clock);
    for (int step = 0; step < 2 + ZR_RECENT_CALLS + 3; step++) {
        zr_run_clock_turn(&clock, ZR_TIME_COMPUTE);
        clock.seconds[ZR_TIME_COMPUTE] += step;
        zr_run_clock_end_steps(&clock, 1);
    }
    for (int i = 0; i < ZR_RECENT_CALLS; i++)
        assert_int_equal((int)(clock.recent[i] + 0.5), i < 3 ? ZR_RECENT_CALLS + 2 + i : 2 + i);
}

// A run of ten steps of 100 ms, of which the first two took 300 ms more.
static zr_run_times ten_steps(void)
{
    const double recorded[ZR_TIME_PARTS] = {
        [ZR_TIME_COMPUTE] = 0.006, [ZR_TIME_EXCHANGE] = 0.003, [ZR_TIME_UPDATE] = 0.001};
    const zr_run_clock clock = {.began = 1,
                                .since = 4.5,
                                .seconds = {[ZR_TIME_COMPUTE] = 1.3,
                                            [ZR_TIME_DATA] = 0.2,
                                            [ZR_TIME_EVALUATION] = 0.9,
                                            [ZR_TIME_SAVING] = 1,
                                            [ZR_TIME_REST] = 0.1},
                                .calls = 10,
                                .steps = 10,
                                .cold_calls = 2,
                                .cold_steps = 2,
                                .cold_seconds = 0.5,
                                .recent = {0.1, 0.1, 0.09, 0.08, 0.12, 0.1, 0.1, 0.11}};
    zr_run_times times = {
        .setting = {.path = "avx2", .dtype = ZERO_BF16, .threads = 3, .together = 2},
        .ranks = 4,
        .first_step = 7,
        .to_first = 0.25,
        .flops = 2e9,
        .product_rate = 4e10};
    zr_run_times_take(&times, &clock);
    zr_run_times_divide(&times, recorded);
    return times;
}

static void predict(zr_run_times *times)
{
    times->predicted_step = 0.09;
    times->low = 0.08;
    times->high = 0.11;
    times->predicted[ZR_TIME_COMPUTE] = 0.05;
    times->predicted[ZR_TIME_EXCHANGE] = 0.03;
    times->predicted[ZR_TIME_UPDATE] = 0.01;
}

static void test_parts(void **state)
{
    zr_run_times times = ten_steps();
    near(times.step, 0.1);
    near(times.start, 0.3);
    near(times.measured[ZR_TIME_COMPUTE], 0.06);
    near(times.measured[ZR_TIME_EXCHANGE], 0.03);
    near(times.measured[ZR_TIME_UPDATE], 0.01);
    near(10 * times.step + times.start + times.rest + times.measured[ZR_TIME_DATA] +
             times.measured[ZR_TIME_EVALUATION] + times.measured[ZR_TIME_SAVING],
         times.seconds);
    near(zr_run_times_share(&times), 0.5);
}

static void test_words(void **state)
{
    zr_buffer text = {0};
    zr_run_times times = ten_steps();
    zr_run_times_text(&times, &text);
    assert_string_equal(
        text.data,
        "took     3.50 s: 10 steps 1.30 s, data 200 ms, evaluation 900 ms, saving 1.00 s, the "
        "rest 100 ms; before the first step 250 ms\n"
        "         a step 100 ms; compute 60.0 ms, exchange 30.0 ms, update 10.0 ms\n"
        "spent    2 GFLOP a step, 20 GFLOP/s: 50.0% of the 40 GFLOP/s that the best products of 4 "
        "ranks reach here (6N + 12LCT a token, causal attention counted whole)\n");
    text.length = 0;
    times.adapts = true;
    predict(&times);
    times.product_rate = 0;
    times.predicted_to_first = 0.2;
    times.predicted[ZR_TIME_SAVING] = 0.8;
    zr_run_times_text(&times, &text);
    assert_non_null(strstr(text.data, "a step 100 ms, predicted 90.0 ms (80.0 ms to 110 ms); "
                                      "compute 60.0 ms (50.0 ms), exchange 30.0 ms (30.0 ms), "
                                      "update 10.0 ms (10.0 ms)\n"));
    assert_non_null(strstr(text.data, "20 GFLOP/s (4N + 6 of adapters + 12LCT"));
    assert_non_null(strstr(text.data, "saving 1.00 s (predicted 800 ms), "));
    assert_non_null(strstr(text.data, "; before the first step 250 ms (predicted 200 ms)\n"));
    zr_buffer_free(&text);
}

static double number(const json_t *in, const char *object, const char *key)
{
    const json_t *value = json_object_get(object ? json_object_get(in, object) : in, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void count_warning(void *user, zero_log_level level, const char *message)
{
    assert_int_equal(level, ZERO_LOG_WARNING);
    ++*(int *)user;
}

static void test_file(void **state)
{
    char directory[] = "/tmp/run_times.XXXXXX", path[64];
    int warnings = 0;
    const zero_logger logger = {.write = count_warning, .user = &warnings};
    zr_run_times times = ten_steps();
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/times.json", directory);
    assert_int_equal(zr_run_times_write(&times, path, &logger, NULL), ZERO_OK);
    predict(&times);
    times.first_step = 17;
    times.predicted_to_first = 0.2;
    times.spread = NAN; // JSON has no such number
    times.start = -INFINITY;
    assert_int_equal(zr_run_times_write(&times, path, &logger, NULL), ZERO_OK);
    json_t *root = json_load_file(path, 0, NULL), *one = json_array_get(root, 0),
           *two = json_array_get(root, 1), *parts = json_object_get(one, "parts");
    assert_int_equal(json_array_size(root), 2);
    assert_true(number(one, NULL, "first_step") == 7 && number(two, NULL, "first_step") == 17);
    assert_true(number(one, "setting", "together") == 2 && number(one, "setting", "ranks") == 4);
    assert_int_equal(json_object_size(parts), ZR_TIME_PARTS);
    for (int part = 0; part < ZR_TIME_PARTS; part++) {
        near(number(parts, zr_time_part_names[part], "measured"), times.measured[part]);
        assert_true(json_is_null(
            json_object_get(json_object_get(parts, zr_time_part_names[part]), "predicted")));
    }
    near(number(json_object_get(two, "parts"), "compute", "predicted"), 0.05);
    near(number(two, "step", "high"), 0.11);
    near(number(one, "to_first_step", "measured"), 0.25);
    assert_true(json_is_null(json_object_get(json_object_get(one, "to_first_step"), "predicted")));
    near(number(two, "to_first_step", "predicted"), 0.2);
    assert_true(json_is_null(json_object_get(json_object_get(two, "step"), "spread")));
    assert_true(json_is_null(json_object_get(two, "start")));
    near(number(two, NULL, "share"), 0.5);
    near(number(one, "step", "median"), 0.1);
    near(number(one, "step", "spread"), 0.05);
    json_decref(root);
    assert_int_equal(warnings, 0);
    assert_int_equal(zr_file_write_durable(path, "[1,", 3, NULL), ZERO_OK);
    assert_int_equal(zr_run_times_write(&times, path, &logger, NULL), ZERO_OK);
    root = json_load_file(path, 0, NULL);
    assert_true(json_array_size(root) == 1 && warnings == 1);
    json_decref(root);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace),  cmocka_unit_test(test_work_left),
        cmocka_unit_test(test_clock), cmocka_unit_test(test_median),
        cmocka_unit_test(test_parts), cmocka_unit_test(test_words),
        cmocka_unit_test(test_file),  cmocka_unit_test(test_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
