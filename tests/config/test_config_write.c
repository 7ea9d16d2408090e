// The resolved configuration stays the same when it is written, read and resolved again.
#include "config_support.h"
#include "engine/step_schedules.h"

static const zr_config_facts facts = {FACTS, .total_steps = 200, .hidden = 32, .lr = 3e-4,
                                      .auto_dtype = ZERO_BF16};

static char *written(const zr_config *config)
{
    zr_buffer out = {0};
    zr_config_write(config, &out);
    assert_false(out.failed);
    return out.data;
}

static void assert_same_fields(const zr_config *a, const zr_config *b)
{
    assert_int_equal(a->stage, b->stage);
    assert_int_equal(a->train_batch, b->train_batch);
    assert_int_equal(a->micro_batch, b->micro_batch);
    assert_int_equal(a->accumulation, b->accumulation);
    assert_int_equal(a->reduce_bucket, b->reduce_bucket);
    assert_int_equal(a->steps_per_print, b->steps_per_print);
    assert_int_equal(a->seed, b->seed);
    assert_true(a->clipping == b->clipping);
    assert_int_equal(a->optimizer.kind, b->optimizer.kind);
    assert_int_equal(a->schedule.kind, b->schedule.kind);
    assert_true(a->optimizer.lr == b->optimizer.lr &&
                a->optimizer.weight_decay == b->optimizer.weight_decay);
    assert_true(a->optimizer.beta1 == b->optimizer.beta1 &&
                a->optimizer.beta2 == b->optimizer.beta2);
    assert_true(a->optimizer.eps == b->optimizer.eps &&
                a->optimizer.momentum == b->optimizer.momentum);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->wire_given, b->wire_given);
    assert_int_equal(a->accumulator_given, b->accumulator_given);
    assert_true(a->wire_dtype == b->wire_dtype && a->accumulator_dtype == b->accumulator_dtype);
    assert_int_equal(a->loss_scale.kind, b->loss_scale.kind);
    assert_true(a->loss_scale.initial == b->loss_scale.initial &&
                a->loss_scale.min_scale == b->loss_scale.min_scale);
    assert_true(a->loss_scale.window == b->loss_scale.window &&
                a->loss_scale.hysteresis == b->loss_scale.hysteresis);
    assert_int_equal(a->wall_clock_breakdown, b->wall_clock_breakdown);
    assert_int_equal(a->memory_breakdown, b->memory_breakdown);
    assert_int_equal(a->flops_profiler.enabled, b->flops_profiler.enabled);
    assert_int_equal(a->flops_profiler.step, b->flops_profiler.step);
    assert_int_equal(a->comms_logger.ops, b->comms_logger.ops);
    for (int64_t n = 0; n < 300; n += 7)
        assert_true(zr_schedule_lr(&a->schedule, n) == zr_schedule_lr(&b->schedule, n));
}

