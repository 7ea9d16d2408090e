// GPT-NeoX as data: presets and their parameter counts, specs, config.json read in the spellings of
// both versions of transformers and written, and refusals of everything that would compute
// something else.
#include "config_file.h"
#include "no_arithmetic.h"
#include "model/lm_table.h"
#include "model/unit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static zr_lm_config parse(const char *spec, bool wants_vocab)
{
    zr_lm_config config;
    bool vocab_given = !wants_vocab;
    zero_error error = {.status = ZERO_OK};
    if (zr_lm_parse_spec(spec, &config, &vocab_given, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(vocab_given, wants_vocab);
    assert_int_equal(config.kind, ZR_LM_NEOX);
    return config;
}

static void counts_are_those_published(void **state)
{
    static const struct {
        const char *spec;
        int64_t parameters;
    } published[] = {
        {"pythia-14m", 14067712},    {"pythia-70m", 70426624},    {"pythia-160m", 162322944},
        {"pythia-410m", 405334016},  {"pythia-1b", 1011781632},   {"pythia-1.4b", 1414647808},
        {"pythia-2.8b", 2775208960}, {"pythia-6.9b", 6857302016}, {"pythia-12b", 11846072320}};
    for (int i = 0; i < ZR_COUNT(published); i++) {
        assert_string_equal(zr_neox_architecture.presets[i].name, published[i].spec);
        const zr_lm_config config = parse(published[i].spec, true);
        zero_model *model;
        zero_error error;
        assert_int_equal(zr_lm_build(&config, NULL, &ops, &model, &error), ZERO_OK);
        if (zr_model_check(model, &error) != ZERO_OK)
            fail_msg("%s: %s", published[i].spec, error.message);
        if (zr_model_parameters(model) != published[i].parameters)
            fail_msg("%s: %lld parameters", published[i].spec,
                     (long long)zr_model_parameters(model));
        assert_int_equal(zr_lm_parameters(&config), published[i].parameters);
        assert_string_equal(zr_lm_name(&config), model->name);
        zr_lm_free(model);
    }
    assert_null(zr_neox_architecture.presets[ZR_COUNT(published)].name);
}

static void fields(void **state)
{
    const zr_lm_config config = parse(
        "pythia-14m:layers=2,heads=8,width=64,context=16,theta=5e5,tied=1,dropout=0.1", false);
    const zr_lm_shape shape = zr_lm_shape_of(&config);
    assert_true(shape.layers == 2 && shape.heads == 8 && shape.kv_heads == 8 && shape.width == 64 &&
                shape.head_dim == 8 && shape.positions == 16 && shape.tied && !shape.rms);
    assert_int_equal(shape.inner, 256); // 4 times the width
    assert_int_equal(shape.rotated, 2); // a quarter of a head
    assert_true(config.numbers.rope.theta == 5e5);
    assert_true(shape.embedding_dropout == 0.1f && shape.residual_dropout == 0.1f &&
                shape.attention_dropout == 0.1f);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *spec, *message;
    } wrong[] = {
        {"pythia-60m", "did you mean \"pythia-"},
        {"pythia-70m:heads=7", "width 512 (hidden_size) is not divisible by 7 heads"},
        {"pythia-70m:kv_heads=2", "kv_heads"},
        {"pythia-70m:width=8,heads=8", "a head of 1 elements (head_dim), 0 of them rotated"},
        {"pythia-70m:width=0", "hidden_size is 0"},
        {"pythia-70m:theta=1", "rotary_emb_base is 1"},
        {"pythia-70m:dropout=1", "hidden_dropout is 1"},
    };
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zr_lm_config config;
        bool vocab_given = false;
        zero_error error = {.status = ZERO_OK};
        assert_int_equal(zr_lm_parse_spec(wrong[i].spec, &config, &vocab_given, &error),
                         ZERO_ERR_USAGE);
        if (!strstr(error.message, wrong[i].message))
            fail_msg("\"%s\": \"%s\" does not say \"%s\"", wrong[i].spec, error.message,
                     wrong[i].message);
    }
}

static zero_status read_text(const char *text, zr_lm_config *out, zero_error *error)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return zr_lm_config_read(path, out, error);
}

static zr_lm_numbers read_right(const char *text)
{
    zr_lm_config config;
    zero_error error;
    if (read_text(text, &config, &error) != ZERO_OK)
        fail_msg("%s\n%s", error.message, text);
    assert_int_equal(config.kind, ZR_LM_NEOX);
    return config.numbers;
}

