// Flags that override the file: they win, a message says so, and they are checked as the file is.
#include "config_support.h"
#include "config/settings.h"
#include "engine/step_schedules.h"

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

static zero_status set(fixture *f, const char *key, const char *value, const char *flag,
                       bool strict)
{
    return zr_config_override(f->config, key, value, flag, strict, &f->log.logger, &f->error);
}

static const char file[] =
    "{\n\"train_batch_size\": 64,\n\"zero_optimization\": {\n\"stage\": 2\n}}";

static void test_a_flag_wins_and_says_so(void **state)
{
    fixture f;
    begin(&f, file);
    assert_int_equal(set(&f, "zero_optimization.stage", "3", "--stage", false), ZERO_OK);
    assert_string_equal(f.log.lines, "stage 3 (--stage; ds.json:4 says 2)\n");
    const zr_setting *stage = zr_config_setting(f.config, "zero_optimization.stage");
    assert_int_equal(json_integer_value(stage->value), 3);
    assert_int_equal(stage->origin, ZR_FROM_FLAG);
    assert_int_equal(zr_config_resolve(f.config, &(zr_config_facts){FACTS}, NULL, &f.error),
                     ZERO_OK);
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
    assert_int_equal(
        json_integer_value(zr_config_setting(f.config, "zero_optimization.stage")->value), 2);
    zr_config_destroy(f.config);
}

#define AGREEING_FILE                                                                              \
    "{\"tensor_parallel\": {\"tp\": {\"tp_size\": 4}}, \"pipeline\": {\"stages\": 1},"             \
    " \"libzero\": {\"sequence_parallel\": false,"                                                 \
    " \"pipeline\": {\"schedule\": \"interleaved\", \"split\": [6]}}}"

// A flag adds what the file leaves open, and what the file sets stays as the file has it.
static void test_flags_that_must_agree(void **state)
{
    static const struct {
        const char *key, *value, *flag;
        const char *refused; // NULL: the flag agrees
        bool is_put;
    } rows[] = {
        {"tensor_parallel.autotp_size", "4", "--tensor", NULL, false},
        {"tensor_parallel.autotp_size", "2", "--tensor",
         "--tensor 2 contradicts tensor_parallel.tp.tp_size 4 (ds.json:1:40): say one of them, or "
         "both alike",
         false},
        {"tensor_parallel.tp.tp_size", "4", "--x", NULL, false},
        {"pipeline.stages", "2", "--pipeline", NULL, true},
        {"libzero.sequence_parallel", "true", "--sequence-parallel",
         "--sequence-parallel contradicts libzero.sequence_parallel false (ds.json:1:105): say one "
         "of them, or both alike",
         false},
        {"libzero.pipeline.schedule", "interleaved:2", "--schedule", NULL, false},
        {"libzero.pipeline.schedule", "gpipe", "--schedule",
         "--schedule gpipe contradicts libzero.pipeline.schedule \"interleaved\" (ds.json:1:137): "
         "say "
         "one of them, or both alike",
         false},
        {"libzero.pipeline.schedule", "zb", "--schedule",
         "--schedule zb: expected one of " ZR_PIPELINE_KINDS, false},
        {"libzero.pipeline.split", "0,6", "--split", NULL, false},
        {"libzero.pipeline.split", "[0, 6]", "--split", NULL, false},
        {"libzero.pipeline.split", "5", "--split",
         "--split 5 contradicts libzero.pipeline.split [6] (ds.json:1:161): say one of them, or "
         "both alike",
         false},
    };
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        fixture f;
        begin(&f, AGREEING_FILE);
        zero_status status = set(&f, rows[i].key, rows[i].value, rows[i].flag, true);
        if (rows[i].refused)
            assert_string_equal(f.error.message, rows[i].refused);
        assert_int_equal(status, rows[i].refused ? ZERO_ERR_USAGE : ZERO_OK);
        zr_origin origin = zr_config_setting(f.config, rows[i].key)->origin;
        assert_int_equal(origin == ZR_FROM_FLAG, rows[i].is_put);
        assert_string_equal(f.log.lines, "");
        zr_config_destroy(f.config);
    }
}

