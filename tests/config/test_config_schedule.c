// The program's own schedules in a configuration: what is said, by file or flag, what is left out,
// and what is refused.
#include "usual_run.h"
#include "config/settings.h"

#define OWN(members) "{\"libzero\": {\"schedule\": {" members "}}}"
#define WARMUP_LR "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 3}}"

static void expect(const char *text, zr_lr_schedule_kind kind, int64_t warmup, int64_t decay,
                   double ratio)
{
    recorder log;
    zr_config *c = must_resolve(text, &log);
    assert_int_equal(c->schedule.kind, kind);
    assert_int_equal(c->schedule.warmup_steps, warmup);
    assert_int_equal(c->schedule.decay_steps, decay);
    assert_int_equal(c->schedule.total_steps, facts.total_steps);
    assert_true(c->schedule.min_lr_ratio == ratio && c->schedule.lr == c->optimizer.lr);
    zr_config_destroy(c);
}

// A run of 200 steps, whose usual warm-up is 10 long.
static void test_what_is_left_out(void **state)
{
    expect(OWN("\"type\": \"constant\""), ZR_SCHEDULE_OWN_CONSTANT, 10, 0, 0);
    expect(OWN("\"type\": \"linear\", \"warmup\": \"auto\""), ZR_SCHEDULE_OWN_LINEAR, 10, 190, 0);
    expect(OWN("\"type\": \"cosine\", \"warmup\": 0"), ZR_SCHEDULE_OWN_COSINE, 0, 199, 0.1);
    expect(OWN("\"type\": \"cosine\", \"min_lr_ratio\": 0.5, \"warmup\": 200.0"),
           ZR_SCHEDULE_OWN_COSINE, 200, 0, 0.5);
    expect(OWN("\"type\": \"wsd\""), ZR_SCHEDULE_OWN_WSD, 10, 40, 0);
    expect(OWN("\"type\": \"wsd\", \"warmup\": \"2.5%\", \"decay\": \"97.5%\""),
           ZR_SCHEDULE_OWN_WSD, 5, 195, 0);
    expect(OWN("\"type\": \"wsd\", \"warmup\": null, \"decay\": \"auto\""), ZR_SCHEDULE_OWN_WSD, 10,
           40, 0);
    expect("{\"scheduler\": {\"type\": null}, \"libzero\": {\"schedule\": {\"type\": \"wsd\"}}}",
           ZR_SCHEDULE_OWN_WSD, 10, 40, 0);
}

static void test_shapes(void **state)
{
    static const char *const names[] = {"linear", "cosine", "1-sqrt"};
    for (int shape = 0; shape < ZR_COUNT(names); shape++) {
        char text[120];
        recorder log;
        snprintf(text, sizeof text, OWN("\"type\": \"wsd\", \"decay_type\": \"%s\""), names[shape]);
        zr_config *c = must_resolve(text, &log);
        assert_int_equal(c->schedule.decay_shape, shape);
        zr_config_destroy(c);
    }
    assert_int_equal(ZR_SHAPE_LINEAR, 0);
    assert_int_equal(ZR_SHAPE_COSINE, 1);
    assert_int_equal(ZR_SHAPE_ROOT, 2);
}

static void test_refusals(void **state)
{
    must_fail(
        OWN("\"decay\": 5"), ZERO_ERR_CONFIG,
        "ds.json:1:36: libzero.schedule.decay is for the schedule wsd (libzero.schedule.type, "
        "--schedule-lr); none is named");
    must_fail(OWN("\"type\": \"constant\", \"min_lr_ratio\": 0.5"), ZERO_ERR_CONFIG,
              "libzero.schedule.min_lr_ratio is for the schedule linear, cosine or wsd "
              "(libzero.schedule.type, --schedule-lr); this one is constant");
    must_fail("{" WARMUP_LR ", \"libzero\": {\"schedule\": {\"warmup\": 5}}}", ZERO_ERR_CONFIG,
              "constant, linear, cosine or wsd (libzero.schedule.type, --schedule-lr); this one is "
              "WarmupLR");
    must_fail("{" WARMUP_LR ", \"libzero\": {\"schedule\": {\"type\": \"wsd\"}}}", ZERO_ERR_CONFIG,
              "scheduler.type \"WarmupLR\" (ds.json:1:24) and libzero.schedule.type \"wsd\" "
              "(ds.json:1:105) are both schedules: say one of them");
    must_fail(
        "{\"scheduler\": {\"params\": {\"warmup_num_steps\": 3}}, \"libzero\": {\"schedule\": "
        "{\"type\": \"wsd\"}}}",
        ZERO_ERR_CONFIG, "scheduler.params.warmup_num_steps needs a scheduler.type");
    must_fail("{\"libzero\": {\"schedule_from_one\": true, \"schedule\": {\"type\": \"linear\"}}}",
              ZERO_ERR_CONFIG,
              "libzero.schedule_from_one is for WarmupCosineLR; the schedule is linear");
}

