// config.json: the round trip, a published file, and every setting that would change the
// arithmetic.
#include "config_file.h"
#include "model/gpt2_model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static zero_status read_path(const char *from, zero_gpt2_config *config, zero_error *error)
{
    zr_lm_config read;
    ZERO_TRY(zr_lm_config_read(from, &read, error));
    assert_int_equal(read.kind, ZR_LM_GPT2);
    *config = read.gpt2;
    return ZERO_OK;
}

static zero_status read_text(const char *text, zero_gpt2_config *config, zero_error *error)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return read_path(path, config, error);
}

static void assert_same(const zero_gpt2_config *a, const zero_gpt2_config *b)
{
    assert_int_equal(a->vocab_size, b->vocab_size);
    assert_int_equal(a->n_positions, b->n_positions);
    assert_int_equal(a->n_embd, b->n_embd);
    assert_int_equal(a->n_layer, b->n_layer);
    assert_int_equal(a->n_head, b->n_head);
    assert_int_equal(a->n_inner, b->n_inner);
    assert_true(a->layer_norm_epsilon == b->layer_norm_epsilon);
    assert_true(a->initializer_range == b->initializer_range);
    assert_true(a->resid_pdrop == b->resid_pdrop);
    assert_true(a->embd_pdrop == b->embd_pdrop);
    assert_true(a->attn_pdrop == b->attn_pdrop);
}

static void what_is_written_comes_back(void **state)
{
    zero_gpt2_config configs[2], back;
    zero_gpt2_defaults(&configs[0]);
    zero_gpt2_defaults(&configs[1]);
    configs[1].vocab_size = 65;
    configs[1].n_layer = 3;
    configs[1].n_inner = 100;
    configs[1].layer_norm_epsilon = 1.0f / 3;
    configs[1].initializer_range = 0.1f;
    configs[1].resid_pdrop = 1.0f / 7;
    configs[1].attn_pdrop = 0.5f;
    for (int i = 0; i < 2; i++) {
        zr_buffer text = {0};
        zero_error error;
        const zr_lm_config written = {.kind = ZR_LM_GPT2, .gpt2 = configs[i]};
        zr_lm_config_write(&written, &text);
        assert_false(text.failed);
        if (read_text(text.data, &back, &error) != ZERO_OK)
            fail_msg("%s\n%s", error.message, text.data);
        assert_same(&back, &configs[i]);
        assert_null(strstr(text.data, "_token_id")); // nothing is known of a tokenizer
        assert_non_null(strstr(text.data, i ? "\"n_inner\": 100" : "\"n_inner\": null"));
        assert_non_null(
            strstr(text.data, i ? "\"resid_pdrop\": 0.14285715" : "\"layer_norm_epsilon\": 1e-05"));
        zr_buffer_free(&text);
    }
}

// One model_type stands for two: the activation decides.
static void gelu_is_by_either_function(void **state)
{
    static const struct {
        const char *activation;
        zr_lm_kind kind;
    } cases[] = {
        {"gelu_new", ZR_LM_GPT2}, {"gelu_pytorch_tanh", ZR_LM_GPT2}, {"gelu", ZR_LM_GPT2_ERF}};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_lm_config made = {.kind = cases[i].kind}, back;
        zr_lm_difference difference;
        zr_buffer text = {0};
        char *given;
        zero_gpt2_defaults(&made.gpt2);
        zr_lm_config_write(&made, &text);
        assert_false(text.failed);
        given = strstr(text.data, "\"activation_function\": \"");
        assert_non_null(given);
        assert_true(strstr(given, i < 2 ? "\"gelu_new\"" : "\"gelu\"") != NULL);
        json_t *file = zr_lm_config_pack(&made);
        json_object_set_new(file, "activation_function", json_string(cases[i].activation));
        assert_int_equal(zr_lm_config_unpack(file, "x", &back, NULL), ZERO_OK);
        assert_int_equal(back.kind, cases[i].kind);
        made.kind = cases[i].kind == ZR_LM_GPT2 ? ZR_LM_GPT2_ERF : ZR_LM_GPT2;
        assert_int_equal(zr_lm_compare(&made, &back, 0, &difference, NULL), ZERO_OK);
        assert_true(difference.found && !strcmp(difference.key, "activation_function"));
        json_decref(file);
        zr_buffer_free(&text);
    }
}

