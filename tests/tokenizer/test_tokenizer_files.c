// The files of a BPE: what they may not say, what happens if they are garbled, and what ends a
// text.
#include "../base/scratch_directory.h"

#include "tokenizer/tokenizer.h"

// A byte-level BPE of three letters, with parts to be put in.
#define BPE(added, model, merges, rest)                                                            \
    "{\"added_tokens\":[" added "]," rest "\"model\":{\"type\":\"BPE\"," model                     \
    "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"abb\":3},\"merges\":[" merges "]}}"
#define SOUND                                                                                      \
    BPE("{\"id\":4,\"content\":\"<e>\",\"special\":true,\"normalized\":false}", "",                \
        "\"a b\",\"ab b\"",                                                                        \
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":"      \
        "\"never\"},\"decoder\":{\"type\":\"Fuse\"},")
#define WITH(rest) BPE("", "", "\"a b\"", rest)

static const struct {
    const char *json;
    zero_status status;
    const char *says;
} refusals[] = {
    {BPE("", "", "\"a c\"", ""), ZERO_ERR_DATA, "merge 0, \"a\" and \"c\": the second is no token"},
    {BPE("", "", "\"a b\",\"c b\"", ""), ZERO_ERR_DATA,
     "merge 1, \"c\" and \"b\": the first is no token"},
    {BPE("", "", "\"b a\"", ""), ZERO_ERR_DATA, "together they are no token"},
    {BPE("", "", "\"ab\"", ""), ZERO_ERR_DATA,
     "merge 0 is \"ab\", where two tokens with a space between"},
    {BPE("", "", "\"a b b\"", ""), ZERO_ERR_DATA, "two tokens with a space"},
    {BPE("", "", "[\"a\"]", ""), ZERO_ERR_DATA, "merge 0 is no pair"},
    {BPE("", "", "[\"\",\"a\"]", ""), ZERO_ERR_DATA, "merge 0 is no pair"},
    {BPE("", "", "7", ""), ZERO_ERR_DATA, "merge 0 is no pair"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"ab\":0},\"merges\":[]}}", ZERO_ERR_DATA,
     "the id 0 is given to \"a\" and to \"ab\""},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":4000000000},\"merges\":[]}}", ZERO_ERR_DATA,
     "has the id 4000000000"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":70000},\"merges\":[]}}", ZERO_ERR_DATA,
     "has the id 70000"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":-1},\"merges\":[]}}", ZERO_ERR_DATA,
     "has the id -1"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":\"0\"},\"merges\":[]}}", ZERO_ERR_DATA,
     "is no integer"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":0},\"merges\":{\"a\":1}}}", ZERO_ERR_DATA,
     "\"merges\" is no list"},
    {BPE("{\"id\":4,\"content\":\"\"}", "", "", ""), ZERO_ERR_DATA,
     "added token 0 has no \"content\""},
    {BPE("{\"id\":9,\"content\":\"ab\"}", "", "", ""), ZERO_ERR_DATA,
     "has the id 2 in the vocabulary and 9 among the added"},
    {BPE("{\"id\":4,\"content\":\"x\"},{\"id\":5,\"content\":\"x\"}", "", "", ""), ZERO_ERR_DATA,
     "\"x\" is given twice"},
    {BPE("{\"id\":3,\"content\":\"x\"}", "", "", ""), ZERO_ERR_DATA,
     "the id 3 is given to \"abb\" and to \"x\""},
    {BPE("", "\"unk_token\":\"?\",", "", ""), ZERO_ERR_DATA, "the unk_token \"?\""},
    {BPE("", "\"dropout\":0.5,", "", ""), ZERO_ERR_UNSUPPORTED, "dropout"},
    {BPE("", "\"end_of_word_suffix\":\"</w>\",", "", ""), ZERO_ERR_UNSUPPORTED,
     "end_of_word_suffix"},
    {WITH("\"normalizer\":{\"type\":\"Lowercase\"},"), ZERO_ERR_UNSUPPORTED,
     "the normalizer {\"type\":\"Lowercase\"}"},
    {WITH(
         "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" +\"},\"content\":\"_\"},"),
     ZERO_ERR_UNSUPPORTED, "\"Regex\":\" +\""},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\d+|x\"},\"behavior\":"
          "\"Isolated\",\"invert\":false},"),
     ZERO_ERR_UNSUPPORTED, "\\\\d+|x"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{"
          "\"type\":\"Digits\"}]},"),
     ZERO_ERR_UNSUPPORTED, "after ByteLevel, {\"type\":\"Digits\"}"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Whitespace\"},"), ZERO_ERR_UNSUPPORTED, "Whitespace"},
    {WITH("\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\"},"), ZERO_ERR_UNSUPPORTED,
     "Metaspace"},
    {WITH("\"decoder\":{\"type\":\"WordPiece\"},"), ZERO_ERR_UNSUPPORTED,
     "the decoder {\"type\":\"WordPiece\"}"},
    {WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0},"),
     ZERO_ERR_UNSUPPORTED, "Strip"},
    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
          "\"ByteFallback\"}]},"),
     ZERO_ERR_UNSUPPORTED, "ByteFallback"},
    {WITH("\"post_processor\":{\"type\":\"BertProcessing\"},"), ZERO_ERR_UNSUPPORTED,
     "BertProcessing"},
    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
          "\"id\":\"z\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{}},"),
     ZERO_ERR_UNSUPPORTED, "TemplateProcessing"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", ZERO_ERR_UNSUPPORTED,
     "WordPiece tokenizer: not built"},
};

