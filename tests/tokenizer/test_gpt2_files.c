// GPT-2's two files, the tokens added to them, and saving a tokenizer that was read.
#include "../base/scratch_directory.h"

#include "tokenizer/tokenizer.h"

static void assert_same_file(scratch *dir, const char *a, const char *b)
{
    char *data[2];
    size_t length[2];
    assert_int_equal(zr_file_read(scratch_path(dir, a), 1 << 20, &data[0], &length[0], NULL),
                     ZERO_OK);
    assert_int_equal(zr_file_read(scratch_path(dir, b), 1 << 20, &data[1], &length[1], NULL),
                     ZERO_OK);
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(data[0], data[1], length[0]);
    zr_free(data[0]);
    zr_free(data[1]);
}

#define TWO_FILES                                                                                  \
    "{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3,\"<|endoftext|>\":4,\"\xc4\xa0"                      \
    "ab\":5}"

static void assert_two_files(scratch *dir, const char *config, const char *added, int32_t count,
                             const int32_t *expected)
{
    static const char text[] = "ab<u> b <p>";
    zr_tokenizer *tokenizer;
    zr_encoder *encoder;
    zr_ids ids = {0};
    zero_error error = {0};
    scratch_write(dir, "tokenizer_config.json", config);
    scratch_write(dir, "added_tokens.json", added);
    if (zr_tokenizer_load(dir->directory, &tokenizer, &error) != ZERO_OK)
        fail_msg("%s: %s", config, error.message);
    assert_int_equal(zr_encoder_create(tokenizer, &encoder, NULL), ZERO_OK);
    assert_int_equal(zr_encoder_append(encoder, ZR_ENCODE_SPECIAL, text, 0, sizeof text - 1, "text",
                                       &ids, &error),
                     ZERO_OK);
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.at, expected, (size_t)count * sizeof *expected);
    assert_int_equal(zr_tokenizer_end(tokenizer), 4);
    zr_ids_free(&ids);
    zr_encoder_destroy(encoder);
    zr_tokenizer_destroy(tokenizer);
}

static void assert_added_refused(scratch *dir, const char *config, const char *added,
                                 zero_status status, const char *says)
{
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    scratch_write(dir, "tokenizer_config.json", config);
    scratch_write(dir, "added_tokens.json", added);
    if (zr_tokenizer_load(dir->directory, &tokenizer, &error) != status ||
        !strstr(error.message, says))
        fail_msg("%s, %s: %s", config, added, error.message);
}

// As transformers' GPT2Tokenizer takes them.
static void added_tokens_of_two_files(void **state)
{
    static const char decoder[] =
        "{\"added_tokens_decoder\": {\"6\": {\"content\": \"<u>\", \"special\": false}, \"7\": "
        "{\"content\": \"<p>\", \"special\": true, \"lstrip\": true}}%s}";
    scratch *dir = *state;
    char config[512];
    scratch_write(dir, "vocab.json", TWO_FILES);
    scratch_write(dir, "merges.txt", "#version: 0.2\na b\n\xc4\xa0 ab\n");
    assert_two_files(dir, "{}", "{\"<u>\": 6, \"<p>\": 7}", 6, (int32_t[]){2, 6, 3, 1, 3, 7});
    snprintf(config, sizeof config, decoder, "");
    assert_two_files(dir, config, "{\"<u>\": 60}", 5,
                     (int32_t[]){2, 6, 3, 1, 7}); // the older file is not read
    snprintf(config, sizeof config, decoder, ", \"add_prefix_space\": true");
    assert_two_files(dir, config, "{}", 5, (int32_t[]){5, 6, 3, 1, 7});
    assert_added_refused(dir, "{\"pad_token\": \"<p>\"}", "{}", ZERO_ERR_UNSUPPORTED,
                         "its pad_token \"<p>\" has no id");
    assert_added_refused(dir, "{}", "{\"<u>\": \"6\"}", ZERO_ERR_DATA,
                         "added_tokens.json gives \"<u>\" no integer");
    assert_added_refused(dir, "{}", "{\"ab\": 6}", ZERO_ERR_DATA,
                         "has the id 2 in the vocabulary and 6");
    assert_added_refused(dir, "{}", "{\"<u>\": 7000000}", ZERO_ERR_DATA, "has the id 7000000");
    assert_added_refused(dir, "{\"added_tokens_decoder\": {\"x\": {\"content\": \"<u>\"}}}", "{}",
                         ZERO_ERR_DATA, "says of \"x\" no token");
    assert_added_refused(dir, "{\"added_tokens_decoder\": {\"6\": \"<u>\"}}", "{}", ZERO_ERR_DATA,
                         "says of \"6\" no token");
}

