// Resolving: refusals, "auto", keys without effect, optimizers, schedules, and the program's defaults.
#include "config_support.h"

static const zr_config_facts facts = {FACTS, .total_steps = 200, .warmup_steps = 10, .hidden = 32, .lr = 3e-4};

static zr_config *must_resolve(const char *text, recorder *log)
{
    return resolved_well(text, &facts, log);
}

static void must_fail(const char *text, zero_status status, const char *part)
{
    zero_error error;
    recorder log;
    zr_config *config = resolved(text, &facts, &log, &error);
    if (config)
        fail_msg("%s was accepted", text);
    assert_contains(error.message, part);
    assert_int_equal(error.status, status);
}

// A value of the row's type that is not among its harmless ones.
static const char *asking_value(const zr_key *key)
{
    if (key->type == ZR_KEY_BOOL)
        return !strcmp(key->allowed, "true") ? "false" : "true";
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
        "{\"fp16\": {\"enabled\": false}, \"bf16\": {\"enabled\": \"auto\"}, \"communication_data_type\": \"fp32\","
        "\"zero_optimization\": {\"offload_param\": {\"device\": \"none\"}, \"zero_hpz_partition_size\": 1,"
        "\"mics_shard_size\": -1, \"zenflow\": null}, \"tensor_parallel\": {\"autotp_size\": 0},"
        "\"wandb\": {\"enabled\": false}, \"pipeline\": {\"stages\": \"auto\"}, \"data_types\": "
        "{\"grad_accum_dtype\": \"fp32\"}, \"comet\": \"auto\", \"torch_autocast\": null}",
        &log));
    assert_contains(log.lines, "bf16.enabled auto: false");
    assert_contains(log.lines, "comet auto: off");
}

static void test_unbuilt_values_of_honoured_rows(void **state)
{
    must_fail("{\"optimizer\": {\"type\": \"Muon\"}}", ZERO_ERR_UNSUPPORTED,
              "optimizer.type \"Muon\" is refused: this optimizer is not built yet");
    must_fail("{\"optimizer\": {\"type\": \"rmsprop\"}}", ZERO_ERR_UNSUPPORTED, "\"RMSprop\"");
    must_fail("{\"gradient_allreduce_op\": \"sum\"}", ZERO_ERR_UNSUPPORTED, "mean");
    must_fail("{\"libzero\": {\"reduce\": \"per_step\"}}", ZERO_ERR_UNSUPPORTED, "not built yet");
    must_fail("{\"fp16\": {\"enabled\": true}, \"bfloat16\": {\"enabled\": true}}", ZERO_ERR_CONFIG, "both enabled");
    must_fail("{\"zero_optimization\": {\"offload_optimizer\": {\"super_offload\": true}}}", ZERO_ERR_UNSUPPORTED, "superchips");
    must_fail("{\"optimizer\": {\"params\": {\"max_grad_norm\": \"auto\"}}}", ZERO_ERR_CONFIG, "gradient_clipping");
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
        assert_contains(log.lines, "warning: 1 key of ds.json has no effect here (--explain)\nds.json:1:");
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
    zr_config_destroy(must_resolve(
        "{\"aio\": {\"block_size\": 1,\n\"queue_depth\": 2, \"use_gds\": false}, \"dump_state\": true}", &log));
    assert_int_equal(count_lines(log.lines, "warning"), 1);
    assert_int_equal(count_lines(log.lines, "no effect here: "), 2);
    assert_contains(log.lines, "warning: 3 keys of ds.json have no effect here (--explain)\n");
    assert_contains(log.lines, "\nds.json:1:24: no effect here: aio.block_size, aio.queue_depth: nothing is offloaded to nvme\n");
    zr_config_destroy(must_resolve("{}", &log));
    assert_int_equal(count_lines(log.lines, "warning"), 0);
}

static void must_be(const char *zero, zero_status status, const char *part)
{
    char text[1024];
    recorder log;
    snprintf(text, sizeof text, "{\"zero_optimization\": {%s}}", zero);
    if (status == ZERO_OK)
        zr_config_destroy(must_resolve(text, &log));
    else
        must_fail(text, status, part);
}

