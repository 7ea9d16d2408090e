// Flags over the file: they win, say so, and are checked as the file is.
#include "config_support.h"

typedef struct fixture {
    zr_config *config;
    recorder log;
    zero_error error;
} fixture;

static void begin(fixture *f, const char *text)
{
    f->config = parsed(text, &f->error);
    if (!f->config)
        fail_msg("%s", f->error.message);
    recorder_begin(&f->log);
}

static zero_status set(fixture *f, const char *key, const char *value, const char *flag, bool strict)
{
    return zr_config_override(f->config, key, value, flag, strict, &f->log.logger, &f->error);
}

static const char file[] = "{\n\"train_batch_size\": 64,\n\"zero_optimization\": {\n\"stage\": 2\n}}";

static void test_a_flag_wins_and_says_so(void **state)
{
    fixture f;
    begin(&f, file);
    assert_int_equal(set(&f, "zero_optimization.stage", "3", "--stage", false), ZERO_OK);
    assert_string_equal(f.log.lines, "stage 3 (--stage; ds.json:4 says 2)\n");
    const zr_setting *stage = zr_config_setting(f.config, "zero_optimization.stage");
    assert_int_equal(json_integer_value(stage->value), 3);
    assert_int_equal(stage->origin, ZR_FROM_FLAG);
    assert_int_equal(zr_config_resolve(f.config, &(zr_config_facts){FACTS}, NULL, &f.error), ZERO_OK);
    assert_int_equal(f.config->stage, 3);
    zr_config_destroy(f.config);
}

static void test_agreement_and_new_keys_are_silent(void **state)
{
    fixture f;
    begin(&f, file);
    assert_int_equal(set(&f, "zero_optimization.stage", "2", "--stage", true), ZERO_OK);
    assert_int_equal(set(&f, "train_batch_size", "64.0", "--batch", true), ZERO_OK);
    assert_int_equal(set(&f, "gradient_accumulation_steps", "2", "--accumulation", true), ZERO_OK);
    assert_string_equal(f.log.lines, "");
    zr_config_destroy(f.config);
    begin(&f, "{\"zero_optimization\": {\"stage\": \"auto\"}}");
    assert_int_equal(set(&f, "zero_optimization.stage", "2", "--stage", true), ZERO_OK);
    assert_string_equal(f.log.lines, "");
    zr_config_destroy(f.config);
}

static void test_strict_makes_it_an_error(void **state)
{
    fixture f;
    begin(&f, file);
    assert_int_equal(set(&f, "zero_optimization.stage", "3", "--stage", true), ZERO_ERR_USAGE);
    assert_contains(f.error.message, "--stage 3 contradicts ds.json:4, which says stage 2");
    assert_int_equal(json_integer_value(zr_config_setting(f.config, "zero_optimization.stage")->value), 2);
    zr_config_destroy(f.config);
}

static void test_wrong_flags(void **state)
{
    static const struct {
        const char *key, *value, *message;
    } rows[] = {
        {"zero_optimization.stage", "4", "--x: zero_optimization.stage: found 4, expected an integer from 0 to 3"},
        {"zero_optimization.stage", "two", "found two, expected an integer"},
        {"zero_optimization.stage", "", "expected an integer"},
        {"optimizer.params.lr", "nan", "expected a number"},
        {"optimizer.params.lr", "-1", "expected a number of at least 0"},
        {"optimizer.params.lr", "1 2", "expected a number"},
        {"optimizer.type", "adamx", "one of Adam"},
        {"zero_optimization.stag", "1", "did you mean zero_optimization.stage"},
        {"seed", "1", "no key \"seed\""},
    };
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        fixture f;
        begin(&f, "{}");
        assert_int_equal(set(&f, rows[i].key, rows[i].value, "--x", false), ZERO_ERR_USAGE);
        assert_contains(f.error.message, rows[i].message);
        zr_config_destroy(f.config);
    }
}

static void test_the_last_flag_counts(void **state)
{
    fixture f;
    begin(&f, "{}");
    assert_int_equal(set(&f, "libzero.seed", "1", "--seed", true), ZERO_OK);
    assert_int_equal(set(&f, "libzero.seed", "2", "--seed", true), ZERO_OK);
    assert_int_equal(json_integer_value(zr_config_setting(f.config, "libzero.seed")->value), 2);
    zr_config_destroy(f.config);
}

static void test_lr_reaches_the_schedule(void **state)
{
    fixture f;
    begin(&f, "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": 0.5}}}");
    assert_int_equal(set(&f, "optimizer.params.lr", "0.25", "--lr", false), ZERO_OK);
    assert_contains(f.log.lines, "warmup_max_lr 0.25 (--lr; ds.json:1 says 0.5)");
    assert_int_equal(zr_config_resolve(f.config, &(zr_config_facts){FACTS}, NULL, &f.error), ZERO_OK);
    assert_true(f.config->schedule.max_lr == 0.25);
    assert_true(zr_schedule_lr(&f.config->schedule, 5000) == 0.25);
    zr_config_destroy(f.config);
    begin(&f, "{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 9}}}");
    assert_int_equal(set(&f, "optimizer.params.lr", "0.25", "--lr", false), ZERO_OK);
    assert_int_equal(zr_config_resolve(f.config, &(zr_config_facts){FACTS}, NULL, &f.error), ZERO_OK);
    assert_true(f.config->schedule.max_lr == 0.25);
    zr_config_destroy(f.config);
}

static void test_lr_against_a_schedule_of_its_own(void **state)
{
    fixture f;
    begin(&f, "{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.1, \"cycle_max_lr\": 0.5}}}");
    assert_int_equal(set(&f, "optimizer.params.lr", "0.25", "--lr", false), ZERO_OK);
    assert_int_equal(zr_config_resolve(f.config, &(zr_config_facts){FACTS}, NULL, &f.error), ZERO_ERR_USAGE);
    assert_contains(f.error.message, "--lr: the schedule OneCycle of ds.json has rates of its own");
    zr_config_destroy(f.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_flag_wins_and_says_so),
        cmocka_unit_test(test_agreement_and_new_keys_are_silent),
        cmocka_unit_test(test_strict_makes_it_an_error),
        cmocka_unit_test(test_wrong_flags),
        cmocka_unit_test(test_the_last_flag_counts),
        cmocka_unit_test(test_lr_reaches_the_schedule),
        cmocka_unit_test(test_lr_against_a_schedule_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
