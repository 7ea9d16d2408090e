// Reading the file: wrong types and ranges in every row, positions, names, repetitions, and text
// that is not JSON.
#include "config_support.h"

#include <math.h>
#include <stdlib.h>

static void expect_refused(const char *path, const char *value, const char *part)
{
    char text[1024];
    zero_error error;
    nest(path, value, text, sizeof text);
    zr_config *config = parsed(text, &error);
    if (config)
        fail_msg("%s was accepted", text);
    assert_int_equal(error.status, ZERO_ERR_CONFIG);
    assert_contains(error.message, "ds.json:1:");
    assert_contains(error.message, path);
    assert_contains(error.message, part);
}

static void expect_accepted(const char *path, const char *value)
{
    char text[1024];
    zero_error error;
    nest(path, value, text, sizeof text);
    zr_config *config = parsed(text, &error);
    if (!config)
        fail_msg("%s: %s", text, error.message);
    zr_config_destroy(config);
}

static bool is_section(const zr_key *key)
{
    return zr_key_is_section(key->path) || (key->becomes && zr_key_is_section(key->becomes));
}

// JSON of every type; `fits` tells which rows may take it.
static bool fits(const zr_key *key, const char *value)
{
    if (key->type == ZR_KEY_ANY)
        return true;
    switch (value[0]) {
    case 't': return key->type == ZR_KEY_BOOL;
    case '"': return key->type == ZR_KEY_STRING;
    case '[': return key->type == ZR_KEY_LIST || key->type == ZR_KEY_NUMBERS;
    case '{': return key->type == ZR_KEY_OBJECT || is_section(key);
    case 'n': return key->nullable || is_section(key);
    case '7': return key->type == ZR_KEY_BYTES || key->type == ZR_KEY_UPDATES;
    default: return false;
    }
}

static bool has_range(const zr_key *key)
{
    return key->type == ZR_KEY_INT || key->type == ZR_KEY_NUMBER || key->type == ZR_KEY_NUMBERS;
}

static void test_every_wrong_type_of_every_row(void **state)
{
    static const char *const values[] = {"true", "\"something\"", "[]", "{}", "null"};
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        for (int v = 0; v < ZR_COUNT(values); v++) {
            if (fits(key, values[v]))
                expect_accepted(key->path, values[v]);
            else
                expect_refused(key->path, values[v], "expected ");
        }
        if (!has_range(key) && !fits(key, "7"))
            expect_refused(key->path, "7", "found 7, expected ");
        expect_accepted(key->path, "\"auto\"");
    }
}

static void number_text(double value, char out[40]) { snprintf(out, 40, "%.17g", value); }

static void test_every_range(void **state)
{
    char value[40];
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        if (!has_range(key))
            continue;
        number_text(key->least - (key->above ? 0 : 1), value);
        expect_refused(key->path, value, "expected a");
        number_text(key->least + (key->above ? 1 : 0), value);
        expect_accepted(key->path, value);
        if (key->most == 0) {
            expect_accepted(key->path, "1e15");
            continue;
        }
        number_text(key->most, value);
        expect_accepted(key->path, value);
        number_text(key->most + 1, value);
        expect_refused(key->path, value, " to ");
    }
}

static void test_integers(void **state)
{
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        if (key->type != ZR_KEY_INT || key->most != 0)
            continue;
        expect_refused(key->path, "1.5", "found 1.5, expected an integer");
        expect_refused(key->path, "1e19", "expected an integer");
        expect_accepted(key->path, "5e8");
        expect_accepted(key->path, "\"max\"");
    }
    zero_error error;
    zr_config *config = parsed(
        "{\"zero_optimization\": {\"reduce_bucket_size\": 5e8, \"sub_group_size\": \"max\"}}",
        &error);
    assert_non_null(config);
    const json_t *bucket = zr_config_setting(config, "zero_optimization.reduce_bucket_size")->value;
    assert_true(json_is_integer(bucket));
    assert_int_equal(json_integer_value(bucket), 500000000);
    assert_true(
        json_integer_value(zr_config_setting(config, "zero_optimization.sub_group_size")->value) ==
        INT64_MAX);
    zr_config_destroy(config);
}

// "max" is 2^63-1, which a row with a limit does not take.
static void test_max(void **state)
{
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        char why[80];
        if (key->type != ZR_KEY_INT || key->most == 0)
            continue;
        if (key->above)
            snprintf(why, sizeof why, "found \"max\", expected an integer above");
        else
            snprintf(why, sizeof why, "found \"max\", expected an integer from %g to", key->least);
        expect_refused(key->path, "\"max\"", why);
    }
}

