// Training a BPE: the merges are those of the `tokenizers` library for the same text
// (tests/oracle/tokenizer_golden.py), and what is written can be read.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"

#include "base/json.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/tokenizer.h"

static char *read_text(const char *name, size_t *length)
{
    char path[512], *text = NULL;
    snprintf(path, sizeof path, "%s/%s", TOKENIZERS, name);
    assert_int_equal(zr_file_read(path, 1 << 20, &text, length, NULL), ZERO_OK);
    return text;
}

static void learn_into(const char *directory, const char *text, size_t length, int32_t vocabulary,
                       int parts)
{
    zr_bpe_trainer *trainer;
    zero_error error = {0};
    assert_int_equal(zr_bpe_trainer_create(&trainer, NULL), ZERO_OK);
    for (int i = 0; i < parts; i++)
        assert_int_equal(zr_bpe_trainer_feed(trainer, text, length, NULL), ZERO_OK);
    if (zr_bpe_trainer_learn(trainer, vocabulary, 2, NULL, NULL, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_true(zr_bpe_trainer_vocabulary(trainer) <= vocabulary);
    assert_int_equal(zr_bpe_trainer_save(trainer, directory, NULL), ZERO_OK);
    zr_bpe_trainer_destroy(trainer);
}

static void the_library_learns_the_same(void **state)
{
    scratch *dir = *state;
    size_t length, merges_length, at = 0;
    char *text = read_text("learnt.txt", &length),
         *merges = read_text("learnt.merges", &merges_length);
    json_t *root;
    learn_into(dir->directory, text, length, 380, 1);
    assert_int_equal(zr_json_load(scratch_path(dir, "tokenizer.json"), 1 << 20, &root, NULL),
                     ZERO_OK);
    const json_t *learnt = json_object_get(json_object_get(root, "model"), "merges");
    assert_true(json_array_size(learnt) > 100);
    for (size_t i = 0; i < json_array_size(learnt); i++) {
        const char *merge = json_string_value(json_array_get(learnt, i));
        size_t line = strcspn(merges + at, "\n");
        if (line != strlen(merge) || memcmp(merges + at, merge, line) != 0)
            fail_msg("merge %zu is \"%s\", not \"%.*s\"", i, merge, (int)line, merges + at);
        at += line + 1;
    }
    assert_int_equal(at, merges_length);
    json_decref(root);
    zr_free(text);
    zr_free(merges);
}

static void what_is_learnt_is_read(void **state)
{
    scratch *dir = *state;
    size_t length;
    char *text = read_text("learnt.txt", &length);
    zr_tokenizer *tokenizer;
    zr_ids ids = {0};
    zr_buffer back = {0};
    learn_into(dir->directory, text, length, 380, 3);
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_vocabulary(tokenizer), 380);
    assert_int_equal(zr_tokenizer_end(tokenizer), 0);
    assert_int_equal(zr_tokenizer_encode(tokenizer, text, length, "text", &ids, NULL), ZERO_OK);
    assert_true(ids.count < (int64_t)length / 2);
    for (int64_t i = 0; i < ids.count; i++)
        zr_tokenizer_decode(tokenizer, ids.at[i], &back);
    assert_int_equal(back.length, length);
    assert_memory_equal(back.data, text, length);
    zr_buffer_free(&back);
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
    zr_free(text);
}

static void little_text_gives_few_tokens(void **state)
{
    scratch *dir = *state;
    zr_tokenizer *tokenizer;
    zr_bpe_trainer *trainer;
    zero_error error = {0};
    learn_into(dir->directory, "abab abab", 9, 5000, 1); // ab; abab; and " abab" once only
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_vocabulary(tokenizer), 259);
    zr_tokenizer_destroy(tokenizer);
    assert_int_equal(zr_bpe_trainer_create(&trainer, NULL), ZERO_OK);
    assert_int_equal(zr_bpe_trainer_learn(trainer, 256, 2, NULL, NULL, &error), ZERO_ERR_USAGE);
    assert_contains(error.message, "257");
    zr_bpe_trainer_destroy(trainer);
    learn_into(dir->directory, "\xff\xfe\x80 \xff\xfe\x80", 7, 300, 1); // no text at all
}

static void every_allocation_may_fail(void **state)
{
    scratch *dir = *state;
    static const char text[] = "the cat the hat the bat, that rat; the end\n";
    zero_status status = ZERO_ERR_MEMORY;
    for (int nth = 1; status != ZERO_OK; nth++) {
        zr_bpe_trainer *trainer = NULL;
        zero_error error = {0};
        assert_true(nth < 5000);
        zr_alloc_fail_at(nth);
        status = zr_bpe_trainer_create(&trainer, &error);
        if (status == ZERO_OK)
            status = zr_bpe_trainer_feed(trainer, text, sizeof text - 1, &error);
        if (status == ZERO_OK)
            status = zr_bpe_trainer_learn(trainer, 270, 2, NULL, NULL, &error);
        if (status == ZERO_OK)
            status = zr_bpe_trainer_save(trainer, dir->directory, &error);
        zr_alloc_fail_at(0);
        if (status != ZERO_OK)
            assert_int_equal(status, ZERO_ERR_MEMORY);
        zr_bpe_trainer_destroy(trainer);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        CASE(the_library_learns_the_same),
        CASE(what_is_learnt_is_read),
        CASE(little_text_gives_few_tokens),
        CASE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