#define NVME "{\"device\": \"nvme\", \"nvme_path\": \"/nv\"}"

static void test_what_is_offloaded_is_partitioned(void **state)
{
    must_be("\"stage\": 0, \"offload_optimizer\": {\"device\": \"cpu\"}", ZERO_ERR_CONFIG, "the stage is 0: optimizer states are partitioned from stage 1 on");
    must_be("\"stage\": 1, \"cpu_offload\": true", ZERO_OK, NULL);
    must_be("\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}", ZERO_ERR_CONFIG, "the stage is 2: parameters are partitioned from stage 3 on");
    must_be("\"stage\": 3, \"offload_param\": " NVME ", \"offload_optimizer\": " NVME, ZERO_OK, NULL);
    must_be("\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}", ZERO_ERR_CONFIG, "offload_param.nvme_path: found null, expected a directory on NVMe");
    must_be("\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": [\"/a\", 3]}", ZERO_ERR_CONFIG, "nvme_path: found a list, expected a directory");
    must_be("\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": []}", ZERO_ERR_CONFIG, "from 1 to 16 directories");
    must_be("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}", ZERO_ERR_CONFIG, "ratio 0.5 is for stage 3, the stage is 2");
}

static void test_what_can_be_delayed(void **state)
{
#define FROM "\"libzero\": {\"delayed_update\": {\"start_step\": 5}}"
#define HOST "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}"
    recorder log;
    zr_config *c = must_resolve("{" HOST ", " FROM "}", &log);
    assert_int_equal(c->offload.delayed_from, 5);
    zr_config_destroy(c);
    must_fail("{" FROM "}", ZERO_ERR_CONFIG, "offload_optimizer.device is none");
    must_fail("{" HOST ", \"optimizer\": {\"type\": \"LAMB\"}, " FROM "}", ZERO_ERR_CONFIG, "the optimizer is LAMB: its norms wait for all ranks");
    must_fail("{" HOST ", \"libzero\": {\"delayed_update\": {\"start_step\": 0}}}", ZERO_ERR_CONFIG, "start_step");
}

static void test_bytes(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{\"libzero\": {\"device_memory\": \"512MB\", \"host_memory\": \"1.5 GiB\"}}", &log);
    assert_int_equal(c->offload.device_memory, 512000000);
    assert_int_equal(c->offload.host_memory, (int64_t)3 << 29);
    zr_config_destroy(c);
    zero_error error;
    static const char *const wrong[] = {"\"512 apples\"", "\"GB\"", "-1", "0", "\"\"", "[1]", "\"1e30GB\""};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"libzero\": {\"host_memory\": %s}}", wrong[i]);
        assert_null(parsed(text, &error));
        assert_contains(error.message, "such as 2147483648, \"2GB\" or \"512MiB\"");
    }
}

static void test_offload_values(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": [\"/a\", \"/b\"], \"pipeline_read\": false},"
                                " \"offload_param\": {\"device\": \"cpu\"}, \"sub_group_size\": 7e6}, \"aio\": {\"block_size\": 5000, \"queue_depth\": 1e6}}", &log);
    assert_int_equal(c->offload.optimizer, ZERO_TIER_nvme);
    assert_int_equal(c->offload.parameters, ZERO_TIER_host);
    assert_int_equal(c->offload.optimizer_paths.count, 2);
    assert_string_equal(c->offload.optimizer_paths.at[1], "/b");
    assert_true(!c->offload.read_ahead && c->offload.write_behind && c->offload.ratio == 1);
    assert_int_equal(c->offload.sub_group, 7000000);
    assert_int_equal(c->offload.block, 4096);
    assert_int_equal(c->offload.queue_depth, 256);
    assert_int_equal(c->offload.lanes, 1);
    zr_config_destroy(c);
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
    assert_true(c->optimizer.lr == 1e-3 && c->optimizer.beta1 == 0.9 && c->optimizer.beta2 == 0.999);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_CONSTANT);
    assert_true(zr_schedule_lr(&c->schedule, 17) == 1e-3);
    zr_config_destroy(c);
}

