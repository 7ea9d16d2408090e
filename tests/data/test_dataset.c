// Files to text, text to tokens, tokens to windows: the window rule is checked against its words for every small size.
#define _GNU_SOURCE
#include "base/file.h"
#include "base/random.h"
#include "data/dataset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define EPOCHS 4

static char directory[] = "/tmp/zero-dataset-XXXXXX";
static char paths[3][64];

static int make_files(void **state)
{
    static const char *const texts[] = {"first ", "second", ""};
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d.txt", directory, i);
        assert_int_equal(zr_file_write_durable(paths[i], texts[i], strlen(texts[i]), NULL), ZERO_OK);
    }
    return 0;
}

static int remove_files(void **state)
{
    return zr_directory_remove(directory, NULL) != ZERO_OK;
}

static void test_files_are_joined(void **state)
{
    const char *const both[] = {paths[0], paths[1], paths[0]};
    zr_text text;
    assert_int_equal(zr_text_load(both, 3, &text, NULL), ZERO_OK);
    assert_int_equal(text.files, 3);
    assert_int_equal(text.length, 18);
    assert_memory_equal(text.data, "first secondfirst ", 18);
    assert_true(text.hash == zr_hash_bytes("first secondfirst ", 18, 0));
    zr_text_free(&text);
    assert_null(text.data);
}

static void test_files_that_are_none(void **state)
{
    zr_text text;
    zero_error error;
    const char *const missing[] = {paths[0], "/nonexistent/data.txt"}, *const empty[] = {paths[0], paths[2]},
                      *const folder[] = {directory};
    assert_int_equal(zr_text_load(missing, 2, &text, &error), ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "/nonexistent/data.txt"));
    assert_int_equal(zr_text_load(empty, 2, &text, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, paths[2]));
    assert_non_null(strstr(error.message, "empty"));
    assert_int_equal(zr_text_load(folder, 1, &text, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, directory));
    assert_non_null(strstr(error.message, "directory"));
    assert_int_equal(zr_text_load(NULL, 0, &text, &error), ZERO_ERR_USAGE);
    assert_null(text.data);
}

static void test_no_memory_for_the_text(void **state)
{
    const char *const both[] = {paths[0], paths[1]};
    for (int nth = 1; nth <= 2; nth++) {
        zr_text text;
        zero_error error;
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_text_load(both, 2, &text, &error), ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
        assert_int_equal(error.status, ZERO_ERR_MEMORY);
    }
}

static void test_the_last_tenth(void **state)
{
    char plain[1000] = {0};
    for (size_t length = 1; length <= sizeof plain; length++) // nine tenths, rounded down
        assert_int_equal(zr_text_split(&(zr_text){.data = plain, .length = length}), 9 * length / 10);
    char mixed[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xf0\x9f\x98\x80\xe2\x82\xac\xc3\xa9"
                   "b\xf0\x9f\x98\x80";
    for (size_t length = 1; length < sizeof mixed; length++) {
        size_t split = zr_text_split(&(zr_text){.data = mixed, .length = length});
        assert_true(split <= 9 * length / 10 && split + 3 >= 9 * length / 10);
        assert_true(((unsigned char)mixed[split] & 0xc0) != 0x80);
    }
    char invalid[100];
    memset(invalid, 0x80, sizeof invalid);
    assert_int_equal(zr_text_split(&(zr_text){.data = invalid, .length = 100}), 90);
}

static void count_beat(void *user)
{
    ++*(int *)user;
}

static void test_parts_do_not_show(void **state)
{
    const size_t characters = 3 << 20; // of 3 bytes: no multiple of a part's end
    char *text = zr_alloc(3 * characters, NULL);
    zr_tokenizer *tokenizer;
    zr_dataset dataset;
    zero_error error;
    int beats = 0;
    for (size_t i = 0; i < characters; i++)
        memcpy(text + 3 * i, i % 7 ? "\xe2\x82\xac" : "\xe2\x82\xad", 3);
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_CHARS, text, 3 * characters, "euro", &tokenizer, NULL), ZERO_OK);
    assert_int_equal(
        zr_dataset_create(tokenizer, text, 3 * characters, "euro", 16, 1, count_beat, &beats, &dataset, NULL), ZERO_OK);
    assert_int_equal(dataset.count, characters);
    for (size_t i = 0; i < characters; i++)
        assert_true(dataset.tokens[i] == (i % 7 == 0));
    assert_true(beats >= 2);
    zr_dataset_free(&dataset);
    text[8000000] = (char)0xff; // in the second part
    assert_int_equal(zr_dataset_create(tokenizer, text, 3 * characters, "euro", 16, 1, NULL, NULL, &dataset, &error),
                     ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "euro: byte 7999998 "));
    assert_null(dataset.tokens);
    zr_tokenizer_destroy(tokenizer);
    zr_free(text);
}

