// The precision that the file and --dtype choose, the loss scale of fp16, and the types of
// data_types.
#include "config_support.h"

static const zr_config_facts plain = {FACTS, .auto_dtype = ZERO_F32},
                             with_bf16 = {FACTS, .auto_dtype = ZERO_BF16};

#define FP16(value) "\"fp16\": {\"enabled\": " value "}"
#define BF16(value) "\"bf16\": {\"enabled\": " value "}"
#define DTYPE(value) "\"libzero\": {\"dtype\": \"" value "\"}"

static zr_config *run(const char *text, const char *flag, bool strict, const zr_config_facts *facts,
                      recorder *log, zero_error *error)
{
    zr_config *config = parsed(text, error);
    if (!config)
        fail_msg("%s: %s", text, error->message);
    recorder_begin(log);
    zero_status status = ZERO_OK;
    if (flag)
        status = zr_config_override(config, "libzero.dtype", flag, "--dtype", strict, &log->logger,
                                    error);
    if (status == ZERO_OK)
        status = zr_config_resolve(config, facts, &log->logger, error);
    if (status == ZERO_OK)
        return config;
    assert_int_equal(status, error->status);
    zr_config_destroy(config);
    return NULL;
}

static zr_config *must_run(const char *text, const char *flag, const zr_config_facts *facts,
                           recorder *log)
{
    zero_error error;
    zr_config *config = run(text, flag, false, facts, log, &error);
    if (!config)
        fail_msg("%s with %s: %s", text, flag ? flag : "no flag", error.message);
    return config;
}

static void must_fail(const char *text, const char *flag, bool strict, zero_status status,
                      const char *part)
{
    zero_error error;
    recorder log;
    if (run(text, flag, strict, &plain, &log, &error))
        fail_msg("%s was accepted", text);
    assert_int_equal(error.status, status);
    assert_contains(error.message, part);
}

static bool is_on(const zr_config *config, const char *path)
{
    const json_t *value = zr_config_setting(config, path)->value;
    assert_true(json_is_boolean(value));
    return json_is_true(value);
}