static void test_fields_from_the_file(void **state)
{
    recorder log;
    zr_config *c = must_resolve(
        "{\"prescale_gradients\": true, \"gradient_clipping\": 0, \"steps_per_print\": 7, \"seed\": 9,"
        "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 1e6}, \"libzero\": {\"decay_all\": true}}",
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
    zr_config *c = must_resolve(
        "{\"gradient_clipping\": \"auto\", \"zero_optimization\": {\"stage\": \"auto\", \"reduce_bucket_size\": "
        "\"auto\"},"
        "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": \"auto\", \"eps\": \"auto\","
        "\"weight_decay\": \"auto\"}}, \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": "
        "\"auto\","
        "\"warmup_max_lr\": \"auto\", \"warmup_num_steps\": \"auto\", \"total_num_steps\": \"auto\"}}}",
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
    const char *text = "{\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": \"auto\"}}}";
    assert_null(resolved(text, &(zr_config_facts){FACTS}, &log, &error));
    assert_contains(error.message,
                    "ds.json:1:72: scheduler.params.total_num_steps is \"auto\", which nothing here determines");
    must_fail(
        "{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": \"auto\", \"cycle_max_lr\": 1}}}",
        ZERO_ERR_CONFIG, "cycle_min_lr is \"auto\"");
}

static void expect_optimizer(const char *params, zr_optimizer_spec want)
{
    char text[512];
    recorder log;
    snprintf(text, sizeof text, "{\"optimizer\": {%s}}", params);
    zr_config *c = must_resolve(text, &log);
    const zr_optimizer_spec *got = &c->optimizer;
    assert_int_equal(got->kind, want.kind);
    assert_true(got->lr == want.lr && got->beta1 == want.beta1 && got->beta2 == want.beta2 && got->eps == want.eps);
    assert_true(got->weight_decay == want.weight_decay && got->momentum == want.momentum &&
                got->dampening == want.dampening);
    assert_true(got->min_coeff == want.min_coeff && got->max_coeff == want.max_coeff && got->nesterov == want.nesterov);
    zr_config_destroy(c);
}

#define ADAM_STANDARD .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8

static void test_optimizers(void **state)
{
    expect_optimizer("\"type\": \"Adam\"", (zr_optimizer_spec){.kind = ZR_OPTIMIZER_ADAMW, ADAM_STANDARD});
    expect_optimizer("\"type\": \"ADAM\", \"params\": {\"adam_w_mode\": false}",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_ADAM_L2, ADAM_STANDARD});
    expect_optimizer("\"type\": \"AdamW\", \"params\": {\"adam_w_mode\": false}",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_ADAMW, ADAM_STANDARD});
    expect_optimizer(
        "\"type\": \"SGD\", \"params\": {\"lr\": 0.5, \"momentum\": 0.9, \"nesterov\": true, \"weight_decay\": 0.01}",
        (zr_optimizer_spec){
            .kind = ZR_OPTIMIZER_SGD, .lr = 0.5, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
    expect_optimizer("\"type\": \"sgd\", \"params\": {\"momentum\": 0.5, \"dampening\": 0.25}",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_SGD, .lr = 1e-3, .momentum = 0.5, .dampening = 0.25});
    expect_optimizer("\"type\": \"Adagrad\"",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_ADAGRAD, .lr = 1e-2, .eps = 1e-10});
    expect_optimizer("\"type\": \"Lion\", \"params\": {\"betas\": [0.95, 0.98]}",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_LION, .lr = 1e-3, .beta1 = 0.95, .beta2 = 0.98});
    expect_optimizer("\"type\": \"Lamb\", \"params\": {\"max_coeff\": 5}",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_LAMB, ADAM_STANDARD, .min_coeff = 0.01, .max_coeff = 5});
    expect_optimizer("\"type\": \"SGD\", \"params\": {\"lr\": \"auto\", \"weight_decay\": \"auto\"}",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_SGD, .lr = 1e-3});
}

