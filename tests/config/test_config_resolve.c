// Resolving: refusals, "auto", keys without effect, and the values of keys that the file does not
// have.
#include "usual_run.h"

// A value of the row's type that is not among its harmless ones.
static const char *asking_value(const zr_key *key)
{
    if (key->type == ZR_KEY_BOOL)
        return !strncmp(key->allowed, "true", 4) ? "false" : "true";
    if (key->type == ZR_KEY_ENUM)
        return !strncmp(key->choices, "none", 4) ? "\"cpu\"" : "\"bf16\"";
    return key->type == ZR_KEY_OBJECT ? "{\"enabled\": true}" : "3";
}

static void test_every_refused_row(void **state)
{
    int refused = 0;
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        bool forbidden = key->treatment == ZR_KEY_FORBIDDEN;
        if (key->treatment != ZR_KEY_REFUSED && !forbidden)
            continue;
        char text[1024];
        nest(key->path, key->type == ZR_KEY_ANY ? "3" : asking_value(key), text, sizeof text);
        must_fail(text, forbidden ? ZERO_ERR_CONFIG : ZERO_ERR_UNSUPPORTED, key->reason);
        must_fail(text, forbidden ? ZERO_ERR_CONFIG : ZERO_ERR_UNSUPPORTED, "ds.json:1:");
        refused++;
    }
    assert_true(refused > 30);
}

static void test_harmless_values_of_refused_rows(void **state)
{
    recorder log;
    zr_config_destroy(must_resolve(
        "{\"fp16\": {\"enabled\": false}, \"bf16\": {\"enabled\": \"auto\"}, "
        "\"communication_data_type\": \"fp32\","
        "\"zero_optimization\": {\"offload_param\": {\"device\": \"none\"}, "
        "\"zero_hpz_partition_size\": 1,"
        "\"mics_shard_size\": -1, \"zenflow\": null}, \"tensor_parallel\": {\"autotp_size\": 0},"
        "\"wandb\": {\"enabled\": false}, \"pipeline\": {\"stages\": \"auto\"}, \"data_types\": "
        "{\"grad_accum_dtype\": \"fp32\"}, \"comet\": \"auto\", \"torch_autocast\": null}",
        &log));
    assert_contains(log.lines, "bf16.enabled auto: false");
    assert_contains(log.lines, "comet auto: off");
}

// What DeepSpeed has removed stands in many files, switched off.
static void what_was_removed_may_be_switched_off(void **state)
{
    recorder log;
    zr_config_destroy(must_resolve(
        "{\"amp\": {\"enabled\": \"auto\", \"opt_level\": \"auto\"}, \"sparse_gradients\": false, "
        "\"nebula\": {}, \"eigenvalue\": null, \"curriculum_learning\": {\"enabled\": false, "
        "\"curriculum_type\": \"seqlen\"}, \"compression_training\": {\"weight_quantization\": "
        "{\"shared_parameters\": {\"enabled\": false}, \"different_groups\": {}}}}",
        &log));
    must_fail("{\"sparse_attention\": {\"mode\": \"fixed\"}}", ZERO_ERR_CONFIG, "removed it");
    must_fail("{\"compression_training\": {\"weight_quantization\": {\"shared_parameters\": "
              "{\"enabled\": true}}}}",
              ZERO_ERR_CONFIG, "removed it");
    must_fail("{\"amp\": {\"enabled\": true}}", ZERO_ERR_CONFIG, "removed it");
}

static void test_unbuilt_values_of_honoured_rows(void **state)
{
    must_fail("{\"optimizer\": {\"type\": \"NAdam\"}}", ZERO_ERR_UNSUPPORTED,
              "optimizer.type \"NAdam\" is refused: this optimizer is not built yet");
    must_fail("{\"optimizer\": {\"type\": \"rmsprop\"}}", ZERO_ERR_UNSUPPORTED, "\"RMSprop\"");
    must_fail("{\"gradient_allreduce_op\": \"sum\"}", ZERO_ERR_UNSUPPORTED, "mean");
    must_fail("{\"libzero\": {\"reduce\": \"per_step\"}}", ZERO_ERR_UNSUPPORTED, "not built yet");
    must_fail("{\"fp16\": {\"enabled\": true}, \"bfloat16\": {\"enabled\": true}}", ZERO_ERR_CONFIG,
              "both enabled");
    must_fail("{\"zero_optimization\": {\"offload_optimizer\": {\"super_offload\": true}}}",
              ZERO_ERR_UNSUPPORTED, "superchips");
    must_fail("{\"optimizer\": {\"params\": {\"max_grad_norm\": \"auto\"}}}", ZERO_ERR_CONFIG,
              "gradient_clipping");
}

// torch's numbers, DeepSpeed's iteration; a rate of matrices or of the rest is lr unless said.
static void test_muon(void **state)
{
    recorder log;
    zr_config *c = must_resolve(
        "{\"optimizer\": {\"type\": \"muon\", \"params\": {\"lr\": 0.02, \"adam_lr\": 3e-4}}}",
        &log);
    const zr_optimizer_spec *muon = &c->optimizer;
    assert_int_equal(muon->kind, ZR_OPTIMIZER_MUON);
    assert_true(muon->lr == 0.02 && muon->muon_lr == 0.02 && muon->adam_lr == 3e-4);
    assert_true(muon->momentum == 0.95 && muon->nesterov && muon->ns_method == 1);
    assert_true(muon->beta1 == 0.9 && muon->beta2 == 0.95 && muon->eps == 1e-10);
    assert_true(muon->bias_correction && !muon->adjust_lr_fn && muon->weight_decay == 0);
    zr_config_destroy(c);
}