static void test_who_decides(void **state)
{
    static const struct {
        const char *text, *flag;
        zero_dtype plain, with_bf16; // what it means on either processor
    } rows[] = {
        {"{}", NULL, ZERO_F32, ZERO_F32},
        {"{" FP16("true") "}", NULL, ZERO_F16, ZERO_F16},
        {"{" BF16("true") "}", NULL, ZERO_BF16, ZERO_BF16},
        {"{\"bfloat16\": {\"enabled\": true}}", NULL, ZERO_BF16, ZERO_BF16},
        {"{" FP16("false") ", " BF16("true") "}", NULL, ZERO_BF16, ZERO_BF16},
        {"{" FP16("\"auto\"") ", " BF16("\"auto\"") "}", NULL, ZERO_F32, ZERO_F32},
        {"{" FP16("\"auto\"") ", " BF16("\"auto\"") "}", "bf16", ZERO_BF16, ZERO_BF16},
        {"{" FP16("\"auto\"") ", " BF16("\"auto\"") "}", "fp16", ZERO_F16, ZERO_F16},
        {"{" FP16("\"auto\"") ", " BF16("\"auto\"") "}", "fp32", ZERO_F32, ZERO_F32},
        {"{" FP16("\"auto\"") ", " BF16("\"auto\"") "}", "auto", ZERO_F32, ZERO_BF16},
        {"{" BF16("\"auto\"") "}", NULL, ZERO_F32, ZERO_F32},
        {"{" FP16("true") ", " BF16("\"auto\"") "}", NULL, ZERO_F16, ZERO_F16},
        {"{}", "bf16", ZERO_BF16, ZERO_BF16},
        {"{}", "auto", ZERO_F32, ZERO_BF16},
        {"{" FP16("true") "}", "bf16", ZERO_BF16, ZERO_BF16},
        {"{" FP16("true") "}", "fp32", ZERO_F32, ZERO_F32},
        {"{" FP16("true") "}", "auto", ZERO_F32, ZERO_BF16},
        {"{" BF16("false") "}", "bf16", ZERO_BF16, ZERO_BF16},
        {"{" DTYPE("fp16") "}", NULL, ZERO_F16, ZERO_F16},
        {"{" DTYPE("BF16") ", " BF16("true") "}", NULL, ZERO_BF16, ZERO_BF16},
        {"{" DTYPE("fp16") "}", "fp32", ZERO_F32, ZERO_F32},
        {"{" DTYPE("auto") "}", NULL, ZERO_F32, ZERO_BF16},
        {"{" DTYPE("auto") ", " BF16("false") "}", NULL, ZERO_F32, ZERO_F32},
        {"{" DTYPE("auto") ", " FP16("true") "}", NULL, ZERO_F16, ZERO_F16},
        {"{\"libzero\": {\"dtype\": null}, " BF16("true") "}", NULL, ZERO_BF16, ZERO_BF16},
    };
    for (int i = 0; i < 2 * ZR_COUNT(rows); i++) {
        recorder log;
        zero_dtype want = i % 2 ? rows[i / 2].with_bf16 : rows[i / 2].plain;
        zr_config *config =
            must_run(rows[i / 2].text, rows[i / 2].flag, i % 2 ? &with_bf16 : &plain, &log);
        if (config->dtype != want)
            fail_msg("%s with %s", rows[i / 2].text,
                     rows[i / 2].flag ? rows[i / 2].flag : "no flag");
        assert_int_equal(is_on(config, "fp16.enabled"), want == ZERO_F16);
        assert_int_equal(is_on(config, "bf16.enabled"), want == ZERO_BF16);
        assert_int_equal(config->loss_scale.kind,
                         want == ZERO_F16 ? ZR_SCALE_DYNAMIC : ZR_SCALE_NONE);
        zr_config_destroy(config);
    }
}

static void expect_lines(const char *text, const char *flag, const zr_config_facts *facts,
                         const char *lines)
{
    recorder log;
    zr_config_destroy(must_run(text, flag, facts, &log));
    assert_string_equal(log.lines, lines);
}

#define BATCH "batch 8 = micro-batch 2 x accumulation 1 x 4 ranks\n"

static void test_what_is_printed(void **state)
{
    expect_lines("{}", NULL, &plain, BATCH);
    expect_lines("{}", NULL, &with_bf16,
                 BATCH
                 "training is in fp32; bf16 would be faster on this processor (--dtype bf16)\n");
    expect_lines("{" BF16("false") "}", NULL, &with_bf16, BATCH);
    expect_lines("{}", "fp32", &with_bf16, BATCH);
    expect_lines("{}", "auto", &with_bf16, BATCH "libzero.dtype auto: bf16\n");
    expect_lines("{" FP16("\"auto\"") ", " BF16("\"auto\"") "}", "bf16", &plain, BATCH);
    expect_lines("{" FP16("\"auto\"") ", " BF16("\"auto\"") "}", NULL, &plain,
                 BATCH "fp16.enabled auto: false (no --dtype says otherwise)\n"
                       "bf16.enabled auto: false (no --dtype says otherwise)\n");
    expect_lines("{" FP16("\"auto\"") ", " BF16("true") "}", NULL, &plain,
                 BATCH "fp16.enabled auto: false\n");
    expect_lines("{" BF16("\"auto\"") ", " DTYPE("bf16") "}", NULL, &plain,
                 BATCH "bf16.enabled auto: true\n");
}