static void test_parameters_of_other_kinds(void **state)
{
    must_fail("{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"momentum\": 0.9}}}", ZERO_ERR_CONFIG,
              "AdamW has no optimizer.params.momentum; it has lr, betas, eps, weight_decay, adam_w_mode");
    must_fail("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"betas\": [0.9, 0.9]}}}", ZERO_ERR_CONFIG,
              "SGD has no");
    must_fail("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 9}}}", ZERO_ERR_CONFIG,
              "WarmupLR has no scheduler.params.total_num_steps; it has warmup_min_lr");
    must_fail("{\"scheduler\": {\"params\": {\"total_num_steps\": 9}}}", ZERO_ERR_CONFIG, "needs a scheduler.type");
    must_fail("{\"libzero\": {\"schedule_from_one\": true}, \"scheduler\": {\"type\": \"WarmupLR\"}}", ZERO_ERR_CONFIG,
              "ds.json:1:35: libzero.schedule_from_one is for WarmupCosineLR; the schedule is WarmupLR");
    must_fail("{\"scheduler\": {\"type\": \"WarmupCosineLR\"}}", ZERO_ERR_CONFIG,
              "WarmupCosineLR needs scheduler.params.total_num_steps");
    must_fail("{\"scheduler\": {\"type\": \"OneCycle\"}}", ZERO_ERR_CONFIG,
              "OneCycle needs scheduler.params.cycle_min_lr");
    must_fail("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"last_batch_iteration\": 4}}}",
              ZERO_ERR_UNSUPPORTED, "checkpoint");
}

static void test_values_that_contradict(void **state)
{
    static const char *const betas[] = {"[]",           "[0.9]",     "[0.9, 1]", "[-0.1, 0.9]", "[0.9, 0.9, 0.9]",
                                        "[\"a\", 0.5]", "[0.9, 1.5]"};
    for (int i = 0; i < ZR_COUNT(betas); i++) {
        char text[256];
        nest("optimizer.params.betas", betas[i], text, sizeof text);
        must_fail(text, ZERO_ERR_CONFIG, "ds.json:1:36: optimizer.params.betas: expected two numbers");
    }
    must_fail("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"nesterov\": true}}}", ZERO_ERR_CONFIG,
              "nesterov needs a momentum");
    must_fail(
        "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"nesterov\": true, \"momentum\": 0.9, \"dampening\": 0.1}}}",
        ZERO_ERR_CONFIG, "a dampening of 0");
    recorder log;
    zr_config_destroy(must_resolve("{\"prescale_gradients\": true, \"gradient_predivide_factor\": 2}", &log));
    assert_contains(log.lines, "enters at the loss");
    must_fail("{\"optimizer\": {\"type\": \"LAMB\", \"params\": {\"min_coeff\": 3, \"max_coeff\": 1}}}",
              ZERO_ERR_CONFIG, "min_coeff 3 is above");
}

static void test_schedules(void **state)
{
    recorder log;
    zr_config *c = must_resolve("{\"optimizer\": {\"params\": {\"lr\": 0.5}}, \"scheduler\": {\"type\": \"WarmupLR\", "
                                "\"params\": {\"warmup_num_steps\": 3}}}",
                                &log);
    assert_true(c->schedule.max_lr == 0.5 && c->schedule.warmup_steps == 3 && !c->schedule.warmup_linear);
    zr_config_destroy(c);
    c = must_resolve(
        "{\"optimizer\": {\"params\": {\"lr\": 0.5}}, \"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": "
        "{\"total_num_steps\": 30, \"warmup_type\": \"linear\"}}}",
        &log);
    assert_true(c->schedule.max_lr == 1e-3 && c->schedule.warmup_linear == 1);
    assert_contains(log.lines, "the warm-up of 1000 updates is longer than the schedule's 30");
    zr_config_destroy(c);
    c = must_resolve("{\"optimizer\": {\"params\": {\"lr\": 0.5}}, \"scheduler\": {\"type\": \"OneCycle\", \"params\": "
                     "{\"cycle_min_lr\": 0.1,"
                     "\"cycle_max_lr\": 0.4, \"cycle_first_step_size\": 30, \"cycle_first_stair_count\": 5}}}",
                     &log);
    assert_true(c->schedule.min_lr == 0.1 && c->schedule.max_lr == 0.4 && c->schedule.min_momentum == 0.8);
    assert_int_equal(c->schedule.second_steps, 30);
    assert_int_equal(c->schedule.second_stairs, 5);
    assert_contains(log.lines, "optimizer.params.lr has no effect: OneCycle has rates of its own");
    zr_config_destroy(c);
    c = must_resolve("{\"scheduler\": {\"type\": \"LRRangeTest\"}}", &log);
    assert_true(c->schedule.min_lr == 1e-3 && c->schedule.range_rate == 1 && c->schedule.range_steps == 2000);
    assert_false(c->schedule.range_staircase);
    zr_config_destroy(c);
    c = must_resolve("{\"scheduler\": {\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_staircase\": true}}}",
                     &log);
    assert_true(c->schedule.range_staircase);
    zr_config_destroy(c);
}

