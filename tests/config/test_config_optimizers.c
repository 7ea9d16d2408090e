// Resolving optimizers and schedules: their defaults, and contradictions.
#include "usual_run.h"

#include <float.h>

static void expect_optimizer(const char *params, zr_optimizer_spec want)
{
    char text[512];
    recorder log;
    snprintf(text, sizeof text, "{\"optimizer\": {%s}}", params);
    zr_config *c = must_resolve(text, &log);
    const zr_optimizer_spec *got = &c->optimizer;
    assert_int_equal(got->kind, want.kind);
    assert_true(got->lr == want.lr && got->beta1 == want.beta1 && got->beta2 == want.beta2 &&
                got->eps == want.eps);
    assert_true(got->weight_decay == want.weight_decay && got->momentum == want.momentum &&
                got->dampening == want.dampening);
    assert_true(got->min_coeff == want.min_coeff && got->max_coeff == want.max_coeff &&
                got->nesterov == want.nesterov);
    assert_true(got->beta2_decay == want.beta2_decay && got->least_root == want.least_root &&
                got->clip == want.clip);
    zr_config_destroy(c);
}

#define ADAM_STANDARD .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8

static void test_optimizers(void **state)
{
    expect_optimizer("\"type\": \"Adam\"",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_ADAMW, ADAM_STANDARD});
    expect_optimizer("\"type\": \"ADAM\", \"params\": {\"adam_w_mode\": false}",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_ADAM_L2, ADAM_STANDARD});
    expect_optimizer("\"type\": \"AdamW\", \"params\": {\"adam_w_mode\": false}",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_ADAMW, ADAM_STANDARD});
    expect_optimizer("\"type\": \"SGD\", \"params\": {\"lr\": 0.5, \"momentum\": 0.9, "
                     "\"nesterov\": true, \"weight_decay\": 0.01}",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_SGD,
                                         .lr = 0.5,
                                         .momentum = 0.9,
                                         .nesterov = true,
                                         .weight_decay = 0.01});
    expect_optimizer("\"type\": \"sgd\", \"params\": {\"momentum\": 0.5, \"dampening\": 0.25}",
                     (zr_optimizer_spec){
                         .kind = ZR_OPTIMIZER_SGD, .lr = 1e-3, .momentum = 0.5, .dampening = 0.25});
    expect_optimizer("\"type\": \"Adagrad\"",
                     (zr_optimizer_spec){.kind = ZR_OPTIMIZER_ADAGRAD, .lr = 1e-2, .eps = 1e-10});
    expect_optimizer(
        "\"type\": \"Lion\", \"params\": {\"betas\": [0.95, 0.98]}",
        (zr_optimizer_spec){.kind = ZR_OPTIMIZER_LION, .lr = 1e-3, .beta1 = 0.95, .beta2 = 0.98});
    expect_optimizer(
        "\"type\": \"Lamb\", \"params\": {\"max_coeff\": 5}",
        (zr_optimizer_spec){
            .kind = ZR_OPTIMIZER_LAMB, ADAM_STANDARD, .min_coeff = 0.01, .max_coeff = 5});
    expect_optimizer(
        "\"type\": \"SGD\", \"params\": {\"lr\": \"auto\", \"weight_decay\": \"auto\"}",
        (zr_optimizer_spec){.kind = ZR_OPTIMIZER_SGD, .lr = 1e-3});
}