static void test_amounts_that_are_none(void **state)
{
    static const char *const none[] = {"-1",       "1.5",        "\"5\"",   "\"\"",    "\"%\"",
                                       "\"-1%\"",  "\"101%\"",   "\"5%x\"", "\" 5%\"", "\"nan%\"",
                                       "\"inf%\"", "\"1e999%\"", "true",    "[5]"};
    char text[120];
    zero_error error;
    for (int i = 0; i < ZR_COUNT(none); i++) {
        snprintf(text, sizeof text, OWN("\"type\": \"wsd\", \"decay\": %s"), none[i]);
        if (parsed(text, &error))
            fail_msg("%s was accepted", none[i]);
        assert_contains(error.message,
                        "expected a number of updates, such as 100, or a part of the run, such as "
                        "\"5%\"");
    }
}

// Returns the configuration of a file and flags: key, value, key, value, ..., NULL.
static zr_config *flagged(const char *text, const char *const *flags, recorder *log)
{
    zero_error error;
    zr_config *config = parsed(text, &error);
    recorder_begin(log);
    for (; *flags; flags += 2)
        if (zr_config_override(config, flags[0], flags[1], flags[0], false, &log->logger, &error) !=
            ZERO_OK)
            fail_msg("%s", error.message);
    if (zr_config_defaults_apply(config, &facts, &log->logger, &error) != ZERO_OK ||
        zr_config_resolve(config, &facts, &log->logger, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

static void test_a_flag_takes_the_schedulers_place(void **state)
{
    recorder log;
    const char *const flags[] = {ZR_OWN_SCHEDULE "type", "wsd", ZR_OWN_SCHEDULE "decay", "10%",
                                 NULL};
    zr_config *c = flagged("{" WARMUP_LR "}", flags, &log);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_OWN_WSD);
    assert_int_equal(c->schedule.decay_steps, 20);
    assert_contains(log.lines, "libzero.schedule.type \"wsd\" (libzero.schedule.type; ds.json:1 "
                               "says scheduler.type \"WarmupLR\")");
    assert_contains(log.lines, "schedule wsd, warm-up over 10 of 200 updates, decay over the last "
                               "20, down to 0 of the rate");
    zr_config_destroy(c);
    c = flagged("{\"libzero\": {\"schedule_from_one\": true}, \"scheduler\": {\"type\": "
                "\"WarmupCosineLR\", \"params\": {\"total_num_steps\": 100}}}",
                flags, &log);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_OWN_WSD);
    zr_config_destroy(c);
    c = flagged("{\"scheduler\": {\"type\": \"auto\"}}", flags, &log);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_OWN_WSD);
    assert_lacks(log.lines, "says scheduler.type");
    zr_config_destroy(c);
    zero_error error;
    c = parsed("{" WARMUP_LR "}", &error);
    assert_int_equal(
        zr_config_override(c, ZR_OWN_SCHEDULE "type", "wsd", "--schedule-lr", true, NULL, &error),
        ZERO_ERR_USAGE);
    assert_contains(error.message, "--schedule-lr \"wsd\" contradicts ds.json:1, which says "
                                   "scheduler.type \"WarmupLR\" (strict)");
    zr_config_destroy(c);
}

