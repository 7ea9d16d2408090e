// The program's defaults: what it adds to a configuration file, and where the file wins.
#include "usual_run.h"
#include "engine/step_schedules.h"

static void test_program_defaults(void **state)
{
    recorder log;
    zr_config *c = with_defaults("{\"gradient_clipping\": \"auto\"}", &facts, &log);
    assert_int_equal(c->optimizer.kind, ZR_OPTIMIZER_ADAMW);
    assert_true(c->optimizer.lr == 3e-4 && c->optimizer.beta2 == 0.95 &&
                c->optimizer.weight_decay == 0.1 && c->clipping == 1);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_WARMUP_COSINE);
    assert_true(c->schedule.cosine_min_ratio == 0.1 && c->schedule.warmup_linear &&
                c->schedule.lr == 3e-4);
    assert_int_equal(c->schedule.total_steps, 200);
    assert_contains(log.lines, "optimizer AdamW, lr 0.0003, betas 0.9 and 0.95");
    assert_contains(
        log.lines,
        "schedule WarmupCosineLR from the first update on, warm-up over 10 of 200 updates");
    assert_true(zr_schedule_lr(&c->schedule, 0) == 3e-4 / 10 &&
                zr_schedule_lr(&c->schedule, 9) == 3e-4);
    assert_contains(log.lines, "gradient_clipping 1");
    assert_contains(log.lines, "weight decay 0.1 on tensors of two or more dimensions only");
    zr_config_destroy(c);
}

static void test_program_defaults_give_way(void **state)
{
    recorder log;
    zr_config *c = with_defaults("{\"optimizer\": {\"type\": \"SGD\"}, \"gradient_clipping\": 0.5}",
                                 &facts, &log);
    assert_int_equal(c->optimizer.kind, ZR_OPTIMIZER_SGD);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_CONSTANT);
    assert_true(c->clipping == 0.5);
    assert_lacks(log.lines, "program's choice");
    zr_config_destroy(c);
    c = with_defaults(
        "{\"scheduler\": {\"type\": \"WarmupLR\"}, \"optimizer\": {\"params\": {\"lr\": 0.125}}}",
        &facts, &log);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_WARMUP);
    assert_true(c->optimizer.lr == 0.125 && c->optimizer.weight_decay == 0.1 &&
                c->schedule.max_lr == 0.125);
    zr_config_destroy(c);
    c = with_defaults("{\"scheduler\": {\"type\": null}}", &facts, &log);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_WARMUP_COSINE);
    zr_config_destroy(c);
    c = with_defaults("{}", &(zr_config_facts){FACTS}, &log);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_CONSTANT);
    assert_true(c->optimizer.lr == 1e-3);
    assert_contains(log.lines, "the length of the run is unknown");
    zr_config_destroy(c);
}

static const char quoted[] =
    "{ \"train_batch_size\": 64, \"gradient_accumulation_steps\": 2,\n"
    "  \"fp16\": { \"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": 16 },\n"
    "  \"zero_optimization\": { \"stage\": 2, \"contiguous_gradients\": true, "
    "\"overlap_comm\": true, \"reduce_scatter\": true,\n"
    "                         \"reduce_bucket_size\": 5e8, \"allgather_bucket_size\": 5e8 },\n"
    "  \"steps_per_print\": 2000, \"wall_clock_breakdown\": false }";

static void test_the_file_of_the_documents(void **state)
{
    recorder log;
    zr_config *config = with_defaults(quoted, &facts, &log);
    assert_int_equal(config->dtype, ZERO_F16);
    assert_int_equal(config->loss_scale.kind, ZR_SCALE_DYNAMIC);
    assert_true(config->loss_scale.initial == 65536);
    assert_int_equal(config->stage, 2);
    assert_int_equal(config->micro_batch, 8);
    assert_int_equal(config->accumulation, 2);
    assert_int_equal(config->reduce_bucket, 500000000);
    assert_int_equal(config->steps_per_print, 2000);
    assert_false(config->wall_clock_breakdown);
    assert_lacks(log.lines, "fp16.");
    assert_lacks(log.lines, "wall_clock");
    zr_config_destroy(config);
}

static void test_the_file_of_the_documents_in_fp32(void **state)
{
    char text[sizeof quoted + 8];
    const char *at = strstr(quoted, "true");
    recorder log;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - quoted), quoted, "false", at + 4);
    zr_config *config = with_defaults(text, &facts, &log);
    assert_int_equal(config->dtype, ZERO_F32);
    assert_int_equal(config->loss_scale.kind, ZR_SCALE_NONE);
    assert_contains(log.lines, "fp16.loss_scale, fp16.initial_scale_power: fp16.enabled is false");
    zr_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_defaults),
        cmocka_unit_test(test_program_defaults_give_way),
        cmocka_unit_test(test_the_file_of_the_documents),
        cmocka_unit_test(test_the_file_of_the_documents_in_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
