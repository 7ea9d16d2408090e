// train = micro x accumulation x ranks: every combination of given values, and errors that show the
// calculation.
#include "config_support.h"
#include "config/settings.h"

typedef struct row {
    zr_batch given;
    int64_t ranks;
    zr_batch solved;     // where it can be
    const char *message; // else part of the error
} row;

static const row rows[] = {
    {{64, 4, 0}, 4, {64, 4, 4}, NULL},
    {{64, 0, 2}, 4, {64, 8, 2}, NULL},
    {{0, 3, 5}, 4, {60, 3, 5}, NULL},
    {{64, 0, 0}, 4, {64, 16, 1}, NULL},
    {{0, 7, 0}, 4, {28, 7, 1}, NULL},
    {{64, 4, 4}, 4, {64, 4, 4}, NULL},
    {{64, 0, 2}, 1, {64, 32, 2}, NULL},
    {{65, 0, 0}, 4, {0}, "65 != 16*1*4"},
    {{64, 0, 3}, 4, {0}, "64 != 5*3*4"},
    {{2, 0, 0}, 4, {0}, "train_micro_batch_size_per_gpu 0; at least 4 samples are needed"},
    {{64, 4, 3}, 4, {0}, "64 != 4*3*4"},
    {{60, 4, 4}, 4, {0}, "60 != 4*4*4"},
    {{8, 4, 0}, 4, {0}, "gradient_accumulation_steps 0"},
    {{0, 0, 3}, 4, {0}, "not determined"},
    {{0, 0, 0}, 4, {0}, "not determined"},
    {{0, INT64_MAX, 2}, 1, {0}, "too large"},
    {{0, INT64_MAX / 2, 2}, 4, {0}, "too large"},
    {{INT64_MAX, 0, INT64_MAX}, 1024, {0}, "train_micro_batch_size_per_gpu 0"},
};

static void test_rules(void **state)
{
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        zr_batch batch = rows[i].given;
        zero_error error = {ZERO_OK, ""};
        zero_status status =
            zr_batch_solve(&batch, (zr_job_grid){1, rows[i].ranks, 1}, "ds.json", &error);
        assert_int_equal(status, rows[i].message ? ZERO_ERR_CONFIG : ZERO_OK);
        if (rows[i].message)
            assert_contains(error.message, rows[i].message);
        else
            assert_memory_equal(&batch, &rows[i].solved, sizeof batch);
    }
}

static void test_through_the_file(void **state)
{
    zero_error error;
    recorder log;
    const zr_config_facts facts = {.world = 4};
    zr_config *config = resolved("{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 2}",
                                 &facts, &log, &error);
    assert_non_null(config);
    assert_int_equal(config->micro_batch, 8);
    assert_int_equal(config->ranks, 4);
    assert_contains(log.lines, "batch 64 = micro-batch 8 x accumulation 2 x 4 ranks");
    zr_config_destroy(config);
    assert_null(resolved("{\"train_batch_size\": 65}", &facts, &log, &error));
    assert_contains(error.message, "ds.json: ");
    assert_contains(error.message, "65 != 16*1*4");
}

static void test_auto_and_the_default_micro_batch(void **state)
{
    zero_error error;
    recorder log;
    const char *text =
        "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", "
        "\"gradient_accumulation_steps\": 3}";
    zr_config *config =
        resolved(text, &(zr_config_facts){.world = 2, .micro_batch = 5}, &log, &error);
    assert_non_null(config);
    assert_int_equal(config->train_batch, 30);
    assert_int_equal(config->micro_batch, 5);
    assert_int_equal(zr_config_setting(config, "train_batch_size")->origin, ZR_FROM_PROGRAM);
    assert_int_equal(zr_config_setting(config, "gradient_accumulation_steps")->origin,
                     ZR_FROM_FILE);
    zr_config_destroy(config);
    assert_null(resolved(text, &(zr_config_facts){.world = 2}, &log, &error));
    assert_contains(error.message, "not determined");
    assert_null(resolved("{}", &(zr_config_facts){.world = 0, .micro_batch = 1}, &log, &error));
    assert_int_equal(error.status, ZERO_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_through_the_file),
        cmocka_unit_test(test_auto_and_the_default_micro_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