// A warm-up alone is the default's, which is a cosine; no file that names an optimizer has one.
static void test_a_warmup_alone(void **state)
{
    recorder log;
    const char *const flags[] = {ZR_OWN_SCHEDULE "warmup", "5%", NULL};
    zr_config *c = flagged("{}", flags, &log);
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_OWN_COSINE);
    assert_int_equal(c->schedule.warmup_steps, 10);
    assert_true(c->schedule.min_lr_ratio == 0.1);
    zr_config_destroy(c);
    c = with_defaults(OWN("\"warmup\": 5"), &(zr_config_facts){FACTS}, &log); // of unknown length
    assert_int_equal(c->schedule.kind, ZR_SCHEDULE_OWN_COSINE);
    zr_config_destroy(c);
}

// The written file resolves to the same, at the same length of the run.
static void test_written_and_read(void **state)
{
    recorder log;
    zr_buffer text = {0};
    zr_config *c = must_resolve(OWN("\"type\": \"wsd\", \"decay\": \"25%\", \"decay_type\": "
                                    "\"1-sqrt\", \"min_lr_ratio\": 0.25"),
                                &log);
    zr_config_write(c, &text);
    zr_config *again = must_resolve(text.data, &log);
    assert_int_equal(again->schedule.kind, ZR_SCHEDULE_OWN_WSD);
    assert_int_equal(again->schedule.warmup_steps, 10);
    assert_int_equal(again->schedule.decay_steps, 50);
    assert_int_equal(again->schedule.decay_shape, ZR_SHAPE_ROOT);
    assert_true(again->schedule.min_lr_ratio == 0.25);
    zr_buffer_free(&text);
    zr_config_destroy(c);
    zr_config_destroy(again);
}

// Checks the answer for a run of `updates`; 0: of unknown length.
static void check_run(const char *text, int64_t updates, const char *refusal)
{
    recorder log;
    zero_error error = {0};
    const zr_config_facts run = {FACTS, .total_steps = updates,
                                 .warmup_steps = ZR_MAX(updates / 10, updates > 0)};
    zr_config *c = resolved_well(text, &run, &log);
    zero_status status = zr_config_check_schedule(c, &error);
    if (!refusal && status != ZERO_OK)
        fail_msg("%s", error.message);
    if (refusal) {
        assert_int_not_equal(status, ZERO_OK);
        assert_contains(error.message, refusal);
    }
    zr_config_destroy(c);
}

static void test_the_length_of_the_run(void **state)
{
    check_run(OWN("\"type\": \"wsd\", \"warmup\": 60, \"decay\": 40"), 100, NULL);
    check_run(
        OWN("\"type\": \"wsd\", \"warmup\": \"60%\", \"decay\": 41"), 100,
        "a warm-up of 60 updates (libzero.schedule.warmup \"60%\" (ds.json:1:52)) and a decay "
        "of 41 (libzero.schedule.decay 41 (ds.json:1:68)) do not fit into a run of 100");
    check_run(OWN("\"type\": \"wsd\", \"warmup\": 1, \"decay\": 9223372036854775807"), 100,
              "do not fit");
    check_run(OWN("\"type\": \"cosine\", \"warmup\": 101"), 100,
              "a warm-up of 101 updates (libzero.schedule.warmup 101 (ds.json:1:55)) does not fit "
              "into a run of 100");
    check_run(OWN("\"type\": \"linear\", \"warmup\": 5"), 0, "needs the length of the run");
    check_run(OWN("\"type\": \"constant\", \"warmup\": \"5%\""), 0, "needs the length of the run");
    check_run(OWN("\"type\": \"constant\""), 0, "needs the length of the run");
    check_run(OWN("\"type\": \"constant\", \"warmup\": 5"), 0, NULL);
    check_run("{" WARMUP_LR "}", 0, NULL);
    check_run("{}", 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left_out),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_amounts_that_are_none),
        cmocka_unit_test(test_a_flag_takes_the_schedulers_place),
        cmocka_unit_test(test_a_warmup_alone),
        cmocka_unit_test(test_written_and_read),
        cmocka_unit_test(test_the_length_of_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