static void what_a_file_may_not_say(void **state)
{
    scratch *dir = *state;
    for (int i = 0; i < ZR_COUNT(refusals); i++) {
        zr_tokenizer *tokenizer = NULL;
        zero_error error = {0};
        scratch_write(dir, "tokenizer.json", refusals[i].json);
        zero_status status = zr_tokenizer_load(dir->directory, &tokenizer, &error);
        if (status != refusals[i].status || !strstr(error.message, refusals[i].says) ||
            !strstr(error.message, "tokenizer.json"))
            fail_msg("%s\ngave %s: %s", refusals[i].json, zero_status_name(status), error.message);
        assert_null(tokenizer);
    }
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    scratch_write(dir, "tokenizer.json", SOUND);
    scratch_write(dir, "tokenizer_config.json", "{\"eos_token\":{\"content\":\"<f>\"}}");
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "the eos_token \"<f>\" of tokenizer_config.json");
    scratch_write(dir, "tokenizer_config.json", "{\"eos_token\":{\"content\":\"<e>\"}}");
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, &error), ZERO_OK);
    assert_int_equal(zr_tokenizer_end(tokenizer), 4);
    zr_tokenizer_destroy(tokenizer);
}

// What has no token is refused by name, not dropped: training text must come back as it was.
static void what_has_no_token(void **state)
{
    scratch *dir = *state;
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    zr_ids ids = {0};
    scratch_write(dir, "tokenizer.json", SOUND);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "aabbab", 6, "six", &ids, NULL), ZERO_OK);
    assert_int_equal(ids.count, 3);
    assert_memory_equal(ids.at, ((int32_t[]){0, 3, 2}), sizeof(int32_t[3]));
    assert_int_equal(zr_tokenizer_encode(tokenizer, "abc", 3, "the file", &ids, &error),
                     ZERO_ERR_DATA);
    assert_contains(error.message, "the file: the tokenizer has no token for \"c\"");
    assert_int_equal(zr_tokenizer_encode(tokenizer, "a\x80", 2, "the file", &ids, &error),
                     ZERO_ERR_DATA);
    assert_contains(error.message, "the byte 0x80");
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
}

// No prefix of a good file, and no change of one byte, may do worse than fail.
static void garbled_files(void **state)
{
    static const char text[] = SOUND;
    static const char changes[] = {0, '"', '{', ']', '9', '-', '\\', ' ', (char)0xff};
    scratch *dir = *state;
    for (size_t at = 0; at < sizeof text - 1; at++) {
        for (size_t change = 0; change <= sizeof changes; change++) {
            char garbled[sizeof text];
            zr_tokenizer *tokenizer;
            zr_ids ids = {0};
            memcpy(garbled, text, sizeof text);
            if (change < sizeof changes)
                garbled[at] = changes[change];
            FILE *file = fopen(scratch_path(dir, "tokenizer.json"), "w");
            fwrite(garbled, 1, change < sizeof changes ? sizeof text - 1 : at, file);
            fclose(file);
            if (zr_tokenizer_load(dir->directory, &tokenizer, NULL) != ZERO_OK)
                continue;
            assert_true(change < sizeof changes);
            zero_status status =
                zr_tokenizer_encode(tokenizer, "ab abb<e>_", 10, "text", &ids, NULL);
            for (int64_t i = 0; i < ids.count && status == ZERO_OK; i++)
                assert_in_range(ids.at[i], 0, zr_tokenizer_vocabulary(tokenizer) - 1);
            zr_ids_free(&ids);
            zr_tokenizer_destroy(tokenizer);
        }
    }
}

