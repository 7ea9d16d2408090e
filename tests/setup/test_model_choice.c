// What a command is asked about is read in one way, whichever command it is.
#define _GNU_SOURCE
#include "base/file.h"
#include "setup/model_choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPEC "gpt2:layers=2,heads=2,width=32,context=64"

static char folder[] = "/tmp/test-subject-XXXXXX";
static char file[sizeof folder + 16];

static zr_model_choice must(const zr_subject_question *question)
{
    zr_model_choice subject;
    zero_error error = {0};
    if (zr_model_choice_read(question, &subject, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return subject;
}

static void must_not(const zr_subject_question *question, zero_status status, const char *why)
{
    zr_model_choice subject;
    zero_error error = {0};
    assert_int_equal(zr_model_choice_read(question, &subject, &error), status);
    if (!strstr(error.message, why))
        fail_msg("\"%s\" does not say \"%s\"", error.message, why);
    zr_model_choice_free(&subject);
}

static zr_tokenizer *tokenizer_of(const char *characters)
{
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    if (zr_tokenizer_open("chars", characters, strlen(characters), "a text", &tokenizer, &error) !=
        ZERO_OK)
        fail_msg("%s", error.message);
    return tokenizer;
}

static void test_vocabulary_of_a_spec(void **state)
{
    zr_tokenizer *five = tokenizer_of("abcde");
    zr_model_choice bytes = must(&(zr_subject_question){.new_spec = SPEC});
    zr_model_choice known = must(&(zr_subject_question){.new_spec = SPEC, .as_known = true});
    zr_model_choice data = must(&(zr_subject_question){.new_spec = SPEC, .tokenizer = five});
    zr_model_choice said =
        must(&(zr_subject_question){.new_spec = SPEC ",vocab=9", .tokenizer = five});
    assert_int_equal(bytes.shape.vocab, 256);
    assert_int_equal(known.shape.vocab, 50257);
    assert_int_equal(data.shape.vocab, zr_tokenizer_vocabulary(five));
    assert_int_equal(said.shape.vocab, 9);
    assert_true(bytes.assumed_vocabulary);
    assert_false(known.assumed_vocabulary || data.assumed_vocabulary || said.assumed_vocabulary);
    assert_int_equal(bytes.parameters - said.parameters, (256 - 9) * 32);
    zr_tokenizer_destroy(five);
}

static void test_ids_have_to_fit(void **state)
{
    zr_tokenizer *five = tokenizer_of("abcde");
    must_not(&(zr_subject_question){.new_spec = SPEC ",vocab=3", .tokenizer = five}, ZERO_ERR_USAGE,
             "has 5 tokens, the model a vocabulary of 3 only");
    must_not(&(zr_subject_question){.model = folder, .tokenizer = five}, ZERO_ERR_USAGE,
             "has 5 tokens, the model a vocabulary of 4 only");
    zr_tokenizer_destroy(five);
}

static void test_windows(void **state)
{
    zr_model_choice whole = must(&(zr_subject_question){.new_spec = SPEC});
    zr_model_choice part = must(&(zr_subject_question){.new_spec = SPEC, .seq = 16});
    assert_int_equal(whole.seq, 64);
    assert_int_equal(part.seq, 16);
    must_not(&(zr_subject_question){.new_spec = SPEC, .seq = 65}, ZERO_ERR_USAGE, "65");
}

static void test_directory_and_file(void **state)
{
    zr_model_choice directory = must(&(zr_subject_question){.model = folder});
    zr_model_choice alone = must(&(zr_subject_question){.model = file, .needs_no_weights = true});
    assert_string_equal(directory.name, folder);
    assert_string_equal(alone.name, file);
    assert_int_equal(directory.shape.layers, 3);
    assert_int_equal(directory.parameters, alone.parameters);
    zr_model_choice_free(&directory);
    zr_model_choice_free(&alone);
    must_not(&(zr_subject_question){.model = file}, ZERO_ERR_IO, "config.json");
}

static void test_shape_is_checked(void **state)
{
    must_not(&(zr_subject_question){.new_spec = "gpt2:layers=2,heads=3,width=32"}, ZERO_ERR_USAGE,
             "3");
}

static void test_facts(void **state)
{
    zr_model_choice subject = must(&(zr_subject_question){.new_spec = SPEC});
    zr_config_facts facts = zr_model_choice_facts(&subject, 4);
    assert_int_equal(facts.world, 4);
    assert_int_equal(facts.hidden, 32);
    assert_int_equal(facts.batch, 12);
    assert_int_equal(facts.total_steps, 1000);
}

static int make_model(void **state)
{
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 4, \"n_positions\": 8, \"n_embd\": 8, "
        "\"n_layer\": 3, \"n_head\": 2}";
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/config.json", folder);
    return zr_file_write_durable(file, config, sizeof config - 1, NULL) == ZERO_OK ? 0 : -1;
}

static int remove_model(void **state) { return zr_directory_remove(folder, NULL) != ZERO_OK; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocabulary_of_a_spec),
        cmocka_unit_test(test_ids_have_to_fit),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_directory_and_file),
        cmocka_unit_test(test_shape_is_checked),
        cmocka_unit_test(test_facts),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
