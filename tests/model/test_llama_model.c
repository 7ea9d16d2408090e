// Llama as data: presets and their parameter counts, config.json read and written in both
// spellings, refusals of everything that would compute something else, and rotary frequencies
// compared with those of transformers.
#include "config_file.h"
#include "no_arithmetic.h"
#include "model/llama_model.h"
#include "model/unit.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void counts_are_those_published(void **state)
{
    static const struct {
        const char *spec;
        int64_t parameters;
    } published[] = {// Four shapes of our own, counted by hand.
                     {"llama", 100092672},
                     {"mistral", 100092672},
                     {"qwen2", 100108032},
                     {"qwen3", 100094208},
                     {"smollm2-135m", 134515008},
                     {"smollm2-360m", 361821120},
                     {"smollm2-1.7b", 1711376384},
                     {"llama-2-7b", 6738415616},
                     {"llama-3.1-8b", 8030261248},
                     {"llama-3.1-70b", 70553706496},
                     {"llama-3.1-405b", 405853388800},
                     {"llama-3.2-1b", 1235814400},
                     {"mistral-7b", 7241732096},
                     {"qwen2.5-0.5b", 494032768},
                     {"qwen3-0.6b", 596049920}};
    for (int i = 0; i < ZR_COUNT(published); i++) {
        assert_string_equal(zr_llama_architecture.presets[i].name, published[i].spec);
        zr_lm_config config;
        zero_model *model;
        bool vocab_given = false;
        zero_error error;
        assert_int_equal(zr_lm_parse_spec(published[i].spec, &config, &vocab_given, &error),
                         ZERO_OK);
        assert_true(vocab_given);
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
    const char *more = zr_llama_architecture.presets[ZR_COUNT(published)].name;
    if (more)
        fail_msg("%s has no row in this test", more);
}

static void fields(void **state)
{
    zr_lm_config config;
    bool vocab_given = true;
    assert_int_equal(
        zr_lm_parse_spec("llama:layers=4,heads=8,kv_heads=2,width=256,context=512,theta=5e5,tied=0",
                         &config, &vocab_given, NULL),
        ZERO_OK);
    assert_false(vocab_given);
    assert_int_equal(config.kind, ZR_LM_LLAMA);
    const zero_llama_config *c = &config.llama;
    assert_true(c->n_layer == 4 && c->n_head == 8 && c->n_kv_head == 2 && c->hidden_size == 256 &&
                c->max_positions == 512 && c->rope.theta == 5e5 && !c->tied);
    assert_int_equal(c->intermediate_size, 704); // 8/3 of the width, a multiple of 64
    assert_int_equal(zr_lm_parse_spec("qwen3:heads=6,head_dim=32,inner=100,vocab=7", &config,
                                      &vocab_given, NULL),
                     ZERO_OK);
    assert_true(vocab_given && c->variant == ZERO_LLAMA_qwen3 && c->qk_norm && c->n_kv_head == 0 &&
                c->head_dim == 32 && c->intermediate_size == 100 && c->vocab_size == 7);
    zr_lm_shape shape = zr_lm_shape_of(&config);
    assert_true(shape.kv_heads == 6 && shape.head_dim == 32 && shape.rms);
    assert_int_equal(zr_lm_parse_spec("mistral-7b", &config, &vocab_given, NULL), ZERO_OK);
    assert_int_equal(zr_lm_shape_of(&config).positions, 32768);
    assert_true(zr_lm_window(&config, 0) == 4096 && zr_lm_window(&config, 31) == 4096);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *spec, *message;
    } wrong[] = {
        {"lama", "did you mean \"llama\"?"},
        {"smollm2-135", "did you mean \"smollm2-135m\"?"},
        {"llama:kvheads=2", "did you mean \"kv_heads\"?"},
        {"llama:kv_heads=5",
         "12 heads (num_attention_heads) cannot share 5 heads of keys and values"},
        {"llama:kv_heads=24", "num_key_value_heads is 24: it must be 1 to 12"},
        {"llama:heads=7", "width 768 (hidden_size) is not divisible by 7 heads"},
        {"llama:head_dim=7", "a head of 7 elements (head_dim)"},
        {"llama:head_dim=2048", "head_dim is 2048"},
        {"llama:width=0", "hidden_size is 0"},
        {"llama:width=99999999999", "hidden_size is 99999999999"},
        {"llama:theta=1", "rope_theta is 1"},
        {"llama:theta=nan", "rope_theta is nan"},
        {"llama:tied=2", "tied=2"},
        {"llama:dropout=1", "attention_dropout is 1"},
        {"llama:layers=x", "layers=\"x\" is not a whole number"},
    };
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zr_lm_config config = {.kind = ZR_LM_GPT2};
        bool vocab_given = false;
        zero_error error = {.status = ZERO_OK};
        assert_int_equal(zr_lm_parse_spec(wrong[i].spec, &config, &vocab_given, &error),
                         ZERO_ERR_USAGE);
        if (!strstr(error.message, wrong[i].message) || !strstr(error.message, wrong[i].spec))
            fail_msg("\"%s\": \"%s\" does not say \"%s\"", wrong[i].spec, error.message,
                     wrong[i].message);
        assert_int_equal(config.kind, ZR_LM_GPT2);
    }
}