static void every_allocation_may_fail(void **state)
{
    static const char *const files[] = {"llama2.json", "qwen2.json"};
    scratch *dir = *state;
    for (int f = 0; f < ZR_COUNT(files); f++) {
        zero_status status = ZERO_ERR_MEMORY;
        char path[512];
        snprintf(path, sizeof path, "%s/%s", TOKENIZERS, files[f]);
        for (int nth = 1; status != ZERO_OK; nth++) {
            zr_tokenizer *tokenizer = NULL;
            zero_error error = {0};
            zr_ids ids = {0};
            assert_true(nth < 1000);
            zr_alloc_fail_at(nth);
            status = zr_tokenizer_load(path, &tokenizer, &error);
            if (status == ZERO_OK)
                status = zr_tokenizer_encode(
                    tokenizer,
                    "speaking, na\xc3\xafve e\xcc\x81 and more than forty letters in "
                    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
                    105, "text", &ids, &error);
            if (status == ZERO_OK)
                status = zr_tokenizer_save(tokenizer, dir->directory, &error);
            zr_alloc_fail_at(0);
            if (status != ZERO_OK && (status != ZERO_ERR_MEMORY || error.status != ZERO_ERR_MEMORY))
                fail_msg("allocation %d: %s: %s", nth, zero_status_name(status), error.message);
            zr_ids_free(&ids);
            zr_tokenizer_destroy(tokenizer);
        }
    }
}

// A few short strings in a file ask for no more memory than the text warrants: when it is loaded,
// and when it is used.
static void what_grows_beyond_all_proportion(void **state)
{
    scratch *dir = *state;
    char long_text[3001], json[20000];
    zr_tokenizer *tokenizer;
    zr_ids ids = {0};
    zero_error error = {0};
    memset(long_text, 'a', 3000);
    long_text[3000] = 0;
#define STEP "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}"
#define BOMB(added)                                                                                \
    BPE(added, "", "",                                                                             \
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" STEP "," STEP "," STEP "," STEP  \
        "," STEP "]},")
    snprintf(json, sizeof json, BOMB("{\"id\":0,\"content\":\"a\",\"normalized\":true}"), long_text,
             long_text, long_text, long_text, long_text);
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, &error), ZERO_ERR_DATA);
    assert_contains(error.message,
                    "tokenizer.json: the tokenizer's normalizer makes more than 64 times");
    snprintf(json, sizeof json, BOMB(""), long_text, long_text, long_text, long_text, long_text);
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "a text", 6, "the text", &ids, &error),
                     ZERO_ERR_DATA);
    assert_contains(error.message, "the text: the tokenizer's normalizer makes more than 64 times");
    assert_int_equal(zr_tokenizer_encode(tokenizer, "bb", 2, "the text", &ids, &error), ZERO_OK);
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
    snprintf(json, sizeof json,
             BPE("", "", "", "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"%s\"},"),
             long_text);
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "b", 1, "the text", &ids, &error),
                     ZERO_ERR_DATA);
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
    snprintf(json, sizeof json, BPE("", "", "", "\"decoder\":" STEP ","), long_text);
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "the decoder makes more than 64 times");
    snprintf(json, sizeof json,
             BPE("", "", "", "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"%s\"},"),
             long_text);
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, &error), ZERO_ERR_UNSUPPORTED);
}

static int32_t end_of(scratch *dir, const char *config, const char *special)
{
    zr_tokenizer *tokenizer;
    scratch_write(dir, "tokenizer_config.json", config);
    scratch_write(dir, "special_tokens_map.json", special);
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, NULL), ZERO_OK);
    int32_t end = zr_tokenizer_end(tokenizer);
    zr_tokenizer_destroy(tokenizer);
    return end;
}

// GPT-2's published tokenizer_config.json is the first of these.
static void what_ends_a_text(void **state)
{
    scratch *dir = *state;
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    scratch_write(dir, "tokenizer.json",
                  BPE("{\"id\":4,\"content\":\"<|endoftext|>\",\"special\":true},{\"id\":5,"
                      "\"content\":\"<e>\",\"special\":true}",
                      "", "", ""));
    assert_int_equal(end_of(dir, "{\"model_max_length\": 1024}", "{}"), 4);
    assert_int_equal(end_of(dir, "{\"model_max_length\": 1024}", "{\"eos_token\": \"<e>\"}"), 5);
    assert_int_equal(
        end_of(dir, "{}", "{\"eos_token\": {\"content\": \"<e>\", \"lstrip\": false}}"), 5);
    // the newer file knows
    assert_int_equal(end_of(dir, "{\"eos_token\": \"<|endoftext|>\", \"added_tokens_decoder\": {}}",
                            "{\"eos_token\": \"<e>\"}"),
                     4);
    assert_int_equal(end_of(dir, "{\"eos_token\": null}", "{}"), -1);
    scratch_write(dir, "tokenizer_config.json", "{}");
    scratch_write(dir, "special_tokens_map.json", "{\"eos_token\": \"<f>\"}");
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "the eos_token \"<f>\" of special_tokens_map.json");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        CASE(what_a_file_may_not_say),
        CASE(what_has_no_token),
        CASE(garbled_files),
        CASE(every_allocation_may_fail),
        CASE(what_grows_beyond_all_proportion),
        CASE(what_ends_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