static void test_text_shorter_than_a_window(void **state)
{
    zr_tokenizer *tokenizer;
    zr_dataset dataset;
    zero_error error;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_BYTES, NULL, 0, "none", &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_dataset_create(tokenizer, "0123456789", 10, "ten.txt", 10, 1, NULL, NULL, &dataset, &error),
                     ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "ten.txt: 10 tokens, fewer than the 11 "));
    assert_null(dataset.tokens);
    assert_int_equal(zr_dataset_create(tokenizer, "0123456789", 10, "ten.txt", 0, 1, NULL, NULL, &dataset, &error),
                     ZERO_ERR_USAGE);
    assert_int_equal(zr_dataset_create(tokenizer, "0123456789", 10, "ten.txt", 9, 1, NULL, NULL, &dataset, NULL),
                     ZERO_OK);
    assert_int_equal(zr_dataset_windows(&dataset), 1);
    assert_int_equal(zr_dataset_eval_windows(&dataset), 1);
    int32_t tokens[9], targets[9];
    zr_dataset_train_batch(&dataset, 12345, 1, tokens, targets);
    assert_int_equal(tokens[0], '0');
    assert_int_equal(targets[8], '9');
    zr_dataset_free(&dataset);
    zr_tokenizer_destroy(tokenizer);
}

static void test_no_memory_for_the_tokens(void **state)
{
    zr_tokenizer *tokenizer;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_CHARS, "\xc3\xa9", 2, "e", &tokenizer, NULL), ZERO_OK);
    for (int nth = 1; nth <= 3; nth++) { // the encoder, the tokens, and giving back what they do not need
        zr_dataset dataset;
        zero_error error;
        zr_alloc_fail_at(nth);
        assert_int_equal(
            zr_dataset_create(tokenizer, "\xc3\xa9\xc3\xa9\xc3\xa9", 6, "e", 1, 1, NULL, NULL, &dataset, &error),
            ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
        assert_null(dataset.tokens);
    }
    zr_tokenizer_destroy(tokenizer);
}

// A stream whose token i is i, so that a window's first token says where it starts.
static zr_dataset counting_dataset(int64_t count, int64_t seq, uint64_t seed)
{
    zr_dataset dataset = {
        .tokens = zr_alloc((size_t)count * sizeof(int32_t), NULL), .count = count, .seq = seq, .seed = seed};
    for (int64_t i = 0; i < count; i++)
        dataset.tokens[i] = (int32_t)i;
    return dataset;
}

// One epoch: nothing outside the stream, no token an input twice, few never.
static void check_epoch(const zr_dataset *dataset, int64_t epoch)
{
    int64_t windows = zr_dataset_windows(dataset), seq = dataset->seq, visited = 0;
    int32_t *tokens = zr_alloc((size_t)(windows * seq) * sizeof *tokens, NULL),
            *targets = zr_alloc((size_t)(windows * seq) * sizeof *targets, NULL);
    char *seen = zr_alloc((size_t)dataset->count, NULL);
    zr_dataset_train_batch(dataset, epoch * windows, windows, tokens, targets);
    for (int64_t i = 0; i < windows * seq; i++) {
        assert_in_range(tokens[i], 0, dataset->count - 2);
        assert_int_equal(tokens[i], tokens[i - i % seq] + i % seq);
        assert_int_equal(targets[i], tokens[i] + 1);
        assert_false(seen[tokens[i]]);
        seen[tokens[i]] = 1;
        visited++;
    }
    if (dataset->count >= 2 * seq)
        assert_true(dataset->count - visited <= 2 * seq - 1);
    zr_free(seen);
    zr_free(targets);
    zr_free(tokens);
}

