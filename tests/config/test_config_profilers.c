// wall_clock_breakdown, memory_breakdown, flops_profiler, comms_logger and the monitors.
#include "config_support.h"
#include <zero/traffic.h>

static const zr_config_facts facts = {FACTS};

#define EVERY_OP ((1u << ZERO_COMM_OP_COUNT) - 1)

static zr_config *must_resolve(const char *text, recorder *log)
{
    return resolved_well(text, &facts, log);
}

static void test_off(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{\"wall_clock_breakdown\": false}", &log);
    assert_false(c->wall_clock_breakdown || c->memory_breakdown || c->flops_profiler.enabled ||
                 c->comms_logger.enabled);
    assert_lacks(log.lines, "warning");
    zr_config_destroy(c);
}

static void test_breakdowns(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{\"wall_clock_breakdown\": true}", &log);
    assert_true(c->wall_clock_breakdown && !c->memory_breakdown);
    zr_config_destroy(c);
    c = must_resolve("{\"memory_breakdown\": true}", &log);
    assert_true(!c->wall_clock_breakdown && c->memory_breakdown);
    zr_config_destroy(c);
}

static void test_flops_profiler(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{\"flops_profiler\": {\"enabled\": true}}", &log);
    const zr_flops_profiler *f = &c->flops_profiler;
    assert_true(f->enabled && f->detailed && f->step == 1 && !f->output_file &&
                f->recompute_factor == 0);
    zr_config_destroy(c);
    c = must_resolve(
        "{\"flops_profiler\": {\"enabled\": true, \"profile_step\": 7, \"detailed\": false, "
        "\"output_file\": \"flops.txt\", \"recompute_fwd_factor\": 0.5}}",
        &log);
    f = &c->flops_profiler;
    assert_true(f->step == 7 && !f->detailed && f->recompute_factor == 0.5);
    assert_string_equal(f->output_file, "flops.txt");
    assert_lacks(log.lines, "warning");
    zr_config_destroy(c);
    c = must_resolve(
        "{\"flops_profiler\": {\"enabled\": true, \"output_file\": \"\", \"top_modules\": 3}}",
        &log);
    assert_null(c->flops_profiler.output_file);
    assert_contains(log.lines,
                    "no effect here: flops_profiler.top_modules: a model is a flat list");
    zr_config_destroy(c);
    zero_error error;
    assert_null(parsed("{\"flops_profiler\": {\"profile_step\": 0}}", &error));
    assert_contains(error.message, "expected an integer of at least 1");
}

static void expect_ops(const char *keys, uint32_t ops, const char *warning)
{
    char text[512];
    recorder log;
    snprintf(text, sizeof text, "{\"comms_logger\": {\"enabled\": true%s}}", keys);
    zr_config *c = must_resolve(text, &log);
    assert_true(c->comms_logger.enabled);
    assert_int_equal(c->comms_logger.ops, ops);
    if (warning)
        assert_contains(log.lines, warning);
    else
        assert_lacks(log.lines, "warning");
    zr_config_destroy(c);
}

static void test_comms_logger(void **state)
{
    expect_ops("", EVERY_OP, NULL);
    expect_ops(", \"prof_ops\": []", EVERY_OP, NULL);
    expect_ops(", \"prof_all\": false, \"prof_ops\": [\"all_gather\", \"barrier\"]",
               1u << ZERO_COMM_all_gather | 1u << ZERO_COMM_barrier, NULL);
    expect_ops(", \"prof_all\": false, \"prof_ops\": [\"all_reduce\"]", 1u << ZERO_COMM_all_reduce,
               NULL);
    expect_ops(", \"prof_all\": false", 0, NULL);
    expect_ops(", \"prof_ops\": [\"send\"]", EVERY_OP,
               "comms_logger.prof_ops: comms_logger.prof_all is true");
    expect_ops(", \"debug\": true", EVERY_OP, "comms_logger.debug");
    recorder log;
    zr_config *c = must_resolve("{\"comms_logger\": {\"enabled\": true, \"verbose\": true}}", &log);
    assert_true(c->comms_logger.verbose);
    zr_config_destroy(c);
}