// They stand in neither of the two files, decide ids all the same, and come along with a model.
static void added_tokens_are_kept(void **state)
{
    scratch *dir = *state;
    uint64_t fingerprints[2];
    scratch_write(dir, "vocab.json", TWO_FILES);
    scratch_write(dir, "merges.txt", "#version: 0.2\na b\n\xc4\xa0 ab\n");
    assert_int_equal(zr_directory_create(scratch_path(dir, "saved"), NULL), ZERO_OK);
    for (int i = 0; i < 2; i++) {
        zr_tokenizer *tokenizer;
        scratch_write(dir, "added_tokens.json", i ? "{\"<u>\": 6}" : "{}");
        assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, NULL), ZERO_OK);
        fingerprints[i] = zr_tokenizer_fingerprint(tokenizer);
        scratch_path(dir, "saved");
        assert_int_equal(zr_tokenizer_save(tokenizer, dir->path, NULL), ZERO_OK);
        assert_same_file(dir, "added_tokens.json", "saved/added_tokens.json");
        zr_tokenizer_destroy(tokenizer);
    }
    assert_true(fingerprints[0] != fingerprints[1]);
}

static void gpt2s_two_files(void **state)
{
    scratch *dir = *state;
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    zr_ids ids = {0};
    scratch_write(dir, "vocab.json",
                  "{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3,\"\xc4\xa0"
                  "ab\":4,\"<|endoftext|>\":5,\"l\":6,\"'\":7,\"'l\":8}");
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, &error), ZERO_ERR_UNSUPPORTED);
    assert_contains(error.message, "without a merges.txt");
    scratch_write(dir, "merges.txt", "#version: 0.2\r\na b\n\xc4\xa0 ab\n' l\n");
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_end(tokenizer), 5);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "ab ab  ab", 9, "text", &ids, NULL), ZERO_OK);
    assert_int_equal(ids.count, 4);
    assert_memory_equal(ids.at, ((int32_t[]){2, 4, 3, 4}), sizeof(int32_t[4]));
    zr_ids_free(&ids);
    assert_int_equal(zr_directory_create(scratch_path(dir, "saved"), NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_save(tokenizer, dir->path, NULL), ZERO_OK);
    assert_same_file(dir, "vocab.json", "saved/vocab.json");
    assert_same_file(dir, "merges.txt", "saved/merges.txt");
    uint64_t before = zr_tokenizer_fingerprint(tokenizer);
    zr_tokenizer_destroy(tokenizer);
    scratch_write(dir, "tokenizer_config.json", "{\"tokenizer_class\":\"Qwen2Tokenizer\"}");
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, &error), ZERO_ERR_UNSUPPORTED);
    assert_contains(error.message, "Qwen2Tokenizer");
    scratch_write(dir, "tokenizer_config.json", "{\"tokenizer_class\":\"GPT2Tokenizer\"}");
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, &error), ZERO_OK);
    assert_true(zr_tokenizer_fingerprint(tokenizer) == before);
    zr_tokenizer_destroy(tokenizer);
    scratch_write(dir, "merges.txt", "#version: 0.2\na b\nab\n");
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "merge 1 is \"ab\"");
}

static char *read_saved(scratch *dir, const char *name)
{
    char *text;
    size_t length;
    assert_int_equal(zr_file_read(scratch_path(dir, name), 1 << 20, &text, &length, NULL), ZERO_OK);
    return text;
}

// Asserts that the directory `name` has a tokenizer of these ids and this begin token.
static zr_tokenizer *assert_spells(scratch *dir, const char *name, const zr_ids *expected,
                                   int32_t begins)
{
    static const char text[] = "ab <p>ab l<u> b'l";
    const int32_t *before, *after;
    int before_count, after_count;
    zr_tokenizer *tokenizer;
    zr_encoder *encoder;
    zr_ids ids = {0};
    zero_error error = {0};
    if (zr_tokenizer_load(scratch_path(dir, name), &tokenizer, &error) != ZERO_OK)
        fail_msg("%s: %s", name, error.message);
    assert_int_equal(zr_encoder_create(tokenizer, &encoder, NULL), ZERO_OK);
    assert_int_equal(
        zr_encoder_append(encoder, ZR_ENCODE_SPECIAL, text, 0, sizeof text - 1, "text", &ids, NULL),
        ZERO_OK);
    assert_int_equal(ids.count, expected->count);
    assert_memory_equal(ids.at, expected->at, (size_t)ids.count * sizeof *ids.at);
    zr_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count);
    assert_int_equal(before_count, begins >= 0);
    assert_true(!before_count || before[0] == begins);
    zr_ids_free(&ids);
    zr_encoder_destroy(encoder);
    return tokenizer;
}

