// Trials, with a shell script in the place of the program: medians, failures in one line,
// deadlines, and that neither processes nor files are left.
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/file.h"
#include "tune/trial.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char place[] = "/tmp/test-trial-XXXXXX";
static char program[64];

// What every script begins with: OUT is where the steps are told; step N MS tells one.
#define BEGIN                                                                                      \
    "#!/bin/sh\n"                                                                                  \
    "while [ $# -gt 0 ]; do [ \"$1\" = --out ] && OUT=$2; [ \"$1\" = --config ] && CONFIG=$2; "    \
    "shift; done\n"                                                                                \
    "mkdir -p $OUT\n"                                                                              \
    "step() { echo "                                                                               \
    "'{\"step\":'$1',\"loss\":2,\"tokens\":64,\"ms\":'$2',\"mem\":{\"a\":{\"planned\""             \
    ":9,\"held\":7},\"b\":{\"held\":5}}}' >>$OUT/metrics.jsonl; }\n"

static void write_program(const char *script)
{
    FILE *file = fopen(program, "w");
    assert_non_null(file);
    fprintf(file, "%s%s\n", BEGIN, script);
    fclose(file);
    assert_int_equal(chmod(program, 0700), 0);
}

static void expect_nothing_left(void)
{
    DIR *entries = opendir(place);
    int count = 0;
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    assert_int_equal(count, 3); // ".", "..", the program
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static zr_trial_question question(void)
{
    static const char *const arguments[] = {"--new", "gpt2", "--data", "x", NULL};
    return (zr_trial_question){.program = program,
                               .arguments = arguments,
                               .config = "{\"train_batch_size\": 4}",
                               .ranks = 2,
                               .threads = 1,
                               .steps = 5,
                               .skipped = 2,
                               .deadline = 20,
                               .parent = place};
}

static zero_status run(const zr_trial_question *q, const char *script, zr_trial_answer *out)
{
    zero_error error = {0};
    write_program(script);
    zero_status status = zr_trial_run(q, out, &error);
    expect_nothing_left();
    return status;
}

static void test_steps_are_measured_and_the_rest_is_cut(void **state)
{
    zr_trial_answer trial;
    zr_trial_question q = question();
    double begun = zr_clock_seconds();
    assert_int_equal(run(&q,
                         "grep -q train_batch_size $CONFIG || exit 3\n"
                         "for ms in 900 800 10 30 20; do step 1 $ms; done; sleep 60",
                         &trial),
                     ZERO_OK);
    assert_true(zr_clock_seconds() - begun < 10);
    assert_true(trial.good);
    assert_int_equal(trial.count, 3);
    assert_true(trial.at[0] == 10e-3 && trial.at[1] == 30e-3 && trial.at[2] == 20e-3);
    assert_true(trial.seconds == 20e-3);
    assert_true(trial.low > 14e-3 && trial.low < 16e-3 && trial.high > 24e-3);
    assert_int_equal(trial.tokens, 64);
    assert_int_equal(trial.memory, 12);
    assert_true(trial.token_rate > 3199 && trial.token_rate < 3201);
}

static void test_enough_is_enough(void **state)
{
    zr_trial_answer trial;
    zr_trial_question q = question();
    q.steps = 100;
    q.enough = 0.05;
    assert_int_equal(run(&q, "for i in 1 2 3 4 5 6; do step $i 20; done; sleep 60", &trial),
                     ZERO_OK);
    assert_true(trial.good && trial.wall < 10);
    assert_true(trial.count >= 3 && trial.count <= 4);
    assert_true(trial.seconds == 20e-3);
}

static void expect_exchanged(const char *traffic, int64_t data, int64_t tensor, int64_t pipeline)
{
    char script[512];
    zr_trial_answer trial;
    zr_trial_question q = question();
    snprintf(script, sizeof script,
             "for i in 1 2 3 4 5; do echo '{\"loss\":2,\"ms\":5,%s}' >>$OUT/metrics.jsonl; done",
             traffic);
    assert_int_equal(run(&q, script, &trial), ZERO_OK);
    assert_int_equal(trial.exchanged[ZERO_AXIS_data], data);
    assert_int_equal(trial.exchanged[ZERO_AXIS_tensor], tensor);
    assert_int_equal(trial.exchanged[ZERO_AXIS_pipeline], pipeline);
}

static void test_bytes_are_of_an_axis(void **state)
{
    expect_exchanged("\"comm\":{\"all_reduce\":{\"bytes\":9},\"reduce_scatter\":{\"bytes\":5}}", 5,
                     0, 0);
    expect_exchanged("\"comm\":{\"reduce_scatter\":{\"bytes\":99}},\"groups\":{"
                     "\"data\":{\"all_gather\":{\"bytes\":1}},"
                     "\"tensor\":{\"all_reduce\":{\"bytes\":2}},"
                     "\"pipeline\":{\"send\":{\"bytes\":3},\"recv\":{\"bytes\":4}}}",
                     1, 2, 3);
}

static void expect_failure(const char *script, const char *why)
{
    zr_trial_answer trial;
    zr_trial_question q = question();
    assert_int_equal(run(&q, script, &trial), ZERO_OK);
    assert_false(trial.good);
    assert_non_null(strstr(trial.why, why));
    assert_null(strchr(trial.why, '\n'));
}

static void test_a_failure_is_one_line(void **state)
{
    expect_failure("echo first >&2; echo the last words >&2; echo >&2; exit 65",
                   "exit code 65: the last words");
    expect_failure("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo the end >&2; exit 3",
                   "exit code 3: the end");
    expect_failure("kill -KILL $$", "killed by signal 9 (Killed)");
    expect_failure("step 1 5; step 2 5; step 3 5; exit 0", "exit code 0");
}

static void test_a_deadline_ends_all_processes(void **state)
{
    zr_trial_answer trial;
    zr_trial_question q = question();
    q.deadline = 0.4;
    assert_int_equal(run(&q, "sleep 60 & step 1 5; step 2 5; step 3 5; sleep 60", &trial), ZERO_OK);
    assert_false(trial.good);
    assert_non_null(strstr(trial.why, "not done within 0.4 s, with 1 of 3 steps measured"));
    assert_true(trial.wall < 10);
    assert_int_equal(run(&q, "for i in 1 2 3 4; do step $i 5; done; sleep 60", &trial), ZERO_OK);
    assert_true(trial.good);
    assert_int_equal(trial.count, 2);
}

// What comes before the first step is not counted against the others.
static void test_a_slow_start_is_no_slow_step(void **state)
{
    zr_trial_answer trial;
    zr_trial_question q = question();
    q.after_first = 0.4;
    assert_int_equal(run(&q, "sleep 1; for i in 1 2 3 4 5; do step $i 5; done", &trial), ZERO_OK);
    assert_true(trial.good && trial.until_first > 0.9);
    assert_int_equal(run(&q, "for i in 1 2 3; do step $i 5; done; sleep 60", &trial), ZERO_OK);
    assert_false(trial.good);
    assert_true(trial.wall < 10);
    q.deadline = 0.5;
    assert_int_equal(run(&q, "sleep 60", &trial), ZERO_OK);
    assert_non_null(strstr(trial.why, "not done within 0.5 s, with 0 of 3 steps measured"));
}

// A step that is written in two parts counts once, when it is there.
static void test_steps_are_read_while_they_are_written(void **state)
{
    zr_trial_answer trial;
    zr_trial_question q = question();
    assert_int_equal(
        run(&q,
            "step 1 5; step 2 5; printf '{\"loss\":2,' >>$OUT/metrics.jsonl; sleep 0.3\n"
            "echo '\"ms\":40}' >>$OUT/metrics.jsonl; step 4 40; step 5 40; sleep 60",
            &trial),
        ZERO_OK);
    assert_true(trial.good && trial.count == 3 && trial.seconds == 40e-3);
}

// Ranks that outlive their supervisor would disturb the next trial.
static void test_ranks_do_not_outlive_the_program(void **state)
{
    char text[64], rank[64];
    snprintf(rank, sizeof rank, "%s-rank", place);
    expect_failure("sleep 60 & echo $! >$(dirname $0)-rank; kill -KILL $$", "signal 9");
    FILE *file = fopen(rank, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    unlink(rank);
    assert_int_not_equal(kill(atoi(text), 0), 0); // at once: the trial waits for it
}

static void test_a_signal_ends_it(void **state)
{
    zr_trial_answer trial;
    zr_trial_question q = question();
    const volatile int stop = SIGINT;
    q.stop = &stop;
    assert_int_equal(run(&q, "sleep 60", &trial), ZERO_ERR_CANCELLED);
}

static void test_there_may_be_many_arguments(void **state)
{
    const char *arguments[302] = {"--new", "gpt2", "--data"};
    zr_trial_answer trial;
    zr_trial_question q = question();
    for (int i = 3; i < 301; i++)
        arguments[i] = "shard.txt";
    q.arguments = arguments;
    assert_int_equal(run(&q, "for i in 1 2 3 4 5; do step $i 5; done", &trial), ZERO_OK);
    assert_true(trial.good);
}

static void test_a_missing_program_is_refused(void **state)
{
    zr_trial_answer trial;
    zr_trial_question q = question();
    zero_error error = {0};
    q.program = "/nowhere/zero";
    write_program("exit 0");
    assert_int_equal(zr_trial_run(&q, &trial, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "/nowhere/zero"));
    q.program = place; // a directory
    assert_int_equal(zr_trial_run(&q, &trial, &error), ZERO_ERR_USAGE);
    expect_nothing_left();
}

static int make_place(void **state)
{
    if (!mkdtemp(place))
        return -1;
    snprintf(program, sizeof program, "%s/zero", place);
    return 0;
}

static int remove_place(void **state) { return zr_directory_remove(place, NULL) != ZERO_OK; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_measured_and_the_rest_is_cut),
        cmocka_unit_test(test_enough_is_enough),
        cmocka_unit_test(test_bytes_are_of_an_axis),
        cmocka_unit_test(test_a_failure_is_one_line),
        cmocka_unit_test(test_a_deadline_ends_all_processes),
        cmocka_unit_test(test_a_slow_start_is_no_slow_step),
        cmocka_unit_test(test_steps_are_read_while_they_are_written),
        cmocka_unit_test(test_ranks_do_not_outlive_the_program),
        cmocka_unit_test(test_a_signal_ends_it),
        cmocka_unit_test(test_there_may_be_many_arguments),
        cmocka_unit_test(test_a_missing_program_is_refused),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
