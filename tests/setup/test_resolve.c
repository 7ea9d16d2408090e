// The one path from a configuration's text to its fields: what overrides what, what is logged, and
// what a text that cannot be resolved leaves behind.
#include "base/alloc.h"
#include "setup/resolve.h"
#include "setup/run_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT "{\"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": 1}}"

static void collect(void *user, zero_log_level level, const char *message)
{
    zr_buffer_printf(user, "%s\n", message);
}

static zr_resolution of(const char *text)
{
    return (zr_resolution){
        .text = text,
        .length = strlen(text),
        .name = "ds.json",
        .facts =
            zr_resolve_facts(&(zr_run_outline){.ranks = 2, .parameters = 1000000, .steps = 100}),
    };
}

static zr_config *must_resolve(zr_resolution *how)
{
    zr_config *config;
    zero_error error = {0};
    if (zr_resolve(how, &config, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

static void test_flags_win_over_the_text(void **state)
{
    const zero_override flags[] = {
        {"zero_optimization.stage", "2", "--stage"},
        {"train_micro_batch_size_per_gpu", "8", "--micro-batch"},
    };
    zr_resolution how = of(TEXT);
    how.flags = flags;
    how.flag_count = ZR_COUNT(flags);
    zr_config *config = must_resolve(&how);
    assert_int_equal(config->stage, 2);
    assert_int_equal(config->micro_batch, 8);
    assert_int_equal(config->train_batch, 16);
    zr_config_destroy(config);

    zero_error error = {0};
    how.strict = true;
    assert_int_equal(zr_resolve(&how, &config, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "--stage"));
    assert_null(config);
}

// It comes after the flags, so that it sees what they say, and before the facts are used.
static zero_status double_the_ranks(zr_resolution *how, zr_config *config, zero_error *error)
{
    const zr_setting *stage = zr_config_setting(config, "zero_optimization.stage");
    *(int64_t *)how->user = json_integer_value(stage->value);
    how->facts.world *= 2;
    return zr_config_override(config, "libzero.seed", "7", "test", false, NULL, error);
}

static void test_the_caller_amends_after_the_flags(void **state)
{
    const zero_override flag = {"zero_optimization.stage", "3", "--stage"};
    int64_t seen = -1;
    zr_resolution how = of(TEXT);
    how.flags = &flag;
    how.flag_count = 1;
    how.amend = double_the_ranks;
    how.user = &seen;
    zr_config *config = must_resolve(&how);
    assert_int_equal(seen, 3);
    assert_int_equal(config->ranks, 4);
    assert_int_equal(config->seed, 7);
    zr_config_destroy(config);
}

static zero_status look_at_ranks(zr_resolution *how, zr_config *config, zero_error *error)
{
    *(int *)how->user = config->ranks;
    return ZERO_OK;
}

static void test_the_caller_amends_once_the_ranks_are_known(void **state)
{
    int seen = 0;
    zr_config *config;
    zero_error error = {0};
    zr_resolution how = of(TEXT);
    how.facts.world = 6;
    how.facts.parallel.tensor = 2;
    how.amend = look_at_ranks;
    how.user = &seen;
    assert_int_equal(zr_resolve_read(&how, &config, &error), ZERO_OK);
    assert_int_equal(seen, 3);
    zr_config_destroy(config);
}

static void expect_refused(zr_resolution how, zero_status status, const char *part)
{
    zr_config *config;
    zero_error error = {0};
    assert_int_equal(zr_resolve(&how, &config, &error), status);
    if (!strstr(error.message, part))
        fail_msg("\"%s\" does not contain \"%s\"", error.message, part);
    assert_null(config);
}

static void test_slices_follow_from_file_and_flags(void **state)
{
    zr_resolution how = of(TEXT);
    how.facts.parallel.tensor = 2;
    zr_config *config = must_resolve(&how);
    assert_int_equal(config->exact_tensor, 2);
    assert_false(config->exact_tensor_said);
    zr_config_destroy(config);
    // The bits of an evaluation follow from the slices, too.
    how = of("{\"libzero\": {\"exact_tensor\": 4}, \"train_micro_batch_size_per_gpu\": 1}");
    how.for_inference = true;
    how.facts.micro_batch = 1;
    config = must_resolve(&how);
    assert_int_equal(config->exact_tensor, 4);
    assert_true(config->exact_tensor_said);
    zr_config_destroy(config);
    how = of("{\"train_batch_size\": 3, \"train_micro_batch_size_per_gpu\": 2}");
    how.facts.parallel.tensor = 2;
    expect_refused(how, ZERO_ERR_CONFIG, "on 1 data rank (2 ranks, 2 a model)");
    // A training's file serves its model's users on any number of ranks.
    how = of("{\"tensor_parallel\": {\"autotp_size\": 4}}");
    how.for_inference = true;
    how.facts.micro_batch = 1;
    config = must_resolve(&how);
    assert_int_equal(config->tensor, 1);
    assert_int_equal(config->exact_tensor, 1);
    zr_config_destroy(config);
}

static zero_status refuse(zr_resolution *how, zr_config *config, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_CONFIG, "refused");
}

static void test_a_failure_leaves_nothing(void **state)
{
    zr_config *config = (zr_config *)&config;
    zero_error error = {0};
    zr_resolution how = of(TEXT);
    how.amend = refuse;
    assert_int_equal(zr_resolve(&how, &config, &error), ZERO_ERR_CONFIG);
    assert_string_equal(error.message, "refused");
    assert_null(config);

    how = of("{\"zero_optimization\": {\"stage\": 4}}");
    assert_int_equal(zr_resolve(&how, &config, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "ds.json"));
    assert_null(config);

    how = of("{\"train_batch_size\": 3}"); // read, but not to be resolved by two ranks
    assert_int_equal(zr_resolve(&how, &config, &error), ZERO_ERR_CONFIG);
    assert_null(config);
}

static void test_quiet_says_no_choice_of_the_program(void **state)
{
    for (int quiet = 0; quiet <= 1; quiet++) {
        zr_buffer said = {0};
        const zero_logger logger = {.write = collect, .user = &said};
        zr_resolution how =
            of("{\"train_micro_batch_size_per_gpu\": 2, "
               "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": \"auto\"}}");
        how.logger = &logger;
        how.quiet = quiet;
        zr_config_destroy(must_resolve(&how));
        assert_non_null(said.data);
        assert_non_null(strstr(said.data, "reduce_bucket_size auto"));
        assert_int_equal(strstr(said.data, "optimizer AdamW") == NULL, quiet);
        zr_buffer_free(&said);
    }
}

static void test_for_inference_training_is_forgotten(void **state)
{
    zr_resolution how = of("{\"train_batch_size\": 3, \"zero_optimization\": {\"stage\": 1, "
                           "\"offload_optimizer\": {\"device\": \"cpu\"}}}");
    how.for_inference = true;
    how.facts.micro_batch = 1;
    zr_config *config = must_resolve(&how);
    assert_int_equal(config->stage, 3);
    assert_int_equal(config->offload.optimizer, ZERO_TIER_device);
    const zr_settings settings = zr_settings_of(config, true);
    assert_int_equal(settings.state_vectors, 0);
    assert_true(settings.inference);
    zr_config_destroy(config);
}

static void expect_text(const char *path, zero_status status)
{
    char *text = (char *)path;
    size_t length = 1;
    zero_error error = {0};
    assert_int_equal(zr_resolve_text(path, &text, &length, &error), status);
    assert_int_equal(error.status, status);
    assert_non_null(strstr(error.message, path));
    assert_null(text);
}

static void test_the_text_of_a_file(void **state)
{
    char path[] = "/tmp/zr-resolve-XXXXXX", *text;
    size_t length = 1;
    zero_error error = {0};
    assert_int_equal(zr_resolve_text(NULL, &text, &length, &error), ZERO_OK);
    assert_null(text);
    assert_int_equal(length, 0);
    expect_text("/tmp", ZERO_ERR_CONFIG);
    expect_text("/nonexistent/ds.json", ZERO_ERR_IO);

    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)1 << 30), 0); // sparse: no byte is written
    expect_text(path, ZERO_ERR_CONFIG);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(write(fd, TEXT, strlen(TEXT)), strlen(TEXT));
    assert_int_equal(zr_resolve_text(path, &text, &length, &error), ZERO_OK);
    assert_int_equal(length, strlen(TEXT));
    assert_memory_equal(text, TEXT, length);
    zr_free(text);
    close(fd);
    unlink(path);
}

static void test_windows(void **state)
{
    zero_error error = {0};
    assert_int_equal(zr_window_check(1, 64, &error), ZERO_OK);
    assert_int_equal(zr_window_check(64, 64, &error), ZERO_OK);
    assert_int_equal(zr_window_check(0, 64, &error), ZERO_ERR_USAGE);
    assert_int_equal(zr_window_check(65, 64, &error), ZERO_ERR_USAGE);
    assert_string_equal(error.message,
                        "windows of 65 tokens (--seq): the model has a context of 64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_win_over_the_text),
        cmocka_unit_test(test_the_caller_amends_after_the_flags),
        cmocka_unit_test(test_the_caller_amends_once_the_ranks_are_known),
        cmocka_unit_test(test_slices_follow_from_file_and_flags),
        cmocka_unit_test(test_a_failure_leaves_nothing),
        cmocka_unit_test(test_quiet_says_no_choice_of_the_program),
        cmocka_unit_test(test_for_inference_training_is_forgotten),
        cmocka_unit_test(test_the_text_of_a_file),
        cmocka_unit_test(test_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