static void test_enums(void **state)
{
    expect_refused("zero_optimization.offload_param.device", "\"disk\"",
                   "found \"disk\", expected one of none, cpu, nvme");
    expect_refused("zero_optimization.offload_param.device", "\"CPU\"", "one of");
    expect_refused("zero_optimization.offload_param.device", "\"cp\"", "one of");
    expect_refused("optimizer.type", "\"AdamX\"", "one of Adam, AdamW, SGD");
    expect_accepted("optimizer.type", "\"adamw\"");
    expect_accepted("scheduler.type", "\"warmuplr\"");
}

static void expect_message(const char *text, const char *part)
{
    zero_error error;
    zr_config *config = parsed(text, &error);
    if (config)
        fail_msg("%s was accepted", text);
    assert_int_equal(error.status, ZERO_ERR_CONFIG);
    assert_contains(error.message, part);
}

static void test_positions_and_names(void **state)
{
    expect_message(
        "{\n  \"zero_optimization\": {\n    \"stage\": 7\n  }\n}",
        "ds.json:3:14: zero_optimization.stage: found 7, expected an integer from 0 to 3");
    expect_message("// a remark\n{ /* two\nlines */ \"train_batch_size\": \"many\" }",
                   "ds.json:3:30: train_batch_size");
    expect_message("{\"zero_optimization\": {\n\"stge\": 2}}",
                   "ds.json:2:9: unknown key \"zero_optimization.stge\"; did you mean "
                   "\"zero_optimization.stage\"?");
    expect_message("{\"stage\": 2}", "did you mean \"zero_optimization.stage\"?");
    expect_message("{\"nothing like it\": 2}", "ds.json:1:21: unknown key \"nothing like it\"");
    expect_message("{\"zero_optimization.stage\": 2}", "sections are nested objects");
    expect_message("{\"zero_optimization\": 3}", "zero_optimization: found 3");
    expect_message("{\"fp16\": 3}", "fp16: found 3, expected an object");
    expect_message("{\"fp16\": {\"enabled\": {\"a\": 1}}}",
                   "found an object, expected true or false");
    expect_message("{\"optimizer\": {\"params\": {\"learning_rate\": 1}}}",
                   "unknown key \"optimizer.params.learning_rate\"");
    expect_message("[1]", "expected one object");
    char text[700] = "{\"";
    memset(text + 2, 'k', 600);
    strcpy(text + 602, "\": 1}");
    expect_message(text, "unknown key \"kkk");
}

// DeepSpeed ignores unknown keys at the top of the file, and refuses those of its sections.
static void unknown_keys_are_warned_of_where_they_may_be(void **state)
{
    static const char text[] = "{\"libzero\": {\"allow_unknown\": "
                               "true},\n\"cuda_visible_devices\": \"0\",\n\"a\": {\"b\": 1}}";
    recorder log;
    zero_error error = {0};
    zr_config *config;
    recorder_begin(&log);
    assert_int_equal(zr_config_parse(text, strlen(text), "ds.json", &config, &error), ZERO_OK);
    assert_int_equal(zr_config_refuse_unknown(config, &log.logger, &error), ZERO_OK);
    assert_string_equal(
        log.lines, "warning: ds.json:2:25: unknown key \"cuda_visible_devices\": it is ignored\n"
                   "warning: ds.json:3:6: unknown key \"a\": it is ignored\n");
    zr_config_destroy(config);
    expect_message("{\"libzero\": {\"allow_unknown\": true}, \"fp16\": {\"a\": 1}}",
                   "unknown key \"fp16.a\"");
}

// Whose parameters are unknown because there is no such optimizer.
static void an_optimizer_is_judged_before_its_parameters(void **state)
{
    expect_message("{\"optimizer\": {\"type\": \"OneBitAdam\", \"params\": {\"freeze_step\": 2}}}",
                   "optimizer.type \"OneBitAdam\" is refused: DeepSpeed has removed it");
    expect_message("{\"optimizer\": {\"params\": {\"psi\": 0.004}, \"type\": \"nadam\"}}",
                   "optimizer.type \"NAdam\" is refused: this optimizer is not built yet");
    expect_message("{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"freeze_step\": 2}}}",
                   "unknown key \"optimizer.params.freeze_step\"");
}

static void yaml_is_named(void **state)
{
    expect_message("# accelerate\ncompute_environment: X\ndeepspeed_config:\n  zero_stage: 2\n",
                   "ds.json: this is YAML of accelerate, and DeepSpeed's file is JSON");
    expect_message("---\nfp16:\n  enabled: true\n", "ds.json: this is YAML, and");
    expect_message("fp16:\n  enabled: true\n", "ds.json: this is YAML, and");
    expect_message("{ fp16: 1 }", "the key fp16 has no quotes");
}