static void test_the_flag_against_the_file(void **state)
{
    expect_lines("{\n" FP16("true") "}", "bf16", &plain,
                 "dtype \"bf16\" (--dtype; ds.json:2 says fp16.enabled true)\n" BATCH);
    expect_lines("{\n" FP16("true") ",\n" BF16("false") "}", "bf16", &plain,
                 "dtype \"bf16\" (--dtype; ds.json:2 says fp16.enabled true)\n" BATCH);
    expect_lines("{\n" DTYPE("fp16") "}", "bf16", &plain,
                 "dtype \"bf16\" (--dtype; ds.json:2 says \"fp16\")\n" BATCH);
    expect_lines("{" FP16("false") ", " BF16("true") "}", "bf16", &plain, BATCH);
    expect_lines("{" FP16("false") "}", "auto", &plain, BATCH "libzero.dtype auto: fp32\n");
    must_fail("{" BF16("true") "}", "fp32", true, ZERO_ERR_USAGE,
              "--dtype \"fp32\" contradicts ds.json:1, which says bf16.enabled true (strict)");
    must_fail("{" BF16("false") "}", "auto", true, ZERO_ERR_USAGE,
              "contradicts ds.json:1, which says bf16.enabled false");
    must_fail("{" DTYPE("fp16") "}", "fp32", true, ZERO_ERR_USAGE, "which says dtype \"fp16\"");
    must_fail("{}", "fp8", false, ZERO_ERR_USAGE,
              "--dtype: libzero.dtype: found fp8, expected one of fp32, bf16, fp16");
    recorder log;
    zero_error error;
    zr_config *config =
        run("{" FP16("\"auto\"") ", " BF16("true") "}", "bf16", true, &plain, &log, &error);
    assert_non_null(config);
    zr_config_destroy(config);
}

// A strict flag that is refused has changed nothing; of two flags the last one counts.
static void test_flags_in_turn(void **state)
{
    zero_error error;
    zr_config *config = parsed("{" FP16("true") "}", &error);
    assert_int_equal(
        zr_config_override(config, "libzero.dtype", "bf16", "--dtype", true, NULL, &error),
        ZERO_ERR_USAGE);
    assert_true(is_on(config, "fp16.enabled"));
    assert_null(zr_config_setting(config, "bf16.enabled")->value);
    assert_int_equal(
        zr_config_override(config, "libzero.dtype", "bf16", "--dtype", false, NULL, &error),
        ZERO_OK);
    assert_int_equal(
        zr_config_override(config, "libzero.dtype", "fp32", "--dtype", true, NULL, &error),
        ZERO_OK);
    assert_int_equal(zr_config_resolve(config, &plain, NULL, &error), ZERO_OK);
    assert_int_equal(config->dtype, ZERO_F32);
    zr_config_destroy(config);
}

static void test_contradictions(void **state)
{
    must_fail("{" FP16("true") ", " BF16("true") "}", NULL, false, ZERO_ERR_CONFIG, "both enabled");
    must_fail("{" DTYPE("bf16") ", " FP16("true") "}", NULL, false, ZERO_ERR_CONFIG,
              "fp16.enabled true contradicts libzero.dtype \"bf16\"");
    must_fail("{" DTYPE("bf16") ",\n" BF16("false") "}", NULL, false, ZERO_ERR_CONFIG,
              "ds.json:2:21: bf16.enabled false contradicts libzero.dtype \"bf16\"");
    must_fail("{\"fp16\": {\"fp16_master_weights_and_grads\": true}}", NULL, false,
              ZERO_ERR_UNSUPPORTED,
              "fp16.fp16_master_weights_and_grads true is refused: master weights");
    must_fail("{\"torch_autocast\": {\"enabled\": true}}", NULL, false, ZERO_ERR_UNSUPPORTED,
              "bf16.enabled");
}