static void what_is_written_comes_back(void **state)
{
    for (int scaled = 0; scaled < 2; scaled++) {
        zr_lm_config config = parse("pythia-14m", true);
        zr_lm_numbers *c = &config.numbers;
        zr_buffer text = {0};
        c->rotated = 0.5;
        c->rope.theta = 1.0e6 / 3;
        c->epsilon = 1.0f / 3;
        c->residual_dropout = 0.125f;
        c->attention_dropout = 0.25f;
        c->deviation = 0.03f;
        c->tied = scaled;
        if (scaled) {
            c->rope.scaling = ZERO_ROPE_linear;
            c->rope.factor = 2.5;
        }
        zr_lm_config_write(&config, &text);
        assert_false(text.failed);
        assert_non_null(strstr(text.data, "\"GPTNeoXForCausalLM\""));
        const zr_lm_numbers back = read_right(text.data);
        if (memcmp(&back, c, sizeof back) != 0)
            fail_msg("not the same: %s", text.data);
        zr_buffer_free(&text);
    }
}

#define NEOX                                                                                       \
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 50304, \"max_position_embeddings\": 2048, "    \
    "\"hidden_size\": 512, \"intermediate_size\": 2048, \"num_hidden_layers\": 6, "                \
    "\"num_attention_heads\": 8"

static void both_spellings_are_read(void **state)
{
    const zr_lm_numbers older = read_right(NEOX ", \"rotary_pct\": 0.5, \"rotary_emb_base\": 500, "
                                                "\"rope_scaling\": {\"type\": \"linear\", "
                                                "\"factor\": 2}, \"hidden_act\": \"gelu\"}");
    const zr_lm_numbers newer =
        read_right(NEOX ", \"rope_parameters\": {\"rope_theta\": 500, \"partial_rotary_factor\": "
                        "0.5, \"rope_type\": \"linear\", \"factor\": 2}, "
                        "\"use_parallel_residual\": true, \"attention_bias\": true}");
    assert_memory_equal(&older, &newer, sizeof older);
    assert_true(older.rotated == 0.5 && older.rope.theta == 500 && older.rope.factor == 2);
    // transformers does not look for the names of other architectures beside its own
    const zr_lm_numbers others =
        read_right(NEOX ", \"rope_theta\": 7, \"partial_rotary_factor\": 1}");
    assert_true(others.rotated == 0.25 && others.rope.theta == 10000);
}

static void silence_is_read_as_transformers_reads_it(void **state)
{
    zr_lm_config published = parse("pythia-70m", true);
    const zr_lm_numbers read = read_right(NEOX "}");
    assert_memory_equal(&read, &published.numbers, sizeof read);
}

static void other_arithmetic_is_refused(void **state)
{
    static const struct {
        const char *text;
        zero_status status;
        const char *message;
    } wrong[] = {
        {"{\"model_type\": \"gpt_neox\"}", ZERO_ERR_DATA, "key \"vocab_size\" is missing"},
        {NEOX ", \"hidden_act\": \"gelu_new\"}", ZERO_ERR_UNSUPPORTED,
         "\"hidden_act\" is \"gelu_new\""},
        {NEOX ", \"use_parallel_residual\": false}", ZERO_ERR_UNSUPPORTED,
         "\"use_parallel_residual\" is false"},
        {NEOX ", \"attention_bias\": false}", ZERO_ERR_UNSUPPORTED, "\"attention_bias\" is false"},
        {NEOX ", \"rotary_pct\": 1.5}", ZERO_ERR_DATA, "rotary_pct is 1.5"},
        {NEOX ", \"rotary_pct\": 0.4}", ZERO_ERR_DATA, "25 of them rotated"},
        {NEOX ", \"rope_scaling\": {\"rope_type\": \"longrope\"}}", ZERO_ERR_UNSUPPORTED,
         "\"rope_type\" is \"longrope\""},
        {NEOX ", \"per_layer_config\": {\"0\": {\"num_attention_heads\": 4}}}",
         ZERO_ERR_UNSUPPORTED, "\"per_layer_config\" is given"},
        {NEOX ", \"quantization_config\": {}}", ZERO_ERR_UNSUPPORTED,
         "\"quantization_config\" is given"},
    };
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zr_lm_config config;
        zero_error error = {.status = ZERO_OK};
        zero_status status = read_text(wrong[i].text, &config, &error);
        if (status != wrong[i].status || !strstr(error.message, wrong[i].message) ||
            !strstr(error.message, path))
            fail_msg("%s: \"%s\" does not say \"%s\" and the file", wrong[i].text, error.message,
                     wrong[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_published),
        cmocka_unit_test(fields),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(both_spellings_are_read),
        cmocka_unit_test(silence_is_read_as_transformers_reads_it),
        cmocka_unit_test(other_arithmetic_is_refused),
    };
    return cmocka_run_group_tests(tests, config_file_begin, config_file_end);
}