static void test_repetitions(void **state)
{
    expect_message("{\"steps_per_print\": 1,\n \"steps_per_print\": 1}", "ds.json:2:");
    expect_message("{\"zero_optimization\": {\"stage\": 1, \"stage\": 1}}", "twice");
    expect_message("{\"bf16\": {\"enabled\": false},\n \"bfloat16\": {\"enabled\": false}}",
                   "same setting as the key at line 1");
    expect_message("{\"zero_optimization\": {\"max_live_parameters\": 1,\n "
                   "\"stage3_max_live_parameters\": 1}}",
                   "ds.json:2:");
    expect_message("{\"seed\": 1, \"libzero\": {\"seed\": 1}}", "same setting");
    expect_message("{\"zero_optimization\": {\"cpu_offload\": true, \"offload_optimizer\": "
                   "{\"pin_memory\": true}}}",
                   "zero_optimization.cpu_offload is given together with "
                   "zero_optimization.offload_optimizer.pin_memory");
    expect_message("{\"zero_optimization\": {\"cpu_offload\": true, \"offload_optimizer\": "
                   "{\"device\": \"cpu\"}}}",
                   "same setting");
}

static void check_setting(const char *text, const char *path, const char *shown)
{
    zero_error error;
    zr_config *config = parsed(text, &error);
    if (!config)
        fail_msg("%s: %s", text, error.message);
    char *value = json_dumps(zr_config_setting(config, path)->value, JSON_ENCODE_ANY);
    assert_non_null(value);
    assert_string_equal(value, shown);
    free(value);
    zr_config_destroy(config);
}

static void test_old_names(void **state)
{
    check_setting("{\"bfloat16\": {\"enabled\": true}}", "bf16.enabled", "true");
    check_setting("{\"zero_optimization\": true}", "zero_optimization.stage", "1");
    check_setting("{\"zero_optimization\": false}", "zero_optimization.stage", "0");
    check_setting("{\"zero_optimization\": {\"cpu_offload\": true}}",
                  "zero_optimization.offload_optimizer.device", "\"cpu\"");
    check_setting("{\"zero_optimization\": {\"cpu_offload\": false}}",
                  "zero_optimization.offload_optimizer.device", "\"none\"");
    check_setting("{\"zero_optimization\": {\"cpu_offload_param\": true}}",
                  "zero_optimization.offload_param.device", "\"cpu\"");
    check_setting("{\"zero_optimization\": {\"stage3_gather_fp16_weights_on_model_save\": true}}",
                  "zero_optimization.stage3_gather_16bit_weights_on_model_save", "true");
    check_setting("{\"zero_optimization\": {\"prefetch_bucket_size\": 7}}",
                  "zero_optimization.stage3_prefetch_bucket_size", "7");
    check_setting("{\"seed\": 42}", "libzero.seed", "42");
}

static void test_silent_sections_and_liberties(void **state)
{
    zero_error error;
    const char *text = "{\"zero_optimization\": {\"offload_optimizer\": null, \"offload_param\": "
                       "\"auto\",}, # remark\n"
                       " \"optimizer\": \"auto\", \"prescale_gradients\": true, // more\n}";
    zr_config *config = parsed(text, &error);
    if (!config)
        fail_msg("%s", error.message);
    for (int i = 0; i < zr_key_count(); i++)
        assert_int_equal(config->settings[i].value != NULL,
                         !strcmp(zr_key_at(i)->path, "prescale_gradients"));
    zr_config_destroy(config);
    assert_int_equal(zr_config_parse(NULL, 0, "nothing", &config, &error), ZERO_OK);
    zr_config_destroy(config);
}

static void test_what_is_not_json(void **state)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "{",
                                        "{\"steps_per_print\": }",
                                        "{\"gradient_clipping\": NaN}",
                                        "{\"gradient_clipping\": 1e999}",
                                        "{\"train_batch_size\": 99999999999999999999}",
                                        "{} {}",
                                        "{steps_per_print: 1}",
                                        "{\"steps_per_print\": 1",
                                        "\"stage\"",
                                        "{\"a\\u0000b\": 1}",
                                        "{/* never closed }"};
    for (int i = 0; i < ZR_COUNT(texts); i++)
        expect_message(texts[i], "ds.json");
    char deep[20001];
    memset(deep, '[', 10000);
    memset(deep + 10000, ']', 10000);
    deep[20000] = 0;
    expect_message(deep, "nested");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_wrong_type_of_every_row),
        cmocka_unit_test(test_every_range),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_max),
        cmocka_unit_test(test_enums),
        cmocka_unit_test(test_positions_and_names),
        cmocka_unit_test(unknown_keys_are_warned_of_where_they_may_be),
        cmocka_unit_test(an_optimizer_is_judged_before_its_parameters),
        cmocka_unit_test(yaml_is_named),
        cmocka_unit_test(test_repetitions),
        cmocka_unit_test(test_old_names),
        cmocka_unit_test(test_silent_sections_and_liberties),
        cmocka_unit_test(test_what_is_not_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