static void test_wrong_flags(void **state)
{
    static const struct {
        const char *key, *value, *message;
    } rows[] = {
        {"zero_optimization.stage", "4",
         "--x: zero_optimization.stage: found 4, expected an integer from 0 to 3"},
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
    assert_int_equal(zr_config_resolve(f.config, &(zr_config_facts){FACTS}, NULL, &f.error),
                     ZERO_OK);
    assert_true(f.config->schedule.max_lr == 0.25);
    assert_true(zr_schedule_lr(&f.config->schedule, 5000) == 0.25);
    zr_config_destroy(f.config);
    begin(&f,
          "{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 9}}}");
    assert_int_equal(set(&f, "optimizer.params.lr", "0.25", "--lr", false), ZERO_OK);
    assert_int_equal(zr_config_resolve(f.config, &(zr_config_facts){FACTS}, NULL, &f.error),
                     ZERO_OK);
    assert_true(f.config->schedule.max_lr == 0.25);
    zr_config_destroy(f.config);
}

static void test_lr_against_a_schedule_of_its_own(void **state)
{
    fixture f;
    begin(&f, "{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.1, "
              "\"cycle_max_lr\": 0.5}}}");
    assert_int_equal(set(&f, "optimizer.params.lr", "0.25", "--lr", false), ZERO_OK);
    assert_int_equal(zr_config_resolve(f.config, &(zr_config_facts){FACTS}, NULL, &f.error),
                     ZERO_ERR_USAGE);
    assert_contains(f.error.message, "--lr: the schedule OneCycle of ds.json has rates of its own");
    zr_config_destroy(f.config);
}

#define OFFLOADED "\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}"
#define ELASTIC                                                                                    \
    "\"elasticity\": {\"enabled\": true, \"version\": 0.1, \"max_train_batch_size\": 48, "         \
    "\"micro_batch_sizes\": [2, 3]"
#define WARMUP(type, more)                                                                         \
    "{\"scheduler\": {\"type\": \"" type "\", \"params\": {\"total_num_steps\": 9" more "}}}"
#define CYCLE(least, most)                                                                         \
    "{\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": " least               \
    ", \"cycle_max_lr\": " most "}}}"
#define RANGE                                                                                      \
    "{\"scheduler\": {\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_min_lr\": 0.1}}}"

// Every flag that has a key, over files that say another value: refused by a message with that key
// (refusal), or the resolved file has the value under `resolved`. Files without an optimizer are
// tried with one, too.
static const struct {
    const char *flag, *key, *value, *file, *resolved, *expected, *refusal;
} contradictions[] = {
    {"--lr", "optimizer.params.lr", "0.5", "{}", "optimizer.params.lr", "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5", "{\"optimizer\": {\"params\": {\"lr\": 1e-4}}}",
     "optimizer.params.lr", "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5",
     "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 1e-4}}}", "optimizer.params.lr",
     "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5",
     "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"auto\"}}}", "optimizer.params.lr",
     "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5",
     "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": 1e-4}}}",
     "scheduler.params.warmup_max_lr", "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5", WARMUP("WarmupDecayLR", ""),
     "scheduler.params.warmup_max_lr", "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5", WARMUP("WarmupDecayLR", ", \"warmup_max_lr\": \"auto\""),
     "scheduler.params.warmup_max_lr", "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5", WARMUP("WarmupDecayLR", ", \"warmup_max_lr\": null"),
     "scheduler.params.warmup_max_lr", "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5", WARMUP("WarmupCosineLR", ""), "optimizer.params.lr",
     "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5", CYCLE("0.1", "0.3"), NULL, NULL,
     "--lr: the schedule OneCycle of ds.json has rates of its own; change "
     "scheduler.params.cycle_max_lr (ds.json:1:"},
    {"--lr", "optimizer.params.lr", "0.5", CYCLE("0.1", "\"auto\""),
     "scheduler.params.cycle_max_lr", "0.5", NULL},
    {"--lr", "optimizer.params.lr", "0.5", RANGE, NULL, NULL,
     "--lr: the schedule LRRangeTest of ds.json has rates of its own; change "
     "scheduler.params.lr_range_test_min_lr"},
    {"--lr", "optimizer.params.lr", "0.5",
     "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0.6, "
     "\"warmup_max_lr\": 0.7}}}",
     NULL, NULL, "--lr 0.5 is below scheduler.params.warmup_min_lr, which is 0.6 (ds.json:1:"},
    {"--seed", "libzero.seed", "7", "{\"seed\": 3}", "libzero.seed", "7", NULL},
    {"--seed", "libzero.seed", "7", "{\"libzero\": {\"seed\": 3}}", "libzero.seed", "7", NULL},
    {"--stage", "zero_optimization.stage", "2", "{\"zero_optimization\": true}",
     "zero_optimization.stage", "2", NULL},
    {"--stage", "zero_optimization.stage", "2", "{\"zero_optimization\": {" OFFLOADED "}}",
     "zero_optimization.stage", "2", NULL},
    {"--stage", "zero_optimization.stage", "0", "{\"zero_optimization\": {" OFFLOADED "}}", NULL,
     NULL, "zero_optimization.offload_optimizer.device is cpu, but the stage is 0"},
    {"--micro-batch", "train_micro_batch_size_per_gpu", "3",
     "{\"train_micro_batch_size_per_gpu\": 8}", "train_micro_batch_size_per_gpu", "3", NULL},
    {"--micro-batch", "train_micro_batch_size_per_gpu", "3", "{\"train_batch_size\": 24}",
     "train_micro_batch_size_per_gpu", "3", NULL},
    {"--micro-batch", "train_micro_batch_size_per_gpu", "3",
     "{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 2}", NULL, NULL,
     "train_batch_size is not train_micro_batch_size_per_gpu x gradient_accumulation_steps x "
     "ranks: 64 != 3*2*4"},
    {"--micro-batch", "train_micro_batch_size_per_gpu", "7", "{" ELASTIC "}}", NULL, NULL,
     "--micro-batch: train_micro_batch_size_per_gpu 7 is given together with elasticity"},
    {"--micro-batch", "train_micro_batch_size_per_gpu", "7",
     "{" ELASTIC ", \"ignore_non_elastic_batch_info\": true}}", NULL, NULL,
     "--micro-batch: train_micro_batch_size_per_gpu 7 contradicts elasticity of ds.json, which "
     "takes"},
    {"--accumulation", "gradient_accumulation_steps", "5", "{\"gradient_accumulation_steps\": 2}",
     "gradient_accumulation_steps", "5", NULL},
    {"--accumulation", "gradient_accumulation_steps", "5",
     "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 8}", NULL, NULL,
     "gradient_accumulation_steps"},
    {"--accumulation", "gradient_accumulation_steps", "99",
     "{" ELASTIC ", \"ignore_non_elastic_batch_info\": true}}", NULL, NULL,
     "--accumulation: gradient_accumulation_steps 99 contradicts elasticity"},
    {"--dtype", "libzero.dtype", "bf16", "{\"fp16\": {\"enabled\": true}}", "bf16.enabled", "true",
     NULL},
    {"--dtype", "libzero.dtype", "fp32", "{\"fp16\": {\"enabled\": true}}", "fp16.enabled", "false",
     NULL},
    {"--dtype", "libzero.dtype", "fp32", "{\"bfloat16\": {\"enabled\": true}}", "bf16.enabled",
     "false", NULL},
    {"--dtype", "libzero.dtype", "fp16",
     "{\"bf16\": {\"enabled\": true}, \"data_types\": {\"param_dtype\": \"bf16\"}}", "fp16.enabled",
     "true", NULL},
    {"--dtype", "libzero.dtype", "fp32", "{\"libzero\": {\"dtype\": \"bf16\"}}", "bf16.enabled",
     "false", NULL},
    {"--device-memory", "libzero.device_memory", "5000",
     "{\"libzero\": {\"device_memory\": \"2GB\"}}", "libzero.device_memory", "5000", NULL},
    {"--host-memory", "libzero.host_memory", "5000", "{\"libzero\": {\"host_memory\": 7}}",
     "libzero.host_memory", "5000", NULL},
};

