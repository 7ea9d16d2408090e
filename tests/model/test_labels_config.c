// Labels in config.json: what transformers writes is read, in the order of the numbers; what is
// wrong is refused in one sentence; what is written comes back.
#include "config_file.h"
#include "model/architecture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define LLAMA                                                                                      \
    "\"model_type\": \"llama\", \"vocab_size\": 64, \"max_position_embeddings\": 32, "             \
    "\"hidden_size\": 32, \"intermediate_size\": 64, \"num_hidden_layers\": 2, "                   \
    "\"num_attention_heads\": 4"
#define CLASSIFIER "{\"architectures\": [\"LlamaForSequenceClassification\"], " LLAMA

static zero_status read(const char *text, zr_lm_config *out, zero_error *error)
{
    assert_int_equal(zr_file_write_in(directory, "config.json", text, strlen(text), NULL), ZERO_OK);
    return zr_lm_config_read(path, out, error);
}

// names: NULL at the end.
static void expect(const char *text, const char *const *names)
{
    zr_lm_config config;
    zero_error error = {0};
    int count = 0;
    if (read(text, &config, &error) != ZERO_OK)
        fail_msg("%s: %s", text, error.message);
    for (; names[count]; count++)
        assert_string_equal(zr_labels_name(&config.labels, count), names[count]);
    assert_int_equal(config.labels.count, count);
    assert_false(config.labels.drawn);
}

static void names_are_in_the_order_of_numbers(void **state)
{
    expect(CLASSIFIER ", \"id2label\": {\"1\": \"good\", \"0\": \"poor\", \"2\": \"7\"}, "
                      "\"label2id\": {}, \"num_labels\": 5}",
           (const char *[]){"poor", "good", "7", NULL});
}

static void labels_without_names_are_numbered(void **state)
{
    expect(CLASSIFIER "}", (const char *[]){"LABEL_0", "LABEL_1", NULL});
    expect(CLASSIFIER ", \"id2label\": null}", (const char *[]){"LABEL_0", "LABEL_1", NULL});
    expect(CLASSIFIER ", \"num_labels\": 3}",
           (const char *[]){"LABEL_0", "LABEL_1", "LABEL_2", NULL});
}

// Files of models that continue texts may have names of labels, too, which mean nothing.
static void other_classes_have_no_labels(void **state)
{
    expect("{\"architectures\": [\"LlamaForCausalLM\"], \"id2label\": {\"0\": \"a\"}, " LLAMA "}",
           (const char *[]){NULL});
    expect("{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}, " LLAMA "}", (const char *[]){NULL});
}

static void what_is_wrong_is_refused(void **state)
{
    static const struct {
        const char *more, *words;
    } cases[] = {
        {"\"id2label\": {\"0\": \"a\", \"2\": \"b\"}",
         "config.json: the key id2label has 2 labels, and \"1\" is not the text of one"},
        {"\"id2label\": {\"0\": \"a\", \"1\": 7}", "\"1\" is not the text of one"},
        {"\"id2label\": {\"0\": \"a\", \"x\": \"b\"}", "\"1\" is not the text of one"},
        {"\"id2label\": {\"0\": \"a\", \"01\": \"b\"}", "\"1\" is not the text of one"},
        {"\"id2label\": {\"0\": \"a\", \"1\": \"a\"}", "two labels are called \"a\""},
        {"\"id2label\": {\"0\": \"a\", \"0\": \"b\"}", "the key \"0\" is given twice"},
        {"\"id2label\": {\"0\": \"a\", \"1\": \"\"}", "a label is an empty text"},
        {"\"id2label\": {\"0\": \"a\"}", "the model has one label, which is a regression"},
        {"\"num_labels\": 1", "the model has one label"},
        {"\"num_labels\": 0", "config.json: \"num_labels\" is 0: at least two labels"},
        {"\"num_labels\": -4294967291", "\"num_labels\" is -4294967291: at least two"},
        {"\"num_labels\": 1025", "would be label 1025"},
        {"\"num_labels\": \"three\"", "num_labels"},
        {"\"id2label\": [\"a\", \"b\"]",
         "the key id2label is no object with a name for each label"},
        {"\"id2label\": {}", "the key id2label is no object"},
        {"\"problem_type\": \"multi_label_classification\"", "problem_type"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        char text[1024];
        zr_lm_config config;
        zero_error error = {0};
        snprintf(text, sizeof text, CLASSIFIER ", %s}", cases[i].more);
        assert_true(read(text, &config, &error) != ZERO_OK);
        if (!strstr(error.message, cases[i].words))
            fail_msg("%s: %s", cases[i].more, error.message);
    }
}

static void what_is_written_comes_back(void **state)
{
    zr_lm_config config, again;
    zr_buffer text = {0};
    assert_int_equal(read("{" LLAMA "}", &config, NULL), ZERO_OK);
    assert_int_equal(zr_labels_add(&config.labels, "say \"no\"", "x", NULL), ZERO_OK);
    assert_int_equal(zr_labels_add(&config.labels, "-1", "x", NULL), ZERO_OK);
    zr_lm_config_write(&config, &text);
    assert_false(text.failed);
    assert_int_equal(read(text.data, &again, NULL), ZERO_OK);
    assert_int_equal(again.labels.count, 2);
    assert_string_equal(zr_labels_name(&again.labels, 0), "say \"no\"");
    assert_string_equal(zr_labels_name(&again.labels, 1), "-1");
    zr_buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_in_the_order_of_numbers),
        cmocka_unit_test(labels_without_names_are_numbered),
        cmocka_unit_test(other_classes_have_no_labels),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(what_is_written_comes_back),
    };
    return cmocka_run_group_tests(tests, config_file_begin, config_file_end);
}