static zero_status read_text(const char *text, zero_llama_config *out, zero_error *error)
{
    zr_lm_config config;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    ZERO_TRY(zr_lm_config_read(path, &config, error));
    assert_int_equal(config.kind, ZR_LM_LLAMA);
    *out = config.llama;
    return ZERO_OK;
}

static zero_llama_config read_right(const char *text)
{
    zero_llama_config config = {0};
    zero_error error;
    if (read_text(text, &config, &error) != ZERO_OK)
        fail_msg("%s\n%s", error.message, text);
    return config;
}

static void what_is_written_comes_back(void **state)
{
    for (int v = 0; v < ZERO_LLAMA_VARIANT_COUNT * ZERO_ROPE_SCALING_COUNT; v++) {
        zr_lm_config config = {.kind = ZR_LM_LLAMA};
        zero_llama_config *c = &config.llama;
        zr_buffer text = {0};
        zero_llama_defaults(c);
        c->variant = (zero_llama_variant)(v % ZERO_LLAMA_VARIANT_COUNT);
        c->rope.scaling = (zero_rope_scaling)(v / ZERO_LLAMA_VARIANT_COUNT);
        c->rope.theta = 1.0e6 / 3;
        c->head_dim = 40;
        c->rms_norm_eps = 1.0f / 3;
        c->attention_dropout = 0.125f;
        c->tied = v % 2;
        c->qkv_bias = c->variant == ZERO_LLAMA_qwen2;
        c->qk_norm = c->variant == ZERO_LLAMA_qwen3;
        c->mlp_bias = c->variant == ZERO_LLAMA_llama;
        c->sliding_window = c->variant == ZERO_LLAMA_mistral && v % 3 ? 4096 : 0;
        config.bos = (zr_token_ids){.given = true, .count = 1, .at = {1}};
        if (c->rope.scaling != ZERO_ROPE_default)
            c->rope.factor = 2.5;
        if (c->rope.scaling == ZERO_ROPE_llama3)
            c->rope.low_freq_factor = 1, c->rope.high_freq_factor = 4;
        if (c->rope.scaling == ZERO_ROPE_yarn)
            c->rope.beta_fast = 20, c->rope.mscale = 1.5, c->rope.mscale_all_dim = 0.75,
            c->rope.whole_range = 1;
        if (c->rope.scaling >= ZERO_ROPE_llama3)
            c->rope.original_max_positions = 512;
        zr_lm_config_write(&config, &text);
        assert_false(text.failed);
        const zero_llama_config back = read_right(text.data);
        if (memcmp(&back, c, sizeof back) != 0)
            fail_msg("not the same: %s", text.data);
        zr_buffer_free(&text);
    }
}