// Without the program's defaults the second time: the file says everything.
static void round_trip(const char *text)
{
    zero_error error;
    recorder log;
    zr_config *first = parsed(text, &error);
    assert_non_null(first);
    assert_int_equal(zr_config_defaults_apply(first, &facts, NULL, &error), ZERO_OK);
    if (zr_config_resolve(first, &facts, NULL, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    char *out = written(first);
    zr_config *second = resolved(out, &(zr_config_facts){.world = facts.world}, &log, &error);
    if (!second)
        fail_msg("%s\n%s", error.message, out);
    assert_same_fields(first, second);
    char *again = written(second);
    assert_string_equal(out, again);
    zr_free(again);
    zr_free(out);
    zr_config_destroy(first);
    zr_config_destroy(second);
}

static void test_round_trips(void **state)
{
    round_trip("{}");
    round_trip("{\"train_batch_size\": 24, \"zero_optimization\": {\"stage\": 3, "
               "\"sub_group_size\": \"max\"}, \"seed\": 5}");
    round_trip("{\"gradient_clipping\": 0.1, \"optimizer\": {\"type\": \"adam\", \"params\": "
               "{\"lr\": 0.3, "
               "\"adam_w_mode\": false}}}");
    round_trip("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.9}}, "
               "\"scheduler\": {\"type\": \"OneCycle\", "
               "\"params\": {\"cycle_min_lr\": 1e-4, \"cycle_max_lr\": 0.7, \"decay_step_size\": "
               "3, \"decay_lr_rate\": "
               "0.1}}}");
    round_trip(
        "{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_max_lr\": \"auto\", "
        "\"total_num_steps\": \"auto\"}}}");
    round_trip("{\"scheduler\": {\"type\": \"LRRangeTest\", \"params\": "
               "{\"lr_range_test_staircase\": true}}}");
    round_trip("{\"bf16\": {\"enabled\": \"auto\"}, \"zero_optimization\": "
               "{\"stage3_prefetch_bucket_size\": \"auto\", "
               "\"overlap_comm\": null},"
               "\"compile\": {\"backend\": \"a \\\"quoted\\\" name\", \"list\": [1, 2.5, "
               "{\"deep\": null}]}, "
               "\"wandb\": \"auto\"}");
    round_trip("{\"prescale_gradients\": true, \"steps_per_print\": 3, \"libzero\": "
               "{\"decay_all\": true, \"seed\": "
               "9007199254740993}}");
}

static void test_precision_comes_back(void **state)
{
    round_trip(
        "{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 9, \"min_loss_scale\": 0.25}}");
    round_trip("{\"fp16\": {\"enabled\": true, \"loss_scale\": 1.5, \"hysteresis\": 3}}");
    round_trip("{\"fp16\": {\"enabled\": \"auto\", \"loss_scale\": \"auto\"}, \"bfloat16\": "
               "{\"enabled\": \"auto\"}}");
    round_trip("{\"libzero\": {\"dtype\": \"bf16\"}, \"communication_data_type\": \"FP32\"}");
    round_trip(
        "{\"libzero\": {\"dtype\": \"auto\"}, \"data_types\": {\"grad_accum_dtype\": \"bf16\", "
        "\"param_dtype\": \"bf16\"}}");
    round_trip(
        "{\"flops_profiler\": {\"enabled\": true, \"profile_step\": 3, \"output_file\": \"a b\"}, "
        "\"comms_logger\": {\"enabled\": true, \"prof_all\": false, \"prof_ops\": [\"recv\"]}, "
        "\"wall_clock_breakdown\": true, \"memory_breakdown\": true}");
}

// The words of the resolved file are DeepSpeed's; another --dtype may still be given over it.
static void test_the_flag_of_precision_is_written(void **state)
{
    zero_error error;
    zr_config *config = parsed("{\"fp16\": {\"enabled\": true}}", &error);
    assert_int_equal(
        zr_config_override(config, "libzero.dtype", "bf16", "--dtype", false, NULL, &error),
        ZERO_OK);
    assert_int_equal(zr_config_resolve(config, &facts, NULL, &error), ZERO_OK);
    char *out = written(config);
    assert_contains(out, "\"dtype\": null");
    zr_config *second = parsed(out, &error);
    assert_true(json_is_true(zr_config_setting(second, "bf16.enabled")->value));
    assert_true(json_is_false(zr_config_setting(second, "fp16.enabled")->value));
    assert_int_equal(
        zr_config_override(second, "libzero.dtype", "fp16", "--dtype", false, NULL, &error),
        ZERO_OK);
    assert_int_equal(zr_config_resolve(second, &facts, NULL, &error), ZERO_OK);
    assert_int_equal(second->dtype, ZERO_F16);
    zr_free(out);
    zr_config_destroy(second);
    zr_config_destroy(config);
}

static void test_flags_are_written(void **state)
{
    zero_error error;
    zr_config *config = parsed("{\"zero_optimization\": {\"stage\": 1}}", &error);
    assert_int_equal(
        zr_config_override(config, "zero_optimization.stage", "3", "--stage", false, NULL, &error),
        ZERO_OK);
    assert_int_equal(zr_config_resolve(config, &facts, NULL, &error), ZERO_OK);
    char *out = written(config);
    assert_contains(out, "\"stage\": 3");
    assert_contains(out, "\"train_micro_batch_size_per_gpu\": 2");
    zr_free(out);
    zr_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_precision_comes_back),
        cmocka_unit_test(test_the_flag_of_precision_is_written),
        cmocka_unit_test(test_flags_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
