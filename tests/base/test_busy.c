// How busy a machine is, from made-up numbers of the kernel; and lengths of time in words.
#include "base/clock.h"
#include "base/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_files(void **state)
{
    double value = 0;
    zr_turns turns;
    assert_true(zr_busy_read_running("cpu 1 2\nprocs_running 4\nprocs_blocked 0\n", &value));
    assert_float_equal(value, 4, 0);
    assert_false(zr_busy_read_running("cpu 1 2\n", &value));
    assert_true(zr_busy_read_load("5.25 4.10 3.00 6/123 4567\n", &value));
    assert_float_equal(value, 5.25, 0);
    assert_false(zr_busy_read_load("none", &value));
    assert_true(zr_busy_read_turns("2000000000 500000000 17\n", &turns));
    assert_float_equal(turns.running, 2, 1e-12);
    assert_float_equal(turns.waiting, 0.5, 1e-12);
    assert_false(zr_busy_read_turns("2000000000", &turns));
    assert_float_equal(zr_turns_quiet(&(zr_turns){1, 1}, &(zr_turns){4, 2}), 0.75, 1e-12);
    assert_float_equal(zr_turns_quiet(&turns, &turns), 1, 0);
}

static void assert_busy(double load, double running, int threads, int own, double slowdown,
                        const char *words)
{
    zr_busy busy;
    char text[ZR_BUSY_TEXT];
    zr_busy_judge(load, running, threads, own, 2, &busy);
    assert_float_equal(busy.slowdown, slowdown, 1e-9);
    zr_busy_text(&busy, text);
    assert_string_equal(text, words);
}

static void test_load(void **state)
{
    assert_busy(0.2, 1, 2, 1, 1, "");
    assert_busy(9, 1, 2, 1, 1, ""); // what has ended, such as a run before, is not busy now
    assert_busy(0, 8, 2, 1, 1, ""); // nor what has just begun
    assert_busy(1, 2, 1, 1, 1, ""); // there are cores for all
    assert_busy(1, 3, 2, 2, 1.5,
                "this machine is busy (load 1.0 on 2 cores): times will be longer");
    assert_busy(5.2, 9, 2, 1, 3.6,
                "this machine is busy (load 5.2 on 2 cores): times will be longer");
    assert_busy(0, 1, 4, 1, 1, ""); // more threads than cores are the job's own doing
}

static void assert_length(double seconds, bool rough, const char *words)
{
    char text[ZR_LENGTH_TEXT];
    zr_length_text(seconds, 1795000000, rough, text); // Wed 18 Nov 2026 09:46:40 UTC
    assert_string_equal(text, words);
}

static void test_lengths(void **state)
{
    setenv("TZ", "UTC", 1);
    tzset();
    assert_length(0.42, false, "about 0.4 s");
    assert_length(12.3, false, "about 12 s");
    assert_length(59.8, false, "about 1 min, until 11:07");
    assert_length(72, false, "about 1.2 min, until 11:07");
    assert_length(9.97 * 60, false, "about 10 min, until 11:16");
    assert_length(41 * 60, false, "about 41 min, until 11:47");
    assert_length(2 * 3600 + 5 * 60, false, "about 2 h 5 min, until 13:11");
    assert_length(15 * 3600, false, "about 15 h, until Thu 19 Nov 02:06");
    assert_length(5.6 * 86400, false, "about 5.6 days, until Tue 24 Nov 01:30");
    assert_length(43 * 60, true, "very roughly 40 min");
    assert_length(3.4, true, "very roughly 3 s");
    char text[2 * ZR_LENGTH_TEXT];
    zr_thousand_steps_text(2.4, 60, 1795000000, false, text);
    assert_string_equal(text, "A run of 1000 steps, without evaluations and checkpoints: about 41 "
                              "min, until 11:47");
    assert_length(INFINITY, false, "about 115740.7 days");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