#define SIZES                                                                                      \
    "\"vocab_size\": 128256, \"max_position_embeddings\": 131072, \"hidden_size\": 2048, "         \
    "\"intermediate_size\": 8192, \"num_hidden_layers\": 16,"                                      \
    "\"num_attention_heads\": 32, \"num_key_value_heads\": 8"
#define LLAMA "{\"model_type\": \"llama\", " SIZES
#define SCALING                                                                                    \
    "\"factor\": 32.0, \"high_freq_factor\": 4.0, \"low_freq_factor\": 1.0, "                      \
    "\"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\""

// Sizes that follow from others are written as numbers, because readers differ in what they derive.
static void derived_sizes_are_written(void **state)
{
    zr_lm_config config = {.kind = ZR_LM_LLAMA};
    zr_buffer text = {0};
    zero_llama_defaults(&config.llama);
    config.llama.n_kv_head = 0;
    config.llama.head_dim = 0;
    zr_lm_config_write(&config, &text);
    assert_non_null(strstr(text.data, "\"num_key_value_heads\": 12"));
    assert_non_null(strstr(text.data, "\"head_dim\": 64"));
    zr_buffer_free(&text);
}

static void both_spellings_are_read(void **state)
{
    const zero_llama_config older =
        read_right(LLAMA ", \"rope_theta\": 500000.0, \"rope_scaling\": {" SCALING
                         "}, \"torch_dtype\": \"bfloat16\","
                         "\"eos_token_id\": [128001, 128008], \"hidden_act\": \"silu\", "
                         "\"pretraining_tp\": 1, \"head_dim\": 64}");
    const zero_llama_config newer =
        read_right(LLAMA ", \"rope_parameters\": {\"rope_theta\": 500000.0, " SCALING
                         "}, \"dtype\": \"bfloat16\", \"eos_token_id\": 128001, \"head_dim\": 64}");
    assert_memory_equal(&older, &newer, sizeof older);
    assert_true(older.rope.scaling == ZERO_ROPE_llama3 && older.rope.theta == 500000 &&
                older.rope.original_max_positions == 8192 && older.rope.factor == 32);
    assert_true(!older.tied);
    // before "rope_type"
    assert_int_equal(
        read_right(LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}").rope.scaling,
        ZERO_ROPE_linear);
    assert_true(read_right(LLAMA ", \"rope_scaling\": null}").rope.theta == 10000);
}

// A rope_scaling that was added to a file with rope_parameters replaces them, as in transformers,
// and is written again; an empty one says nothing.
static void an_added_scaling_is_honoured(void **state)
{
    static const char plain[] =
        LLAMA ", \"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": \"default\"}",
                      llama3[] = LLAMA ", \"rope_parameters\": {" SCALING "}",
                      linear[] = "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}";
    char text[1024];
    const zero_llama_config alone = read_right(LLAMA ", \"rope_scaling\": {" SCALING "}}");
    snprintf(text, sizeof text, "%s, \"rope_scaling\": {" SCALING "}}", plain);
    const zero_llama_config added = read_right(text);
    assert_memory_equal(&added, &alone, sizeof added);
    zr_buffer written = {0};
    zr_lm_config_write(&(zr_lm_config){.kind = ZR_LM_LLAMA, .llama = added}, &written);
    const zero_llama_config again = read_right(written.data);
    assert_memory_equal(&again.rope, &added.rope, sizeof added.rope);
    zr_buffer_free(&written);
    snprintf(text, sizeof text, "%s, %s", llama3, linear);
    assert_int_equal(read_right(text).rope.scaling, ZERO_ROPE_linear);
    snprintf(text, sizeof text, "%s, \"rope_scaling\": {}}", llama3);
    assert_int_equal(read_right(text).rope.scaling, ZERO_ROPE_llama3);
}