static void test_adafactor(void **state)
{
    const zr_optimizer_spec standard = {.kind = ZR_OPTIMIZER_ADAFACTOR,
                                        .lr = 1e-2,
                                        .eps = 1e-3,
                                        .beta2_decay = -0.8,
                                        .least_root = FLT_EPSILON,
                                        .clip = 1};
    zr_optimizer_spec other = standard;
    other.eps = 0.5;
    expect_optimizer("\"type\": \"Adafactor\"", standard);
    expect_optimizer("\"type\": \"adafactor\", \"params\": {\"eps\": \"auto\"}", standard);
    expect_optimizer("\"type\": \"Adafactor\", \"params\": {\"eps\": [null, 0.5]}", other);
    other.least_root = 1e-30;
    other.beta2_decay = 0;
    other.clip = 2;
    expect_optimizer("\"type\": \"Adafactor\", \"params\": {\"eps\": [1e-30, 0.5], "
                     "\"beta2_decay\": 0, \"d\": 2}",
                     other);
    static const char *const eps[] = {"1e-8",      "[]",           "[1e-3]",      "[null, null]",
                                      "[0, 1e-3]", "[1e-8, -0.1]", "[null, 1, 1]"};
    for (int i = 0; i < ZR_COUNT(eps); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"optimizer\": {\"type\": \"Adafactor\", \"params\": {\"eps\": %s}}}", eps[i]);
        must_fail(text, ZERO_ERR_CONFIG,
                  "optimizer.params.eps of Adafactor: expected [null, 1e-3]");
    }
    must_fail("{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"eps\": [null, 1e-3]}}}",
              ZERO_ERR_CONFIG, "optimizer.params.eps of AdamW: expected a number");
    must_fail("{\"optimizer\": {\"type\": \"Adafactor\", \"params\": {\"beta2_decay\": 0.8}}}",
              ZERO_ERR_CONFIG, "beta2_decay is 0.8; expected at most 0");
}

// transformers' own Adafactor has other names.
static void test_names_of_transformers(void **state)
{
    static const struct {
        const char *params, *says;
    } cases[] = {
        {"\"clip_threshold\": 1", "it is named d"},
        {"\"decay_rate\": -0.8", "it is named beta2_decay"},
        {"\"scale_parameter\": false", "updates are always scaled"},
        {"\"relative_step\": true", "write lr 1e-2"},
        {"\"warmup_init\": true", "write a schedule with a warm-up"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"optimizer\": {\"type\": \"Adafactor\", \"params\": {%s}}}",
                 cases[i].params);
        must_fail(text, ZERO_ERR_CONFIG, cases[i].says);
    }
    must_fail("{\"libzero\": {\"optimizer_states\": \"bf16\"}, \"optimizer\": {\"type\": "
              "\"Adafactor\"}}",
              ZERO_ERR_CONFIG, "Adafactor, whose states are small and stay fp32");
}

static void test_parameters_of_other_kinds(void **state)
{
    must_fail(
        "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"momentum\": 0.9}}}", ZERO_ERR_CONFIG,
        "AdamW has no optimizer.params.momentum; it has lr, betas, eps, weight_decay, adam_w_mode");
    must_fail("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"betas\": [0.9, 0.9]}}}",
              ZERO_ERR_CONFIG, "SGD has no");
    must_fail("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 9}}}",
              ZERO_ERR_CONFIG,
              "WarmupLR has no scheduler.params.total_num_steps; it has warmup_min_lr");
    must_fail("{\"scheduler\": {\"params\": {\"total_num_steps\": 9}}}", ZERO_ERR_CONFIG,
              "needs a scheduler.type");
    must_fail(
        "{\"libzero\": {\"schedule_from_one\": true}, \"scheduler\": {\"type\": \"WarmupLR\"}}",
        ZERO_ERR_CONFIG,
        "ds.json:1:35: libzero.schedule_from_one is for WarmupCosineLR; the schedule is WarmupLR");
    must_fail("{\"scheduler\": {\"type\": \"WarmupCosineLR\"}}", ZERO_ERR_CONFIG,
              "WarmupCosineLR needs scheduler.params.total_num_steps");
    must_fail("{\"scheduler\": {\"type\": \"OneCycle\"}}", ZERO_ERR_CONFIG,
              "OneCycle needs scheduler.params.cycle_min_lr");
    must_fail(
        "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"last_batch_iteration\": 4}}}",
        ZERO_ERR_UNSUPPORTED, "checkpoint");
}