static void test_loss_scales(void **state)
{
    recorder log;
    zr_config *c = must_run("{" FP16("true") "}", NULL, &plain, &log);
    zr_loss_scale_spec *s = &c->loss_scale;
    assert_true(s->initial == 65536 && s->min_scale == 1 && s->window == 1000 &&
                s->hysteresis == 2);
    assert_false(s->consecutive_hysteresis);
    zr_config_destroy(c);
    c = must_run("{\"fp16\": {\"enabled\": true, \"loss_scale\": 0.0, \"initial_scale_power\": 3, "
                 "\"loss_scale_window\": 5e1, \"hysteresis\": 0, \"consecutive_hysteresis\": true, "
                 "\"min_loss_scale\": "
                 "0.5}}",
                 NULL, &plain, &log);
    s = &c->loss_scale;
    assert_int_equal(s->kind, ZR_SCALE_DYNAMIC);
    assert_true(s->initial == 8 && s->min_scale == 0.5 && s->window == 50 && s->hysteresis == 0);
    assert_true(s->consecutive_hysteresis);
    assert_string_equal(log.lines, BATCH);
    zr_config_destroy(c);
    c = must_run("{\"fp16\": {\"enabled\": \"auto\", \"loss_scale\": 128}}", "fp16", &plain, &log);
    assert_true(c->loss_scale.kind == ZR_SCALE_STATIC && c->loss_scale.initial == 128);
    assert_string_equal(log.lines, BATCH);
    zr_config_destroy(c);
    c = must_run("{\"fp16\": {\"enabled\": true, \"loss_scale\": \"auto\", "
                 "\"initial_scale_power\": \"auto\"}}",
                 NULL, &plain, &log);
    assert_true(c->loss_scale.kind == ZR_SCALE_DYNAMIC && c->loss_scale.initial == 65536);
    zr_config_destroy(c);
}

static void test_odd_loss_scales(void **state)
{
    expect_lines("{\"fp16\": {\"enabled\": true, \"loss_scale\": 4, \"hysteresis\": 2, "
                 "\"loss_scale_window\": 9}}",
                 NULL, &plain,
                 BATCH "warning: 2 keys of ds.json have no effect here (--explain)\n"
                       "ds.json:1:83: no effect here: fp16.loss_scale_window, fp16.hysteresis: "
                       "fp16.loss_scale fixes the scale\n");
    must_fail("{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 2, \"min_loss_scale\": 8}}",
              NULL, false, ZERO_ERR_CONFIG,
              "ds.json:1:72: the first loss scale, 4 (2 to fp16.initial_scale_power), is below");
    zero_error error;
    assert_null(parsed("{\"fp16\": {\"initial_scale_power\": \"max\"}}", &error));
    assert_contains(error.message, "expected an integer from 0 to 127");
}

// Keys of a section whose switch is off say so, in one line; the same keys have their effect where
// it is on.
static void test_idle_keys(void **state)
{
    static const char keys[] =
        "\"loss_scale\": 0, \"initial_scale_power\": \"auto\", \"hysteresis\": 2}}";
    static const char warning[] = "no effect here: fp16.loss_scale, fp16.initial_scale_power, "
                                  "fp16.hysteresis: fp16.enabled is false\n";
    char text[512];
    recorder log;
    snprintf(text, sizeof text, "{\"fp16\": {\"enabled\": \"auto\", %s", keys);
    zr_config_destroy(must_run(text, NULL, &plain, &log));
    assert_contains(log.lines, warning);
    zr_config_destroy(must_run(text, "bf16", &plain, &log));
    assert_contains(log.lines, warning);
    zr_config_destroy(must_run(text, "fp16", &plain, &log));
    assert_lacks(log.lines, "warning");
    zr_config_destroy(must_run("{\"fp16\": {\"enabled\": false}}", NULL, &plain, &log));
    assert_lacks(log.lines, "warning");
}

