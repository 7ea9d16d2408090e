// zero_run as a library function: exit codes, messages, the signal that ends everything, and that
// no child process is left.
#define _GNU_SOURCE
#include "base/clock.h"
#include <zero/run.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static zero_status run(int ranks, const char *script, const volatile int *stop, int *code,
                       zero_error *error)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    zero_run_options options = {
        .struct_size = sizeof options, .ranks = ranks, .argv = argv, .stop = stop};
    double begin = zr_clock_seconds();
    *error = (zero_error){0};
    zero_status status = zero_run(&options, code, error);
    assert_true(zr_clock_seconds() - begin < 20);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // every child is reaped
    assert_int_equal(errno, ECHILD);
    return status;
}

static void test_all_end_well(void **state)
{
    int code = -1;
    zero_error error;
    assert_int_equal(run(4,
                         "[ \"$WORLD_SIZE $LOCAL_WORLD_SIZE\" = '4 4' ] && [ $RANK = $LOCAL_RANK ] "
                         "&& [ $RANK -lt 4 ]",
                         NULL, &code, &error),
                     ZERO_OK);
    assert_int_equal(code, 0);
}

static void test_first_failure_decides(void **state)
{
    int code = 0;
    zero_error error;
    assert_int_not_equal(run(3, "[ $RANK = 2 ] && exit 65; exec sleep 60", NULL, &code, &error),
                         ZERO_OK);
    assert_int_equal(code, 65);
    assert_non_null(strstr(error.message, "rank 2 ended with exit code 65"));
}

static void test_signal_is_named(void **state)
{
    int code = 0;
    zero_error error;
    assert_int_not_equal(
        run(3, "[ $RANK = 1 ] && kill -ABRT $$; exec sleep 60", NULL, &code, &error), ZERO_OK);
    assert_int_equal(code, 128 + 6);
    assert_non_null(strstr(error.message, "rank 1 was killed by signal 6"));
}

static void test_deaf_ranks_are_killed(void **state)
{
    int code = 0;
    zero_error error;
    double begin = zr_clock_seconds();
    assert_int_not_equal(run(2,
                             "[ $RANK = 0 ] && exit 3; trap '' TERM; while :; do sleep 0.2; done",
                             NULL, &code, &error),
                         ZERO_OK);
    assert_int_equal(code, 3);
    assert_true(zr_clock_seconds() - begin > 1); // asked first
}

static void test_stop_ends_all(void **state)
{
    const volatile int stop = 15;
    int code = 0;
    zero_error error;
    assert_int_equal(run(3, "exec sleep 60", &stop, &code, &error), ZERO_ERR_CANCELLED);
    assert_int_equal(code, 128 + 15);
}

// Whole models go on, though the rank dies before it could tell how many ranks compute one.
static void test_restarts_with_whole_models(void **state)
{
    const char *argv[] = {"sh", "-c",
                          "[ $ZERO_RESTART -gt 0 ] && exit $((60 + WORLD_SIZE)); "
                          "[ $RANK = 0 ] && kill -KILL $$; exec sleep 60",
                          NULL};
    zero_run_options options = {
        .struct_size = sizeof options, .ranks = 4, .argv = argv, .restarts = 1, .min_ranks = 1};
    int code;
    assert_int_equal(zero_run(&options, &code, NULL), ZERO_ERR_PEER);
    assert_int_equal(code, 60 + 3);
    options.tensor = 2;
    assert_int_equal(zero_run(&options, &code, NULL), ZERO_ERR_PEER);
    assert_int_equal(code, 60 + 2);
    options.tensor = 0;
    options.pipeline = 2;
    assert_int_equal(zero_run(&options, &code, NULL), ZERO_ERR_PEER);
    assert_int_equal(code, 60 + 2);
    options.tensor = 2;
    assert_int_equal(zero_run(&options, &code, NULL), ZERO_ERR_PEER);
    assert_int_equal(code, 60 + 4);
    options.pipeline = -1;
    assert_int_equal(zero_run(&options, &code, NULL), ZERO_ERR_USAGE);
    options.tensor = -1;
    options.pipeline = 0;
    assert_int_equal(zero_run(&options, &code, NULL), ZERO_ERR_USAGE);
}

static void test_refusals(void **state)
{
    const char *nothing[] = {NULL}, *absent[] = {"there-is-no-such-program", NULL},
               *directory[] = {"/tmp", NULL}, *sh[] = {"sh", "-c", ":", NULL};
    int code;
    zero_error error;
    zero_run_options options = {.struct_size = sizeof options, .ranks = 1, .argv = nothing};
    assert_int_equal(zero_run(&options, &code, &error), ZERO_ERR_USAGE);
    options.argv = absent;
    assert_int_equal(zero_run(&options, &code, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "no such program"));
    options.argv = directory;
    assert_int_equal(zero_run(&options, &code, &error), ZERO_ERR_USAGE);
    options.argv = sh;
    options.ranks = ZERO_MAX_RANKS + 1;
    assert_int_equal(zero_run(&options, &code, &error), ZERO_ERR_USAGE);
    options.ranks = 0;
    assert_int_equal(zero_run(&options, &code, &error), ZERO_ERR_USAGE);
    options.struct_size = 1;
    assert_int_equal(zero_run(&options, &code, &error), ZERO_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_end_well),
        cmocka_unit_test(test_first_failure_decides),
        cmocka_unit_test(test_signal_is_named),
        cmocka_unit_test(test_deaf_ranks_are_killed),
        cmocka_unit_test(test_stop_ends_all),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_restarts_with_whole_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