// Ids of tokens are those of the file, one, several or none; where it is silent the one that is
// written is.
static void ids_of_tokens_are_kept(void **state)
{
    static const struct {
        const char *read, *written;
    } cases[] = {
        {"\"bos_token_id\": 1, \"eos_token_id\": 2, \"pad_token_id\": 3",
         "\"bos_token_id\": 1,\n  \"eos_token_id\": 2,\n  \"pad_token_id\": 3,\n"},
        {"\"eos_token_id\": [2, 5], \"pad_token_id\": null",
         "\"eos_token_id\": [2, 5],\n  \"pad_token_id\": null,\n"},
        {"\"eos_token_id\": [], \"bos_token_id\": -1",
         "\"bos_token_id\": -1,\n  \"eos_token_id\": [],\n"},
    };
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < ZR_COUNT(cases); i++) {
            zr_lm_config config;
            zr_buffer text = {0};
            char file[512];
            snprintf(
                file, sizeof file, "{%s, %s}",
                kind ? "\"model_type\": \"llama\", \"vocab_size\": 9, \"max_position_embeddings\": "
                       "8, \"hidden_size\": 8, \"intermediate_size\": 8, "
                       "\"num_hidden_layers\": 1, \"num_attention_heads\": 2"
                     : "\"model_type\": \"gpt2\", \"vocab_size\": 52000, \"n_positions\": 8, "
                       "\"n_embd\": 8, \"n_layer\": 1, \"n_head\": 2",
                cases[i].read);
            assert_int_equal(zr_file_write_durable(path, file, strlen(file), NULL), ZERO_OK);
            assert_int_equal(zr_lm_config_read(path, &config, NULL), ZERO_OK);
            zr_lm_config_write(&config, &text);
            if (!strstr(text.data, cases[i].written))
                fail_msg("%s\nis written as %s", cases[i].read, text.data);
            assert_int_equal(config.eos.given, strstr(text.data, "eos_token_id") != NULL);
            zr_lm_set_tokens(&config, -1, 7);
            text.length = 0;
            zr_lm_config_write(&config, &text);
            assert_non_null(strstr(
                text.data, "\"bos_token_id\": null,\n  \"eos_token_id\": 7,\n  \"torch_dtype\""));
            zr_buffer_free(&text);
        }
}

#define SIZES                                                                                      \
    "\"vocab_size\": 50257, \"n_positions\": 1024, \"n_embd\": 768, \"n_layer\": 12, \"n_head\": " \
    "12"

static void the_published_file_is_read(void **state)
{
    zero_gpt2_config config = {0};
    zero_error error;
    const char *text =
        "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"], "
        "\"attn_pdrop\": 0.1, \"bos_token_id\": 50256,"
        "\"embd_pdrop\": 0.1, \"eos_token_id\": 50256, \"initializer_range\": 0.02, "
        "\"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\","
        "\"n_ctx\": 1024, \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_positions\": 1024, "
        "\"resid_pdrop\": 0.1,"
        "\"summary_activation\": null, \"summary_first_dropout\": 0.1, \"task_specific_params\": "
        "{\"text-generation\": {\"do_sample\": true}}, \"vocab_size\": 50257}";
    assert_int_equal(read_text(text, &config, &error), ZERO_OK);
    assert_int_equal(config.n_layer, 12);
    assert_int_equal(config.n_inner, 0);
    assert_true(config.attn_pdrop == 0.1f);
    assert_int_equal(
        read_text("{\"model_type\": \"gpt2\", \"n_inner\": null, \"resid_pdrop\": 0, " SIZES "}",
                  &config, &error),
        ZERO_OK);
    // transformers' default where the file is silent
    assert_true(config.resid_pdrop == 0 && config.embd_pdrop == 0.1f);
}