// What is saved has a tokenizer.json that says the same without the two files, and a class. Saved
// again it is the same tokenizer, with the same files.
static void two_files_become_a_tokenizer_json(void **state)
{
    static const char *const configs[] = {
        "{\"add_bos_token\": true}",
        "{\"add_prefix_space\": true, \"added_tokens_decoder\": {\"10\": {\"content\": \"<p>\", "
        "\"rstrip\": true, \"special\": true}, \"9\": {\"content\": \"<u>\"}}}"};
    static int32_t expected[][11] = {{2, 3, 10, 2, 3, 6, 9, 3, 1, 7, 6},
                                     {4, 3, 10, 4, 3, 6, 9, 3, 1, 7, 6}};
    scratch *dir = *state;
    scratch_write(dir, "vocab.json",
                  "{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3,\"\xc4\xa0"
                  "ab\":4,\"<|endoftext|>\":5,\"l\":6,\"'\":7,\"'l\":8}");
    scratch_write(dir, "merges.txt", "#version: 0.2\r\na b\n\xc4\xa0 ab\n' l\n");
    scratch_write(dir, "added_tokens.json", "{\"<p>\": 10, \"<u>\": 9}");
    for (int i = 0; i < ZR_COUNT(configs); i++) {
        static const char *const folders[] = {"one", "two", "alone"};
        const zr_ids ids = {.at = expected[i], .count = 11};
        int32_t begins = i ? -1 : 5;
        scratch_write(dir, "tokenizer_config.json", configs[i]);
        for (int f = 0; f < ZR_COUNT(folders); f++)
            assert_int_equal(zr_directory_create(scratch_path(dir, folders[f]), NULL), ZERO_OK);
        zr_tokenizer *first = assert_spells(dir, ".", &ids, begins);
        assert_int_equal(zr_tokenizer_save(first, scratch_path(dir, "one"), NULL), ZERO_OK);
        zr_tokenizer *again = assert_spells(dir, "one", &ids, begins);
        assert_true(zr_tokenizer_fingerprint(again) == zr_tokenizer_fingerprint(first));
        assert_int_equal(zr_tokenizer_save(again, scratch_path(dir, "two"), NULL), ZERO_OK);
        assert_same_file(dir, "one/tokenizer.json", "two/tokenizer.json");
        assert_same_file(dir, "one/tokenizer_config.json", "two/tokenizer_config.json");
        char *json = read_saved(dir, "one/tokenizer.json"),
             *config = read_saved(dir, "one/tokenizer_config.json");
        assert_contains(config, "\"tokenizer_class\": \"GPT2Tokenizer\"");
        assert_contains(config, "\"eos_token\": \"<|endoftext|>\"");
        scratch_write(dir, "alone/tokenizer.json", json);
        zr_tokenizer_destroy(assert_spells(dir, "alone", &ids, begins));
        zr_tokenizer_destroy(first);
        zr_tokenizer_destroy(again);
        zr_free(json);
        zr_free(config);
    }
}

// A tokenizer.json without a tokenizer_config.json, or with one that names no class, gets a class,
// and what ends a text is named, so that reading it back finds the same.
static void a_class_is_named(void **state)
{
    static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"</s>\":1},"
                               "\"merges\":[]}}";
    scratch *dir = *state;
    zr_tokenizer *tokenizer;
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_directory_create(scratch_path(dir, "saved"), NULL), ZERO_OK);
    for (int i = 0; i < 3; i++) {
        static const char *const configs[] = {NULL, "{\"model_max_length\": 9}",
                                              "{\"tokenizer_class\": \"Mine\"}"};
        if (configs[i])
            scratch_write(dir, "tokenizer_config.json", configs[i]);
        assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, NULL), ZERO_OK);
        assert_int_equal(zr_tokenizer_save(tokenizer, scratch_path(dir, "saved"), NULL), ZERO_OK);
        zr_tokenizer_destroy(tokenizer);
        assert_same_file(dir, "tokenizer.json", "saved/tokenizer.json");
        char *config = read_saved(dir, "saved/tokenizer_config.json");
        if (i == 2)
            assert_same_file(dir, "tokenizer_config.json", "saved/tokenizer_config.json");
        else
            assert_contains(config, "\"tokenizer_class\": \"PreTrainedTokenizerFast\"");
        assert_int_equal(strstr(config, "\"eos_token\": \"</s>\"") != NULL, i < 2);
        assert_int_equal(strstr(config, "model_max_length") != NULL, i == 1);
        zr_free(config);
        assert_int_equal(zr_tokenizer_load(scratch_path(dir, "saved"), &tokenizer, NULL), ZERO_OK);
        assert_int_equal(zr_tokenizer_end(tokenizer), 1);
        zr_tokenizer_destroy(tokenizer);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        CASE(added_tokens_of_two_files),         CASE(added_tokens_are_kept), CASE(gpt2s_two_files),
        CASE(two_files_become_a_tokenizer_json), CASE(a_class_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