static void silence_is_read_as_transformers_reads_it(void **state)
{
    assert_int_equal(read_right("{\"model_type\": \"mistral\", " SIZES "}").sliding_window, 4096);
    assert_int_equal(
        read_right("{\"model_type\": \"mistral\", \"sliding_window\": null, " SIZES "}")
            .sliding_window,
        0);
    assert_true(read_right("{\"model_type\": \"qwen2\", \"sliding_window\": 5, "
                           "\"max_window_layers\": 3, \"use_sliding_window\": false, " SIZES "}")
                    .qkv_bias);
    const zero_llama_config qwen3 =
        read_right("{\"model_type\": \"qwen3\", \"attention_bias\": true, " SIZES "}");
    assert_true(qwen3.head_dim == 128 && qwen3.qk_norm && qwen3.qkv_bias && qwen3.output_bias);
    assert_true(read_right(LLAMA "}").rms_norm_eps == 1e-6f);
}

static void other_arithmetic_is_refused(void **state)
{
    static const struct {
        const char *text;
        zero_status status;
        const char *message;
    } wrong[] = {
        {"{\"model_type\": \"llama\"}", ZERO_ERR_DATA, "key \"vocab_size\" is missing"},
        {"{\"model_type\": \"gemma\", " SIZES "}", ZERO_ERR_UNSUPPORTED,
         "\"model_type\" is \"gemma\": only gpt2, llama, mistral, qwen2, qwen3"},
        {LLAMA ", \"hidden_act\": \"gelu\"}", ZERO_ERR_UNSUPPORTED, "\"hidden_act\" is \"gelu\""},
        {LLAMA ", \"rope_scaling\": {\"rope_type\": \"longrope\"}}", ZERO_ERR_UNSUPPORTED,
         "\"rope_type\" is \"longrope\""},
        {LLAMA ", \"rope_scaling\": {\"rope_type\": \"linear\"}}", ZERO_ERR_DATA,
         "key \"factor\" is missing"},
        {LLAMA ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 0.5}}", ZERO_ERR_DATA,
         "by a factor of 0.5"},
        {LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
               "\"low_freq_factor\": 4, \"high_freq_factor\": 4}}",
         ZERO_ERR_DATA, "the second must be the greater"},
        {LLAMA ", \"rope_scaling\": 2}", ZERO_ERR_DATA, "\"rope_scaling\" is not an object"},
        {LLAMA ", \"rope_parameters\": {\"full_attention\": {}}}", ZERO_ERR_UNSUPPORTED,
         "several kinds of layers"},
        {LLAMA ", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}}", ZERO_ERR_UNSUPPORTED,
         "\"partial_rotary_factor\" is given"},
        {LLAMA ", \"rope_parameters\": {\"rope_theta\": 1e6}, \"rope_scaling\": {\"type\": "
               "\"linear\", \"factor\": 2}}",
         ZERO_ERR_DATA, "its rope_theta 1e+06 would become 10000"},
        {LLAMA ", \"rope_parameters\": {\"full_attention\": {}}, \"rope_scaling\": {\"type\": "
               "\"linear\", \"factor\": 2}}",
         ZERO_ERR_UNSUPPORTED, "several kinds of layers"},
        {LLAMA ", \"per_layer_config\": {\"0\": {\"num_key_value_heads\": 4}}}",
         ZERO_ERR_UNSUPPORTED, "\"per_layer_config\" is given"},
        {LLAMA ", \"partial_rotary_factor\": 0.5}", ZERO_ERR_UNSUPPORTED,
         "\"partial_rotary_factor\" is given"},
        {LLAMA ", \"quantization_config\": {}}", ZERO_ERR_UNSUPPORTED,
         "\"quantization_config\" is given"},
        {LLAMA ", \"tie_word_embeddings\": \"yes\"}", ZERO_ERR_DATA,
         "\"tie_word_embeddings\" is neither true nor false"},
        {"{\"model_type\": \"llama\", \"num_key_value_heads\": 3, \"vocab_size\": 9, "
         "\"max_position_embeddings\": 9, \"hidden_size\": 8, \"intermediate_size\": 8,"
         "\"num_hidden_layers\": 1, \"num_attention_heads\": 4}",
         ZERO_ERR_DATA, "4 heads (num_attention_heads) cannot share 3"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 1e30}", ZERO_ERR_DATA,
         "\"vocab_size\" is not a whole number"},
    };
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zero_llama_config config = {0};
        zero_error error = {.status = ZERO_OK};
        zero_status status = read_text(wrong[i].text, &config, &error);
        if (status != wrong[i].status || !strstr(error.message, wrong[i].message) ||
            !strstr(error.message, path))
            fail_msg("%s: \"%s\" does not say \"%s\" and the file", wrong[i].text, error.message,
                     wrong[i].message);
    }
}