static void test_every_idle_row(void **state)
{
    int idle = 0;
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        if (!key->needs)
            continue;
        char text[512], reason[ZR_KEY_PATH_BYTES * 2];
        recorder log;
        nest(key->path, "\"auto\"", text, sizeof text);
        zr_config_destroy(must_run(text, NULL, &plain, &log));
        bool word = zr_key_at(zr_key_find(key->needs))->type == ZR_KEY_ENUM;
        snprintf(reason, sizeof reason, "%s: %s is %s", key->path, key->needs,
                 word ? "none" : "false");
        assert_contains(log.lines, reason);
        idle++;
    }
    assert_int_equal(idle, 6 + 4 + 3 + 4 + 5 + 1 + 4 + 9 + 1);
}

static void test_types(void **state)
{
    static const struct {
        const char *text;
        zero_dtype dtype;
    } rows[] = {{"\"fp32\"", ZERO_F32}, {"\"FP16\"", ZERO_F16}, {"\"bf16\"", ZERO_BF16}};
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        char text[256];
        recorder log;
        snprintf(text, sizeof text, "{" FP16("true") ", \"communication_data_type\": %s}",
                 rows[i].text);
        zr_config *c = must_run(text, NULL, &plain, &log);
        assert_true(c->wire_given && !c->accumulator_given && c->wire_dtype == rows[i].dtype);
        zr_config_destroy(c);
        snprintf(text, sizeof text,
                 "{" FP16("true") ", \"data_types\": {\"grad_accum_dtype\": %s}}", rows[i].text);
        c = must_run(text, NULL, &plain, &log);
        assert_true(!c->wire_given && c->accumulator_given &&
                    c->accumulator_dtype == rows[i].dtype);
        assert_string_equal(log.lines, BATCH);
        zr_config_destroy(c);
    }
    recorder log;
    zr_config *c = must_run(
        "{\"communication_data_type\": null, \"data_types\": {\"grad_accum_dtype\": \"auto\"}}",
        NULL, &plain, &log);
    assert_false(c->wire_given || c->accumulator_given);
    zr_config_destroy(c);
    expect_lines("{" BF16("true") ", \"communication_data_type\": \"fp16\"}", NULL, &plain,
                 BATCH "warning: ds.json:1:56: communication_data_type fp16 in a run in bf16: "
                       "gradients below 6e-8 "
                       "become zero, as only fp16.enabled brings a loss scale\n");
}

static void test_types_of_parameters(void **state)
{
    recorder log;
    zr_config_destroy(must_run("{" BF16("true") ", \"data_types\": {\"param_dtype\": \"bf16\"}}",
                               NULL, &plain, &log));
    assert_string_equal(log.lines, BATCH);
    must_fail(
        "{\"data_types\": {\"param_dtype\": \"bf16\"}}", NULL, false, ZERO_ERR_CONFIG,
        "ds.json:1:32: data_types.param_dtype bf16 contradicts the precision of the run, fp32");
    zr_config *c = must_run("{" BF16("true") ", \"data_types\": {\"param_dtype\": \"bf16\"}}",
                            "fp16", &plain, &log);
    assert_int_equal(c->dtype, ZERO_F16);
    zr_config_destroy(c);
    expect_lines(
        "{\"data_types\": {\"param_dtype\": \"fp32\"}}", "bf16", &plain,
        "dtype \"bf16\" (--dtype; ds.json:1 says data_types.param_dtype \"fp32\")\n" BATCH);
    zr_config_destroy(
        must_run("{\"data_types\": {\"buffer_dtype\": \"fp32\"}}", "bf16", &plain, &log));
    must_fail("{" BF16("true") ", \"data_types\": {\"buffer_dtype\": \"bf16\"}}", NULL, false,
              ZERO_ERR_UNSUPPORTED, "buffers that are not trained are fp32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_decides),
        cmocka_unit_test(test_what_is_printed),
        cmocka_unit_test(test_the_flag_against_the_file),
        cmocka_unit_test(test_flags_in_turn),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_loss_scales),
        cmocka_unit_test(test_odd_loss_scales),
        cmocka_unit_test(test_idle_keys),
        cmocka_unit_test(test_every_idle_row),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_types_of_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