static void test_windows_tile_the_stream(void **state)
{
    for (int64_t seq = 1; seq <= 9; seq++) {
        for (int64_t count = seq + 1; count <= 6 * seq + 5; count++) {
            zr_dataset dataset = counting_dataset(count, seq, (uint64_t)count);
            int64_t windows = zr_dataset_windows(&dataset);
            assert_int_equal(windows, count / seq - 1 > 1 ? count / seq - 1 : 1);
            for (int64_t epoch = 0; epoch < EPOCHS; epoch++)
                check_epoch(&dataset, epoch);
            zr_dataset_free(&dataset);
        }
    }
}

static int32_t start_of(const zr_dataset *dataset, int64_t sample)
{
    int32_t tokens[16], targets[16];
    zr_dataset_train_batch(dataset, sample, 1, tokens, targets);
    return tokens[0];
}

static void test_every_phase_and_no_other(void **state)
{
    const int64_t seq = 8;
    const struct {
        int64_t count, phases;
    } cases[] = {{9, 1}, {12, 4}, {16, 8}, {23, 8}, {24, 8}, {25, 8}, {400, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zr_dataset dataset = counting_dataset(cases[i].count, seq, 7);
        int64_t windows = zr_dataset_windows(&dataset), seen[8] = {0}, distinct = 0;
        for (int64_t epoch = 0; epoch < 200; epoch++)
            seen[start_of(&dataset, epoch * windows) % seq]++;
        for (int64_t phase = 0; phase < seq; phase++)
            distinct += seen[phase] > 0;
        assert_int_equal(distinct, cases[i].phases);
        zr_dataset_free(&dataset);
    }
}

static void test_samples_are_functions_of_seed_and_number(void **state)
{
    zr_dataset dataset = counting_dataset(1000, 8, 42), other = counting_dataset(1000, 8, 43);
    int32_t tokens[300 * 8], targets[300 * 8];
    int differing_seed = 0, differing_epoch = 0;
    int64_t windows = zr_dataset_windows(&dataset);
    zr_dataset_train_batch(&dataset, 50, 300, tokens, targets); // across the end of an epoch
    for (int64_t i = 299; i >= 0; i--) {
        assert_int_equal(tokens[i * 8], start_of(&dataset, 50 + i));
        differing_seed += tokens[i * 8] / 8 != start_of(&other, 50 + i) / 8;
        differing_epoch += tokens[i * 8] / 8 != start_of(&dataset, 50 + i + windows) / 8;
    }
    assert_true(differing_seed > 250);
    assert_true(differing_epoch > 250);
    assert_in_range(start_of(&dataset, INT64_C(1) << 60), 0, 1000 - 9);
    zr_dataset_free(&dataset);
    zr_dataset_free(&other);
}

static void test_evaluation_windows(void **state)
{
    const struct {
        int64_t count, windows;
    } cases[] = {{9, 1}, {16, 1}, {17, 2}, {24, 2}, {25, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zr_dataset dataset = counting_dataset(cases[i].count, 8, 1);
        int32_t tokens[24], targets[24];
        assert_int_equal(zr_dataset_eval_windows(&dataset), cases[i].windows);
        zr_dataset_eval_batch(&dataset, 0, cases[i].windows, tokens, targets);
        for (int64_t j = 0; j < 8 * cases[i].windows; j++) {
            assert_int_equal(tokens[j], j);
            assert_int_equal(targets[j], j + 1);
        }
        zr_dataset_eval_batch(&dataset, cases[i].windows - 1, 1, tokens, targets);
        assert_int_equal(tokens[0], 8 * (cases[i].windows - 1));
        zr_dataset_free(&dataset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_joined),
        cmocka_unit_test(test_files_that_are_none),
        cmocka_unit_test(test_no_memory_for_the_text),
        cmocka_unit_test(test_the_last_tenth),
        cmocka_unit_test(test_parts_do_not_show),
        cmocka_unit_test(test_text_shorter_than_a_window),
        cmocka_unit_test(test_no_memory_for_the_tokens),
        cmocka_unit_test(test_windows_tile_the_stream),
        cmocka_unit_test(test_every_phase_and_no_other),
        cmocka_unit_test(test_samples_are_functions_of_seed_and_number),
        cmocka_unit_test(test_evaluation_windows),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