static void test_values_that_contradict(void **state)
{
    static const char *const betas[] = {
        "[]", "[0.9]", "[0.9, 1]", "[-0.1, 0.9]", "[0.9, 0.9, 0.9]", "[\"a\", 0.5]", "[0.9, 1.5]"};
    for (int i = 0; i < ZR_COUNT(betas); i++) {
        char text[256];
        nest("optimizer.params.betas", betas[i], text, sizeof text);
        must_fail(text, ZERO_ERR_CONFIG,
                  "ds.json:1:36: optimizer.params.betas: expected two numbers");
    }
    must_fail("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"nesterov\": true}}}",
              ZERO_ERR_CONFIG, "nesterov needs a momentum");
    must_fail("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"nesterov\": true, \"momentum\": "
              "0.9, \"dampening\": 0.1}}}",
              ZERO_ERR_CONFIG, "a dampening of 0");
    recorder log;
    zr_config_destroy(
        must_resolve("{\"prescale_gradients\": true, \"gradient_predivide_factor\": 2}", &log));
    assert_contains(log.lines, "enters at the loss");
    must_fail(
        "{\"optimizer\": {\"type\": \"LAMB\", \"params\": {\"min_coeff\": 3, \"max_coeff\": 1}}}",
        ZERO_ERR_CONFIG, "min_coeff 3 is above");
}

static void test_schedules(void **state)
{
    recorder log;
    zr_config *c = must_resolve(
        "{\"optimizer\": {\"params\": {\"lr\": 0.5}}, \"scheduler\": {\"type\": \"WarmupLR\", "
        "\"params\": {\"warmup_num_steps\": 3}}}",
        &log);
    assert_true(c->schedule.max_lr == 0.5 && c->schedule.warmup_steps == 3 &&
                !c->schedule.warmup_linear);
    zr_config_destroy(c);
    c = must_resolve("{\"optimizer\": {\"params\": {\"lr\": 0.5}}, \"scheduler\": {\"type\": "
                     "\"WarmupDecayLR\", \"params\": "
                     "{\"total_num_steps\": 30, \"warmup_type\": \"linear\"}}}",
                     &log);
    assert_true(c->schedule.max_lr == 1e-3 && c->schedule.warmup_linear == 1);
    assert_contains(log.lines, "the warm-up of 1000 updates is longer than the schedule's 30");
    zr_config_destroy(c);
    c = must_resolve(
        "{\"optimizer\": {\"params\": {\"lr\": 0.5}}, \"scheduler\": {\"type\": \"OneCycle\", "
        "\"params\": "
        "{\"cycle_min_lr\": 0.1,"
        "\"cycle_max_lr\": 0.4, \"cycle_first_step_size\": 30, \"cycle_first_stair_count\": 5}}}",
        &log);
    assert_true(c->schedule.min_lr == 0.1 && c->schedule.max_lr == 0.4 &&
                c->schedule.min_momentum == 0.8);
    assert_int_equal(c->schedule.second_steps, 30);
    assert_int_equal(c->schedule.second_stairs, 5);
    assert_contains(log.lines, "optimizer.params.lr has no effect: OneCycle has rates of its own");
    zr_config_destroy(c);
    c = must_resolve("{\"scheduler\": {\"type\": \"LRRangeTest\"}}", &log);
    assert_true(c->schedule.min_lr == 1e-3 && c->schedule.range_rate == 1 &&
                c->schedule.range_steps == 2000);
    assert_false(c->schedule.range_staircase);
    zr_config_destroy(c);
    c = must_resolve("{\"scheduler\": {\"type\": \"LRRangeTest\", \"params\": "
                     "{\"lr_range_test_staircase\": true}}}",
                     &log);
    assert_true(c->schedule.range_staircase);
    zr_config_destroy(c);
}

static const zr_lr_schedule cycle = {.kind = ZR_SCHEDULE_ONE_CYCLE,
                                     .min_lr = 1e-4,
                                     .max_lr = 1e-3,
                                     .first_steps = 10,
                                     .second_steps = 20,
                                     .decay_steps = 10,
                                     .decay_lr_rate = 0.5,
                                     .cycle_momentum = true,
                                     .min_momentum = 0.8,
                                     .max_momentum = 0.9,
                                     .decay_momentum_rate = 0.1};

