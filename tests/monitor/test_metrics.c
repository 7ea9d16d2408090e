// metrics.jsonl: one line a step, there when the step ends, whose numbers bring the same bits back.
#include "../base/scratch.h"
#include "base/json.h"
#include "monitor/metrics.h"

#include <math.h>

static const zr_metrics_step example = {
    .step = 7,
    .tokens = 768,
    .loss = 5.545177459716797,
    .lr = 1e-5,
    .grad_norm = 2.0 / 3,
    .milliseconds = 36.1,
    .tokens_per_second = 21274,
    .traffic = {.calls = {[ZERO_COMM_reduce_scatter] = 6, [ZERO_COMM_all_gather] = 2},
                .bytes = {[ZERO_COMM_reduce_scatter] = 1048576}},
    .memory = {.planned = {[ZERO_MEM_parameters] = INT64_C(1) << 40, [ZERO_MEM_workspace] = 3},
               .held = {[ZERO_MEM_parameters] = 5}},
};

// Line `number` (from 0) of the file, parsed; NULL where there is none.
static json_t *read_line(const char *path, int number)
{
    char *text;
    size_t length;
    json_t *line = NULL;
    assert_int_equal(zr_file_read(path, 1 << 20, &text, &length, NULL), ZERO_OK);
    assert_true(length == 0 || text[length - 1] == '\n');
    char *at = text;
    for (; number > 0 && at; number--)
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    if (at && *at)
        assert_int_equal(zr_json_parse(at, (size_t)(strchr(at, '\n') - at), path, &line, NULL), ZERO_OK);
    zr_free(text);
    return line;
}

static double number(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static int64_t inner(const json_t *line, const char *key, const char *row, const char *column)
{
    const json_t *value = json_object_get(json_object_get(json_object_get(line, key), row), column);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void test_one_line_a_step(void **state)
{
    const char *path = scratch_path(*state, "metrics.jsonl");
    zr_metrics *metrics;
    assert_int_equal(zr_metrics_open(path, &metrics, NULL), ZERO_OK);
    assert_int_equal(zr_metrics_step_write(metrics, &example, NULL), ZERO_OK);
    json_t *line = read_line(path, 0); // before it is closed
    assert_int_equal(number(line, "step"), 7);
    assert_int_equal(number(line, "tokens"), 768);
    assert_true(number(line, "loss") == example.loss);
    assert_true(number(line, "lr") == example.lr);
    assert_true(number(line, "grad_norm") == example.grad_norm);
    assert_true(number(line, "ms") == example.milliseconds);
    assert_true(number(line, "tok_s") == example.tokens_per_second);
    assert_int_equal(inner(line, "comm", "reduce_scatter", "calls"), 6);
    assert_int_equal(inner(line, "comm", "reduce_scatter", "bytes"), 1048576);
    assert_int_equal(inner(line, "comm", "all_gather", "bytes"), 0);
    assert_null(json_object_get(json_object_get(line, "comm"), "send")); // not called
    assert_true(inner(line, "mem", "parameters", "planned") == INT64_C(1) << 40);
    assert_int_equal(inner(line, "mem", "parameters", "held"), 5);
    assert_int_equal(inner(line, "mem", "workspace", "planned"), 3);
    assert_int_equal(json_object_size(json_object_get(line, "mem")), ZERO_MEM_COUNT);
    assert_int_equal(json_object_size(line), 9);
    json_decref(line);
    zr_metrics_close(metrics);
}

static void test_lines_follow_one_another(void **state)
{
    const char *path = scratch_path(*state, "metrics.jsonl");
    zr_metrics *metrics;
    assert_int_equal(zr_metrics_open(path, &metrics, NULL), ZERO_OK);
    for (int i = 0; i < 20; i++) {
        zr_metrics_step step = example;
        step.step = i;
        step.loss = sqrt(i) / 3;
        assert_int_equal(zr_metrics_step_write(metrics, &step, NULL), ZERO_OK);
    }
    zr_metrics_close(metrics);
    for (int i = 0; i < 20; i++) {
        json_t *line = read_line(path, i);
        assert_int_equal(number(line, "step"), i);
        assert_true(number(line, "loss") == sqrt(i) / 3);
        json_decref(line);
    }
    assert_null(read_line(path, 20));
}

static void test_evaluations_have_no_loss(void **state)
{
    const char *path = scratch_path(*state, "metrics.jsonl");
    zr_metrics *metrics;
    assert_int_equal(zr_metrics_open(path, &metrics, NULL), ZERO_OK);
    assert_int_equal(zr_metrics_eval_write(metrics, 100, 1.9, NULL), ZERO_OK);
    json_t *line = read_line(path, 0);
    assert_int_equal(number(line, "step"), 100);
    assert_true(number(line, "val_loss") == 1.9);
    assert_int_equal(json_object_size(line), 2);
    json_decref(line);
    zr_metrics_close(metrics);
}

static void test_numbers_that_json_does_not_have(void **state)
{
    const char *path = scratch_path(*state, "metrics.jsonl");
    zr_metrics *metrics;
    zr_metrics_step step = example;
    step.loss = (double)NAN;
    step.grad_norm = (double)INFINITY;
    assert_int_equal(zr_metrics_open(path, &metrics, NULL), ZERO_OK);
    assert_int_equal(zr_metrics_step_write(metrics, &step, NULL), ZERO_OK);
    json_t *line = read_line(path, 0);
    assert_true(json_is_null(json_object_get(line, "loss")));
    assert_true(json_is_null(json_object_get(line, "grad_norm")));
    json_decref(line);
    zr_metrics_close(metrics);
}

static void test_an_old_file_is_emptied(void **state)
{
    zr_metrics *metrics;
    scratch_write(*state, "metrics.jsonl", "an old line\n");
    const char *path = scratch_path(*state, "metrics.jsonl");
    assert_int_equal(zr_metrics_open(path, &metrics, NULL), ZERO_OK);
    assert_null(read_line(path, 0));
    zr_metrics_close(metrics);
}

static void test_where_nothing_can_be_written(void **state)
{
    zr_metrics *metrics;
    zero_error error;
    assert_int_equal(zr_metrics_open("/nonexistent/metrics.jsonl", &metrics, &error), ZERO_ERR_IO);
    assert_contains(error.message, "/nonexistent/metrics.jsonl");
    assert_null(metrics);
    zr_metrics_close(NULL);
    if (!zr_path_exists("/dev/full"))
        return;
    assert_int_equal(zr_metrics_open("/dev/full", &metrics, NULL), ZERO_OK);
    assert_int_equal(zr_metrics_step_write(metrics, &example, &error), ZERO_ERR_IO);
    assert_contains(error.message, "/dev/full");
    zr_metrics_close(metrics);
}

static void test_every_allocation_may_fail(void **state)
{
    const char *path = scratch_path(*state, "metrics.jsonl");
    zero_status status = ZERO_ERR_MEMORY;
    for (int nth = 1; status != ZERO_OK; nth++) {
        zr_metrics *metrics;
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        status = zr_metrics_open(path, &metrics, &error);
        if (status == ZERO_OK)
            status = zr_metrics_step_write(metrics, &example, &error);
        zr_alloc_fail_at(0);
        assert_int_equal(status, error.status);
        assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        assert_true(nth < 20);
        zr_metrics_close(metrics);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_line_a_step, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_lines_follow_one_another, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_evaluations_have_no_loss, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_numbers_that_json_does_not_have, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_an_old_file_is_emptied, scratch_open, scratch_close),
        cmocka_unit_test(test_where_nothing_can_be_written),
        cmocka_unit_test_setup_teardown(test_every_allocation_may_fail, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