// transformers reads four sizes of a GPT-2 under the names of other architectures, too. n_ctx it
// does not read.
static void other_names_of_sizes_are_read(void **state)
{
    static const struct {
        const char *own, *text, *message;
    } cases[] = {
        {"", "\"n_embd\": 8, \"n_layer\": 1, \"n_head\": 2, \"n_positions\": 16", NULL},
        {"",
         "\"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
         "\"max_position_embeddings\": 16, \"n_ctx\": 4",
         NULL},
        {"\"n_embd\": 8, \"n_head\": 2, ",
         "\"hidden_size\": 8, \"n_layer\": 1, \"n_positions\": 16", NULL},
        {"\"n_embd\": 8, \"n_head\": 2, ",
         "\"num_attention_heads\": 4, \"n_layer\": 1, \"n_positions\": 16",
         "\"n_head\" is 2 and \"num_attention_heads\", its other name, is 4"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zero_gpt2_config config = {0};
        zero_error error = {.status = ZERO_OK};
        char text[512];
        snprintf(text, sizeof text, "{\"model_type\": \"gpt2\", \"vocab_size\": 9, %s%s}",
                 cases[i].own, cases[i].text);
        zero_status status = read_text(text, &config, &error);
        assert_int_equal(status, cases[i].message ? ZERO_ERR_DATA : ZERO_OK);
        if (cases[i].message)
            assert_non_null(strstr(error.message, cases[i].message));
        else
            assert_true(config.n_embd == 8 && config.n_layer == 1 && config.n_head == 2 &&
                        config.n_positions == 16);
    }
}

static void other_arithmetic_is_refused(void **state)
{
    static const struct {
        const char *text;
        zero_status status;
        const char *message;
    } wrong[] = {
        {"{" SIZES "}", ZERO_ERR_DATA, "\"model_type\" is missing"},
        {"{\"model_type\": 2, " SIZES "}", ZERO_ERR_DATA, "\"model_type\" is not a string"},
        {"{\"model_type\": \"mamba\", " SIZES "}", ZERO_ERR_UNSUPPORTED,
         "\"model_type\" is \"mamba\": only gpt2, llama, "},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"relu\", " SIZES "}",
         ZERO_ERR_UNSUPPORTED, "\"activation_function\" is \"relu\""},
        {"{\"model_type\": \"gpt2\", \"scale_attn_weights\": false, " SIZES "}",
         ZERO_ERR_UNSUPPORTED, "\"scale_attn_weights\" is false"},
        {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true, " SIZES "}",
         ZERO_ERR_UNSUPPORTED, "\"scale_attn_by_inverse_layer_idx\" is true"},
        {"{\"model_type\": \"gpt2\", \"quantization_config\": {}, " SIZES "}", ZERO_ERR_UNSUPPORTED,
         "\"quantization_config\" is given"},
        {"{\"model_type\": \"gpt2\", \"reorder_and_upcast_attn\": true, " SIZES "}",
         ZERO_ERR_UNSUPPORTED, "\"reorder_and_upcast_attn\" is true"},
        {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true, " SIZES "}",
         ZERO_ERR_UNSUPPORTED, "\"add_cross_attention\" is true"},
        {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": false, " SIZES "}",
         ZERO_ERR_UNSUPPORTED, "\"tie_word_embeddings\" is false"},
        {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": 1, " SIZES "}", ZERO_ERR_DATA,
         "\"tie_word_embeddings\" is neither true nor false"},
        {"{\"model_type\": \"gpt2\", \"n_embd\": 768}", ZERO_ERR_DATA,
         "key \"vocab_size\" is missing"},
        {"{\"model_type\": \"gpt2\", \"n_inner\": \"x\", " SIZES "}", ZERO_ERR_DATA,
         "\"n_inner\" is not a whole number"},
        {"{\"model_type\": \"gpt2\", \"n_inner\": 1.5, " SIZES "}", ZERO_ERR_DATA,
         "\"n_inner\" is not a whole number"},
        {"{\"model_type\": \"gpt2\", \"resid_pdrop\": \"0\", " SIZES "}", ZERO_ERR_DATA,
         "\"resid_pdrop\" is not a number"},
        {"{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 4, \"n_embd\": 10, "
         "\"n_layer\": 1, \"n_head\": 4}",
         ZERO_ERR_DATA, "width 10 (n_embd) is not divisible by 4 heads"},
        {"{\"model_type\": \"gpt2\", \"eos_token_id\": \"2\", " SIZES "}", ZERO_ERR_DATA,
         "\"eos_token_id\" is neither a token's id, nor null, nor a list"},
        {"{\"model_type\": \"gpt2\", \"eos_token_id\": [2, null], " SIZES "}", ZERO_ERR_DATA,
         "\"eos_token_id\" is neither"},
        {"[1, 2]", ZERO_ERR_DATA, "a JSON object is expected"},
    };
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zero_gpt2_config config = {.n_layer = 77};
        zero_error error = {.status = ZERO_OK};
        assert_int_equal(read_text(wrong[i].text, &config, &error), wrong[i].status);
        if (!strstr(error.message, wrong[i].message) || !strstr(error.message, path))
            fail_msg("\"%s\" does not say \"%s\" and the file", error.message, wrong[i].message);
        assert_int_equal(config.n_layer, 77);
    }
}

static void broken_files_are_refused(void **state)
{
    zero_gpt2_config config;
    zero_error error;
    assert_int_not_equal(read_text("{\"model_type\": \"gpt2\"", &config, &error), ZERO_OK);
    assert_int_not_equal(read_text("", &config, &error), ZERO_OK);
    assert_int_not_equal(read_path(directory, &config, &error), ZERO_OK);
    assert_int_not_equal(read_path("/nonexistent/config.json", &config, &error), ZERO_OK);
    assert_non_null(strstr(error.message, "/nonexistent/config.json"));
}

static void the_usual_inner_width_is_null(void **state)
{
    zr_lm_config config = {.kind = ZR_LM_GPT2};
    zr_buffer text = {0};
    zero_gpt2_defaults(&config.gpt2);
    config.gpt2.n_inner = 4 * config.gpt2.n_embd;
    zr_lm_config_write(&config, &text);
    assert_non_null(strstr(text.data, "\"n_inner\": null"));
    zr_buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(gelu_is_by_either_function),
        cmocka_unit_test(the_usual_inner_width_is_null),
        cmocka_unit_test(ids_of_tokens_are_kept),
        cmocka_unit_test(the_published_file_is_read),
        cmocka_unit_test(other_names_of_sizes_are_read),
        cmocka_unit_test(other_arithmetic_is_refused),
        cmocka_unit_test(broken_files_are_refused),
    };
    return cmocka_run_group_tests(tests, config_file_begin, config_file_end);
}
