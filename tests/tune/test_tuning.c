// zero_tune refuses options that make no sense, before it looks for anything.
#include <zero/commands.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void write_nothing(void *user, const char *text) { fail_msg("%s", text); }

static void expect_refused(zero_tune_options options, const char *why)
{
    static const char *const data[] = {"/nowhere/text"};
    zero_error error = {0};
    options.new_spec = "gpt2";
    options.data = data;
    options.data_count = 1;
    assert_int_equal(zero_tune(&options, write_nothing, NULL, &error), ZERO_ERR_USAGE);
    if (!strstr(error.message, why))
        fail_msg("\"%s\" in place of \"%s\"", error.message, why);
}

static void test_options_out_of_range(void **state)
{
    expect_refused((zero_tune_options){.ranks = -1}, "-1 ranks");
    expect_refused((zero_tune_options){.ranks = 1 << 20}, "at most 1024 ranks");
    expect_refused((zero_tune_options){.threads = -2}, "of -2 threads");
    expect_refused((zero_tune_options){.parallel = {.tensor = -1}}, "cannot be negative");
    expect_refused((zero_tune_options){.trials = -1}, "cannot be negative");
    expect_refused((zero_tune_options){.seconds = NAN}, "cannot be negative");
    expect_refused((zero_tune_options){.override_count = 1}, "overrides is NULL");
    expect_refused((zero_tune_options){.metric = "speed"}, "\"speed\"");
    expect_refused((zero_tune_options){.model_dir = "model"}, "one of options.new_spec");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
