// What a run that continues keeps of the one before it, and what its own configuration decides.
#include "setup/defaults.h"
#include "setup/resolve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static zero_status amend(zr_resolution *how, zr_config *config, zero_error *error)
{
    return zr_inherited_apply(how->user, config, how->facts.micro_batch, how->logger, error);
}

static zero_status go_on(const char *text, const zr_inherited *keep, zr_config **out,
                         zero_error *error)
{
    zr_resolution how = {
        .text = text,
        .length = strlen(text),
        .facts = zr_resolve_facts(
            &(zr_run_outline){.ranks = keep->ranks, .parameters = 1000000, .steps = 100}),
        .amend = amend,
        .user = (void *)keep,
    };
    how.facts.micro_batch = 4;
    return zr_resolve(&how, out, error);
}

static zr_config *must_go_on(const char *text, const zr_inherited *keep)
{
    zr_config *config;
    zero_error error = {0};
    if (go_on(text, keep, &config, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

// Of two ranks that made 16 samples a step, 8 each.
static const zr_run_before sixteen = {.batch = 16, .micro_batch = 8, .ranks = 2};

static void test_a_step_keeps_its_samples(void **state)
{
    const struct {
        int ranks;
        int64_t micro_batch, accumulation;
    } rows[] = {
        {1, 8, 2},
        {2, 8, 1},
        {4, 4, 1},
        {8, 2, 1},
    };
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        const zr_inherited keep = {.before = &sixteen, .ranks = rows[i].ranks};
        zr_config *config = must_go_on("{}", &keep);
        assert_int_equal(config->train_batch, 16);
        assert_int_equal(config->micro_batch, rows[i].micro_batch);
        assert_int_equal(config->accumulation, rows[i].accumulation);
        assert_int_equal(config->loss_mean, 0); // nothing is kept of what the run before had not
        zr_config_destroy(config);
    }
    zr_config *config;
    zero_error error = {0};
    const zr_inherited three = {.before = &sixteen, .ranks = 3};
    assert_int_equal(go_on("{}", &three, &config, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "steps of 16 samples"));
}

// Four ranks, two a model, are two data ranks; they make the steps that two ranks made.
static void test_data_ranks_keep_the_samples(void **state)
{
    const zr_inherited keep = {.before = &sixteen, .ranks = 4};
    zr_resolution how = {
        .text = "{}",
        .length = 2,
        .facts =
            zr_resolve_facts(&(zr_run_outline){.ranks = 8, .parameters = 1000000, .steps = 100}),
        .amend = amend,
        .user = (void *)&keep,
    };
    how.facts.micro_batch = 4;
    how.facts.parallel.tensor = 2;
    zr_config *config;
    zero_error error = {0};
    assert_int_equal(zr_resolve_read(&how, &config, &error), ZERO_OK);
    assert_int_equal(zr_config_resolve(config, &how.facts, NULL, &error), ZERO_OK);
    assert_int_equal(config->ranks, 4);
    assert_int_equal(config->train_batch, 16);
    assert_int_equal(config->micro_batch, 4);
    zr_config_destroy(config);
    how.text = "{\"train_micro_batch_size_per_gpu\": 3}";
    how.length = strlen(how.text);
    assert_int_equal(zr_resolve_read(&how, &config, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message,
                           "steps of 16 samples; 4 data ranks (8 ranks, 2 a model) with "
                           "micro-batches of 3 cannot make them"));
}

typedef struct last_line {
    char text[512]; // of those that name a number of micro-batches
} last_line;

static void keep_line(void *user, zero_log_level level, const char *message)
{
    last_line *last = user;
    if (strstr(message, " micro-batches of "))
        snprintf(last->text, sizeof last->text, "%s", message);
}

// Numbers of data ranks are compared, and called so where a model has, or had, tensor ranks.
static void test_ranks_are_called_what_they_are(void **state)
{
    const struct {
        int world, tensor, tensor_before;
        const char *says;
        int stages, stages_before;
    } rows[] = {
        {4, 0, 0, "4 ranks instead of 2: "},
        {4, 0, 1, "4 ranks instead of 2: "},
        {4, 0, 2, "4 data ranks instead of 2 data ranks (4 ranks, 2 a model): "},
        {8, 2, 1, "4 data ranks (8 ranks, 2 a model) instead of 2 data ranks: "},
        {4, 4, 2,
         "1 data rank (4 ranks, 4 a model) instead of 2 data ranks (4 ranks, 2 a model): "},
        {8, 2, 0,
         "1 data rank (8 ranks: 4 pipeline stages x 2 tensor) instead of 2 data ranks: ", 4, 0},
        {4, 0, 0, "4 data ranks instead of 2 data ranks (4 ranks: 2 pipeline stages): ", 0, 2},
    };
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        zr_run_before before = sixteen;
        zr_inherited keep = {.before = &before,
                             .ranks = rows[i].world /
                                      (ZR_MAX(rows[i].tensor, 1) * ZR_MAX(rows[i].stages, 1))};
        last_line last = {""};
        const zero_logger logger = {.write = keep_line, .user = &last};
        zr_config *config;
        zero_error error;
        before.tensor = rows[i].tensor_before;
        before.stages = rows[i].stages_before;
        zr_resolution how = {
            .text = "{}",
            .length = 2,
            .facts = zr_resolve_facts(
                &(zr_run_outline){.ranks = rows[i].world, .parameters = 1000000, .steps = 100}),
            .logger = &logger,
            .amend = amend,
            .user = &keep,
        };
        how.facts.micro_batch = 4;
        how.facts.parallel.tensor = rows[i].tensor;
        how.facts.parallel.pipeline = rows[i].stages;
        assert_int_equal(zr_resolve_read(&how, &config, &error), ZERO_OK);
        if (strncmp(last.text, rows[i].says, strlen(rows[i].says)))
            fail_msg("\"%s\" instead of \"%s\"", last.text, rows[i].says);
        zr_config_destroy(config);
    }
}

static void test_a_batch_that_is_said_holds(void **state)
{
    const zr_inherited keep = {.before = &sixteen, .ranks = 2};
    zr_config *config = must_go_on("{\"train_batch_size\": 12}", &keep);
    assert_int_equal(config->train_batch, 12);
    zr_config_destroy(config);
}

// Only a run that the program has started again takes another number of micro-batches than is said.
static void test_a_restart_divides_anew(void **state)
{
    static const char text[] = "{\"gradient_accumulation_steps\": 1, "
                               "\"train_micro_batch_size_per_gpu\": 8}";
    zr_config *config;
    zero_error error = {0};
    zr_inherited keep = {.before = &sixteen, .ranks = 1};
    assert_int_equal(go_on(text, &keep, &config, &error), ZERO_ERR_CONFIG);
    keep.restarted = true;
    config = must_go_on(text, &keep);
    assert_int_equal(config->train_batch, 16);
    assert_int_equal(config->accumulation, 2);
    zr_config_destroy(config);
}

static void test_formulas_and_decay(void **state)
{
    const zr_run_before before = {
        .decay = ZR_DECAY_ALL,
        .has_weight_decay = true,
        .weight_decay = 0.25,
        .has_loss_mean = true,
        .has_rate_0 = true,
    };
    const zr_inherited keep = {.before = &before, .ranks = 1};
    zr_config *config = must_go_on("{}", &keep);
    assert_true(config->optimizer.decay_all);
    assert_true(config->optimizer.weight_decay == 0.25);
    assert_int_equal(config->loss_mean, 1);
    assert_true(json_is_false(zr_config_setting(config, "libzero.schedule_from_one")->value));
    zr_config_destroy(config);

    config =
        must_go_on("{\"libzero\": {\"decay_all\": false, \"loss_mean\": \"targets\", "
                   "\"schedule_from_one\": true}, "
                   "\"scheduler\": {\"type\": \"WarmupCosineLR\", "
                   "\"params\": {\"total_num_steps\": 100}}, "
                   "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"weight_decay\": 0.5}}}",
                   &keep);
    assert_false(config->optimizer.decay_all);
    assert_true(config->optimizer.weight_decay == 0.5);
    assert_int_equal(config->loss_mean, 0);
    assert_true(json_is_true(zr_config_setting(config, "libzero.schedule_from_one")->value));
    zr_config_destroy(config);
}

static void test_groups_of_another_kind_must_be_told(void **state)
{
    const zr_run_before before = {.decay = ZR_DECAY_OTHER};
    const zr_inherited keep = {.before = &before, .ranks = 1};
    zr_config *config;
    zero_error error = {0};
    assert_int_equal(go_on("{}", &keep, &config, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "libzero.decay_all"));
    config = must_go_on("{\"libzero\": {\"decay_all\": true}}", &keep);
    assert_true(config->optimizer.decay_all);
    zr_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_keeps_its_samples),
        cmocka_unit_test(test_data_ranks_keep_the_samples),
        cmocka_unit_test(test_ranks_are_called_what_they_are),
        cmocka_unit_test(test_a_batch_that_is_said_holds),
        cmocka_unit_test(test_a_restart_divides_anew),
        cmocka_unit_test(test_formulas_and_decay),
        cmocka_unit_test(test_groups_of_another_kind_must_be_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