// Each row without effect is accepted; it is counted, and a line names it and its reason.
static void test_every_row_without_effect(void **state)
{
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        if (key->treatment != ZR_KEY_NO_EFFECT)
            continue;
        char text[1024];
        recorder log;
        nest(key->path, "\"auto\"", text, sizeof text);
        zr_config_destroy(must_resolve(text, &log));
        assert_contains(log.lines,
                        "warning: 1 key of ds.json has no effect here (--explain)\nds.json:1:");
        assert_contains(log.lines, key->path);
        assert_contains(log.lines, key->reason);
    }
}

static int count_lines(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

static void test_one_warning_and_a_line_a_reason(void **state)
{
    recorder log;
    zr_config_destroy(must_resolve("{\"aio\": {\"block_size\": 1,\n\"queue_depth\": 2, "
                                   "\"use_gds\": false}, \"dump_state\": true}",
                                   &log));
    assert_int_equal(count_lines(log.lines, "warning"), 1);
    assert_int_equal(count_lines(log.lines, "no effect here: "), 2);
    assert_contains(log.lines, "warning: 3 keys of ds.json have no effect here (--explain)\n");
    assert_contains(log.lines, "\nds.json:1:24: no effect here: aio.block_size, aio.queue_depth: "
                               "nothing is offloaded to nvme\n");
    zr_config_destroy(must_resolve("{}", &log));
    assert_int_equal(count_lines(log.lines, "warning"), 0);
}

static void test_defaults_without_a_word(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{}", &log);
    assert_int_equal(c->stage, 0);
    assert_int_equal(c->micro_batch, 2);
    assert_int_equal(c->train_batch, 8);
    assert_true(c->clipping == 1.0);
    assert_int_equal(c->reduce_bucket, 500000000);
    assert_int_equal(c->steps_per_print, 0);
    assert_int_equal(c->optimizer.kind, ZR_OPTIMIZER_ADAMW);
    assert_true(c->optimizer.lr == 1e-3 && c->optimizer.beta1 == 0.9 &&
                c->optimizer.beta2 == 0.999);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_CONSTANT);
    assert_true(c->schedule.lr == 1e-3);
    zr_config_destroy(c);
}

static void test_fields_from_the_file(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{\"prescale_gradients\": true, \"gradient_clipping\": 0, "
                                "\"steps_per_print\": 7, \"seed\": 9,"
                                "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": "
                                "1e6}, \"libzero\": {\"decay_all\": true}}",
                                &log);
    assert_true(c->clipping == 0 && c->optimizer.decay_all);
    assert_int_equal(c->steps_per_print, 7);
    assert_int_equal(c->seed, 9);
    assert_int_equal(c->stage, 3);
    assert_int_equal(c->reduce_bucket, 1000000);
    assert_contains(log.lines, "warning: ds.json:1:");
    assert_contains(log.lines, "seed is read as libzero.seed");
    zr_config_destroy(c);
}

static void test_auto(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{\"gradient_clipping\": \"auto\", \"zero_optimization\": "
                                "{\"stage\": \"auto\", \"reduce_bucket_size\": "
                                "\"auto\"},"
                                "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": "
                                "\"auto\", \"betas\": \"auto\", \"eps\": \"auto\","
                                "\"weight_decay\": \"auto\"}}, \"scheduler\": {\"type\": "
                                "\"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": "
                                "\"auto\","
                                "\"warmup_max_lr\": \"auto\", \"warmup_num_steps\": \"auto\", "
                                "\"total_num_steps\": \"auto\"}}}",
                                &log);
    assert_true(c->optimizer.lr == 3e-4 && c->optimizer.beta2 == 0.95 && c->optimizer.eps == 1e-8);
    assert_true(c->optimizer.weight_decay == 0.1 && c->clipping == 1);
    assert_int_equal(c->reduce_bucket, 32 * 32);
    assert_true(c->schedule.max_lr == 3e-4 && c->schedule.min_lr == 0);
    assert_int_equal(c->schedule.warmup_steps, 10);
    assert_int_equal(c->schedule.total_steps, 200);
    assert_int_equal(zr_config_setting(c, "optimizer.params.lr")->origin, ZR_FROM_AUTO);
    assert_contains(log.lines, "optimizer.params.lr auto: 0.0003\n");
    assert_contains(log.lines, "optimizer.params.betas auto: [0.9, 0.95]\n");
    assert_contains(log.lines, "zero_optimization.reduce_bucket_size auto: 1024\n");
    assert_contains(log.lines, "zero_optimization.stage auto: 0\n");
    assert_contains(log.lines, "scheduler.params.total_num_steps auto: 200\n");
    zr_config_destroy(c);
}

static void test_auto_that_nothing_determines(void **state)
{
    zero_error error;
    recorder log;
    const char *text = "{\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": "
                       "{\"total_num_steps\": \"auto\"}}}";
    assert_null(resolved(text, &(zr_config_facts){FACTS}, &log, &error));
    assert_contains(error.message, "ds.json:1:72: scheduler.params.total_num_steps is \"auto\", "
                                   "which nothing here determines");
    must_fail("{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": \"auto\", "
              "\"cycle_max_lr\": 1}}}",
              ZERO_ERR_CONFIG, "cycle_min_lr is \"auto\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_refused_row),
        cmocka_unit_test(test_harmless_values_of_refused_rows),
        cmocka_unit_test(what_was_removed_may_be_switched_off),
        cmocka_unit_test(test_unbuilt_values_of_honoured_rows),
        cmocka_unit_test(test_muon),
        cmocka_unit_test(test_every_row_without_effect),
        cmocka_unit_test(test_one_warning_and_a_line_a_reason),
        cmocka_unit_test(test_defaults_without_a_word),
        cmocka_unit_test(test_fields_from_the_file),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_auto_that_nothing_determines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