static void check_contradiction(int row, bool with_optimizer)
{
    fixture f;
    char text[600];
    const char *file_of_row = contradictions[row].file, *expected = contradictions[row].expected;
    bool alone = !strcmp(file_of_row, "{}");
    snprintf(text, sizeof text, "%s%s%s",
             with_optimizer ? "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.25}}"
                            : "",
             with_optimizer && !alone ? ", " : "", file_of_row + with_optimizer);
    begin(&f, text);
    assert_int_equal(set(&f, contradictions[row].key, contradictions[row].value,
                         contradictions[row].flag, false),
                     ZERO_OK);
    const zr_config_facts facts = {FACTS, .total_steps = 100, .lr = 0.001, .auto_dtype = ZERO_F32};
    zero_status status = zr_config_defaults_apply(f.config, &facts, NULL, &f.error);
    if (status == ZERO_OK)
        status = zr_config_resolve(f.config, &facts, NULL, &f.error);
    if (!expected) {
        assert_int_not_equal(status, ZERO_OK);
        assert_contains(f.error.message, contradictions[row].refusal);
    } else {
        if (status != ZERO_OK)
            fail_msg("%s: %s", text, f.error.message);
        zr_buffer got = {0};
        zr_value_write(zr_config_setting(f.config, contradictions[row].resolved)->value, 0, &got);
        assert_string_equal(got.data, expected);
        zr_buffer_free(&got);
    }
    zr_config_destroy(f.config);
}

static void test_no_flag_is_lost(void **state)
{
    for (int i = 0; i < ZR_COUNT(contradictions); i++) {
        check_contradiction(i, false);
        if (!strstr(contradictions[i].file, "\"optimizer\""))
            check_contradiction(i, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_flag_wins_and_says_so),
        cmocka_unit_test(test_agreement_and_new_keys_are_silent),
        cmocka_unit_test(test_strict_makes_it_an_error),
        cmocka_unit_test(test_flags_that_must_agree),
        cmocka_unit_test(test_wrong_flags),
        cmocka_unit_test(test_the_last_flag_counts),
        cmocka_unit_test(test_lr_reaches_the_schedule),
        cmocka_unit_test(test_lr_against_a_schedule_of_its_own),
        cmocka_unit_test(test_no_flag_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