static void test_wrong_operations(void **state)
{
    static const char *const wrong[] = {"\"all_to_all\"", "\"\"",       "7",
                                        "null",           "[\"send\"]", "\"ALL_GATHER\""};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        char text[256];
        recorder log;
        zero_error error;
        snprintf(text, sizeof text,
                 "{\"comms_logger\": {\"enabled\": true,\n\"prof_ops\": [\"recv\", %s]}}",
                 wrong[i]);
        assert_null(resolved(text, &facts, &log, &error));
        assert_int_equal(error.status, ZERO_ERR_CONFIG);
        assert_contains(error.message, "ds.json:2:13: comms_logger.prof_ops: found ");
        assert_contains(error.message,
                        "expected operations: all_reduce, reduce_scatter, all_gather, broadcast");
    }
}

// The help of the row lists the operations that there are.
static void test_operations_are_documented(void **state)
{
    const char *help = zr_key_at(zr_key_find("comms_logger.prof_ops"))->help;
#define NAMED(op) assert_contains(help, #op);
    ZERO_COMM_OPS(NAMED)
#undef NAMED
}

static void test_monitors(void **state)
{
    static const struct {
        const char *keys, *directory;
    } rows[] = {
        {"", "DeepSpeedJobName"},
        {", \"output_path\": \"logs\"", "logs/DeepSpeedJobName"},
        {", \"output_path\": \"logs/\", \"job_name\": \"a b\"", "logs/a b"},
        {", \"output_path\": \"/\", \"job_name\": \"x\"", "/x"},
        {", \"output_path\": \"logs\", \"job_name\": \"\"", "logs/"},
        {", \"output_path\": \"logs\", \"job_name\": \"/root/x\"", "/root/x"},
        {", \"output_path\": \"auto\", \"job_name\": \"auto\"", "DeepSpeedJobName"},
    };
    recorder log;
    zero_error error;
    for (int i = 0; i < 2 * ZR_COUNT(rows); i++) {
        char text[256];
        bool csv = i % 2;
        snprintf(text, sizeof text, "{\"%s\": {\"enabled\": true%s}}",
                 csv ? "csv_monitor" : "tensorboard", rows[i / 2].keys);
        zr_config *c = must_resolve(text, &log);
        const zr_monitor_config *asked = csv ? &c->csv_monitor : &c->tensorboard,
                                *other = csv ? &c->tensorboard : &c->csv_monitor;
        assert_true(asked->enabled && !other->enabled && !other->directory);
        assert_string_equal(asked->directory, rows[i / 2].directory);
        assert_lacks(log.lines, "warning");
        zr_config_destroy(c);
    }
    zr_config *c =
        must_resolve("{\"tensorboard\": {\"output_path\": \"logs\", \"job_name\": \"x\"}}", &log);
    assert_true(!c->tensorboard.enabled && !c->tensorboard.directory);
    assert_contains(log.lines, "no effect here: tensorboard.output_path, tensorboard.job_name: "
                               "tensorboard.enabled is false");
    zr_config_destroy(c);
    assert_null(resolved("{\"csv_monitor\": {\"enabled\": true,\n\"job_name\": \"\"}}", &facts,
                         &log, &error));
    assert_contains(
        error.message,
        "ds.json:2:13: csv_monitor.output_path and csv_monitor.job_name are both empty");
    assert_null(resolved("{\"wandb\": {\"enabled\": true}}", &facts, &log, &error));
    assert_contains(error.message, "wandb");
    assert_null(resolved("{\"comet\": {\"enabled\": true}}", &facts, &log, &error));
    assert_contains(error.message, "it needs a network service");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_breakdowns),
        cmocka_unit_test(test_flops_profiler),
        cmocka_unit_test(test_comms_logger),
        cmocka_unit_test(test_wrong_operations),
        cmocka_unit_test(test_operations_are_documented),
        cmocka_unit_test(test_monitors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