typedef struct expected {
    int64_t j;
    double frequency;
} expected;

static void expect_frequencies(const char *rope, const expected *want, int count, double factor)
{
    char text[1024];
    float frequency[64], found;
    snprintf(text, sizeof text, "%s, \"head_dim\": 64, %s}", LLAMA, rope);
    const zr_lm_config config = {.kind = ZR_LM_LLAMA, .llama = read_right(text)};
    zr_lm_frequencies(&config, frequency, &found);
    assert_true(fabs((double)found / factor - 1) < 1e-7);
    for (int i = 0; i < count; i++)
        if (fabs((double)frequency[want[i].j] / want[i].frequency - 1) > 2e-7)
            fail_msg("%s: frequency %lld is %.9g, not %.9g", rope, (long long)want[i].j,
                     (double)frequency[want[i].j], want[i].frequency);
}

// What transformers 5.23 has in rotary_emb.inv_freq.
static void frequencies_are_transformers(void **state)
{
    static const expected plain[] = {
        {0, 1}, {1, 0.663601279}, {15, 0.0021311196}, {31, 3.01385808e-06}};
    static const expected llama3[] = {{0, 1},
                                      {10, 0.0165604409},
                                      {15, 0.00129054801},
                                      {17, 9.70828623e-05},
                                      {31, 9.41830649e-08}};
    static const expected yarn[] = {
        {0, 1}, {10, 0.0562341288}, {15, 0.0133352149}, {20, 0.00261496054}, {31, 3.33380376e-05}};
    expect_frequencies("\"rope_theta\": 500000.0", plain, ZR_COUNT(plain), 1);
    expect_frequencies("\"rope_theta\": 500000.0, \"rope_scaling\": {" SCALING "}", llama3,
                       ZR_COUNT(llama3), 1);
    expect_frequencies("\"rope_theta\": 10000.0, \"rope_scaling\": {\"rope_type\": \"yarn\", "
                       "\"factor\": 4.0, \"original_max_position_embeddings\": 32768}",
                       yarn, ZR_COUNT(yarn), 1.13862944);
    expect_frequencies("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
                       "\"attention_factor\": 1.5, \"original_max_position_embeddings\": 32768}",
                       NULL, 0, 1.5);
    expect_frequencies("\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 8.0, \"mscale\": "
                       "1.0, \"mscale_all_dim\": 0.5, \"original_max_position_embeddings\": 32768}",
                       NULL, 0, 1.09417999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_published),
        cmocka_unit_test(fields),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(an_added_scaling_is_honoured),
        cmocka_unit_test(derived_sizes_are_written),
        cmocka_unit_test(both_spellings_are_read),
        cmocka_unit_test(silence_is_read_as_transformers_reads_it),
        cmocka_unit_test(other_arithmetic_is_refused),
        cmocka_unit_test(frequencies_are_transformers),
    };
    return cmocka_run_group_tests(tests, config_file_begin, config_file_end);
}