// beta1 = 0.9 (1 + 0.1 (n - 30) / 10) is 0.999 at 41 and 1.008 at 42.
static void test_momentum_leaves(void **state)
{
    assert_int_equal(zr_schedule_momentum_leaves(&cycle), 42);
    zr_lr_schedule s = cycle;
    s.decay_momentum_rate = 1e-30;
    assert_int_equal(zr_schedule_momentum_leaves(&s), INT64_MAX);
    s.decay_momentum_rate = 1e9;
    assert_int_equal(zr_schedule_momentum_leaves(&s), 31);
    s = cycle;
    s.cycle_momentum = false;
    assert_int_equal(zr_schedule_momentum_leaves(&s), INT64_MAX);
    s = cycle;
    s.decay_steps = 0;
    assert_int_equal(zr_schedule_momentum_leaves(&s), INT64_MAX);
    s = cycle;
    s.max_momentum = 0;
    assert_int_equal(zr_schedule_momentum_leaves(&s), INT64_MAX);
    assert_int_equal(zr_schedule_momentum_leaves(&(zr_lr_schedule){.kind = ZR_SCHEDULE_WARMUP}),
                     INT64_MAX);
}

static void test_names_of_schedules(void **state)
{
    for (int kind = ZR_SCHEDULE_WARMUP; kind < ZR_SCHEDULE_COUNT; kind++)
        assert_int_equal(zr_schedule_find(zr_schedule_name((zr_lr_schedule_kind)kind)), kind);
    assert_int_equal(zr_schedule_find("onecycle"), ZR_SCHEDULE_ONE_CYCLE);
    assert_int_equal(zr_schedule_find("constant"), ZR_SCHEDULE_OWN_CONSTANT);
    assert_int_equal(zr_schedule_find("none"), -1);
}

#define CYCLE_OF_30                                                                                \
    "\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.1, \"cycle_max_lr\": 1, "            \
    "\"cycle_first_step_size\": 15, "
#define MOMENTUM(type, more)                                                                       \
    "{\"optimizer\": {\"type\": \"" type "\"},\n\"scheduler\": {" CYCLE_OF_30 more "}}}"

static const zr_config_facts plain = {FACTS};

static void refuses(const char *text, const char *words)
{
    recorder log;
    zero_error error;
    assert_null(resolved(text, &plain, &log, &error));
    assert_int_equal(error.status, ZERO_ERR_CONFIG);
    assert_contains(error.message, words);
}

static void test_beta1_stays_below_one(void **state)
{
    recorder log;
    zero_error error;
    refuses(MOMENTUM("Adam", "\"cycle_min_mom\": 1"),
            "scheduler.params.cycle_min_mom is 1, which beta1 reaches by update 1; expected a "
            "number of at least 0 and below 1");
    refuses(MOMENTUM("LAMB", "\n\"cycle_max_mom\": 1"),
            "ds.json:3:18: scheduler.params.cycle_max_mom is 1, which beta1 reaches by update 31; "
            "expected");
    zr_config_destroy(resolved(MOMENTUM("Adam", "\"cycle_max_mom\": 1, \"cycle_momentum\": false"),
                               &plain, &log, &error));
    assert_int_equal(error.status, ZERO_OK);
    zr_config_destroy(resolved(MOMENTUM("SGD", "\"cycle_max_mom\": 1"), &plain, &log, &error));
    assert_int_equal(error.status, ZERO_OK);
    zr_config *c = resolved(MOMENTUM("Adam", "\"decay_step_size\": 10,\n\"decay_mom_rate\": 0.1"),
                            &plain, &log, &error);
    assert_non_null(c);
    assert_int_equal(zr_config_check_length(c, 42, &error), ZERO_OK);
    assert_int_equal(zr_config_check_length(c, 43, &error), ZERO_ERR_CONFIG);
    assert_contains(error.message, "ds.json:3:19: scheduler.params.decay_mom_rate 0.1 takes beta1 "
                                   "to 1 or above at update 43 of 43; expected");
    zr_config_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_adafactor),
        cmocka_unit_test(test_names_of_transformers),
        cmocka_unit_test(test_parameters_of_other_kinds),
        cmocka_unit_test(test_values_that_contradict),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_names_of_schedules),
        cmocka_unit_test(test_momentum_leaves),
        cmocka_unit_test(test_beta1_stays_below_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