static zr_config *with_defaults(const char *text, const zr_config_facts *of, recorder *log)
{
    zero_error error;
    zr_config *config = parsed(text, &error);
    assert_non_null(config);
    recorder_begin(log);
    assert_int_equal(zr_config_defaults_apply(config, of, &log->logger, &error), ZERO_OK);
    if (zr_config_resolve(config, of, &log->logger, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

static void test_program_defaults(void **state)
{
    recorder log;
    zr_config *c = with_defaults("{\"gradient_clipping\": \"auto\"}", &facts, &log);
    assert_int_equal(c->optimizer.kind, ZR_OPTIMIZER_ADAMW);
    assert_true(c->optimizer.lr == 3e-4 && c->optimizer.beta2 == 0.95 && c->optimizer.weight_decay == 0.1 &&
                c->clipping == 1);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_WARMUP_COSINE);
    assert_true(c->schedule.cosine_min_ratio == 0.1 && c->schedule.warmup_linear && c->schedule.lr == 3e-4);
    assert_int_equal(c->schedule.total_steps, 200);
    assert_contains(log.lines, "optimizer AdamW, lr 0.0003, betas 0.9 and 0.95");
    assert_contains(log.lines, "schedule WarmupCosineLR from the first update on, 10 updates of warm-up, 200 in all");
    assert_true(zr_schedule_lr(&c->schedule, 0) == 3e-4 / 10 && zr_schedule_lr(&c->schedule, 9) == 3e-4);
    assert_contains(log.lines, "gradient_clipping 1");
    assert_contains(log.lines, "weight decay 0.1 on tensors of two or more dimensions only");
    zr_config_destroy(c);
}

static void test_program_defaults_give_way(void **state)
{
    recorder log;
    zr_config *c = with_defaults("{\"optimizer\": {\"type\": \"SGD\"}, \"gradient_clipping\": 0.5}", &facts, &log);
    assert_int_equal(c->optimizer.kind, ZR_OPTIMIZER_SGD);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_CONSTANT);
    assert_true(c->clipping == 0.5);
    assert_lacks(log.lines, "program's choice");
    zr_config_destroy(c);
    c = with_defaults("{\"scheduler\": {\"type\": \"WarmupLR\"}, \"optimizer\": {\"params\": {\"lr\": 0.125}}}", &facts,
                      &log);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_WARMUP);
    assert_true(c->optimizer.lr == 0.125 && c->optimizer.weight_decay == 0.1 && c->schedule.max_lr == 0.125);
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

static const char quoted[] = "{ \"train_batch_size\": 64, \"gradient_accumulation_steps\": 2,\n"
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
        cmocka_unit_test(test_every_refused_row),
        cmocka_unit_test(test_harmless_values_of_refused_rows),
        cmocka_unit_test(test_unbuilt_values_of_honoured_rows),
        cmocka_unit_test(test_every_row_without_effect),
        cmocka_unit_test(test_one_warning_and_a_line_a_reason),
        cmocka_unit_test(test_what_is_offloaded_is_partitioned),
        cmocka_unit_test(test_what_can_be_delayed),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_offload_values),
        cmocka_unit_test(test_defaults_without_a_word),
        cmocka_unit_test(test_fields_from_the_file),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_auto_that_nothing_determines),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_parameters_of_other_kinds),
        cmocka_unit_test(test_values_that_contradict),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_program_defaults),
        cmocka_unit_test(test_program_defaults_give_way),
        cmocka_unit_test(test_the_file_of_the_documents),
        cmocka_unit_test(test_the_file_of_the_documents_in_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
