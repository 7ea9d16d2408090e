// The files of a BPE: what they may not say, what happens to garbled ones, GPT-2's two files, and saving what was read; a crew of
// threads; notes beside token files.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"

#include "tokenizer/crew.h"
#include "tokens/token_note.h"

// A byte-level BPE of three letters, with parts to be put in.
#define BPE(added, model, merges, rest) \
    "{\"added_tokens\":[" added "]," rest "\"model\":{\"type\":\"BPE\"," model "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"abb\":3},\"merges\":[" merges "]}}"
#define SOUND BPE("{\"id\":4,\"content\":\"<e>\",\"special\":true,\"normalized\":false}", "", "\"a b\",\"ab b\"", "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"},\"decoder\":{\"type\":\"Fuse\"},")
#define WITH(rest) BPE("", "", "\"a b\"", rest)

static const struct {
    const char *json;
    zero_status status;
    const char *says;
} refusals[] = {
    {BPE("", "", "\"a c\"", ""), ZERO_ERR_DATA, "merge 0, \"a\" and \"c\": the second is no token"},
    {BPE("", "", "\"a b\",\"c b\"", ""), ZERO_ERR_DATA, "merge 1, \"c\" and \"b\": the first is no token"},
    {BPE("", "", "\"b a\"", ""), ZERO_ERR_DATA, "together they are no token"},
    {BPE("", "", "\"ab\"", ""), ZERO_ERR_DATA, "merge 0 is \"ab\", where two tokens with a space between"},
    {BPE("", "", "\"a b b\"", ""), ZERO_ERR_DATA, "two tokens with a space"},
    {BPE("", "", "[\"a\"]", ""), ZERO_ERR_DATA, "merge 0 is no pair"},
    {BPE("", "", "[\"\",\"a\"]", ""), ZERO_ERR_DATA, "merge 0 is no pair"},
    {BPE("", "", "7", ""), ZERO_ERR_DATA, "merge 0 is no pair"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"ab\":0},\"merges\":[]}}", ZERO_ERR_DATA, "the id 0 is given to \"a\" and to \"ab\""},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":4000000000},\"merges\":[]}}", ZERO_ERR_DATA, "has the id 4000000000"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":70000},\"merges\":[]}}", ZERO_ERR_DATA, "has the id 70000"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":-1},\"merges\":[]}}", ZERO_ERR_DATA, "has the id -1"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":\"0\"},\"merges\":[]}}", ZERO_ERR_DATA, "is no integer"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":0},\"merges\":{\"a\":1}}}", ZERO_ERR_DATA, "\"merges\" is no list"},
    {BPE("{\"id\":4,\"content\":\"\"}", "", "", ""), ZERO_ERR_DATA, "added token 0 has no \"content\""},
    {BPE("{\"id\":9,\"content\":\"ab\"}", "", "", ""), ZERO_ERR_DATA, "has the id 2 in the vocabulary and 9 among the added"},
    {BPE("{\"id\":4,\"content\":\"x\"},{\"id\":5,\"content\":\"x\"}", "", "", ""), ZERO_ERR_DATA, "\"x\" is given twice"},
    {BPE("{\"id\":3,\"content\":\"x\"}", "", "", ""), ZERO_ERR_DATA, "the id 3 is given to \"abb\" and to \"x\""},
    {BPE("", "\"unk_token\":\"?\",", "", ""), ZERO_ERR_DATA, "the unk_token \"?\""},
    {BPE("", "\"dropout\":0.5,", "", ""), ZERO_ERR_UNSUPPORTED, "dropout"},
    {BPE("", "\"end_of_word_suffix\":\"</w>\",", "", ""), ZERO_ERR_UNSUPPORTED, "end_of_word_suffix"},
    {WITH("\"normalizer\":{\"type\":\"Lowercase\"},"), ZERO_ERR_UNSUPPORTED, "the normalizer {\"type\":\"Lowercase\"}"},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" +\"},\"content\":\"_\"},"), ZERO_ERR_UNSUPPORTED, "\"Regex\":\" +\""},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\d+|x\"},\"behavior\":\"Isolated\",\"invert\":false},"), ZERO_ERR_UNSUPPORTED, "\\\\d+|x"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]},"), ZERO_ERR_UNSUPPORTED, "after ByteLevel, {\"type\":\"Digits\"}"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Whitespace\"},"), ZERO_ERR_UNSUPPORTED, "Whitespace"},
    {WITH("\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\"},"), ZERO_ERR_UNSUPPORTED, "Metaspace"},
    {WITH("\"decoder\":{\"type\":\"WordPiece\"},"), ZERO_ERR_UNSUPPORTED, "the decoder {\"type\":\"WordPiece\"}"},
    {WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0},"), ZERO_ERR_UNSUPPORTED, "Strip"},
    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}]},"), ZERO_ERR_UNSUPPORTED, "ByteFallback"},
    {WITH("\"post_processor\":{\"type\":\"BertProcessing\"},"), ZERO_ERR_UNSUPPORTED, "BertProcessing"},
    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"z\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{}},"), ZERO_ERR_UNSUPPORTED, "TemplateProcessing"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0.0]]}}", ZERO_ERR_UNSUPPORTED, "Unigram tokenizer: not built"},
};

static void what_a_file_may_not_say(void **state)
{
    scratch *dir = *state;
    for (int i = 0; i < ZR_COUNT(refusals); i++) {
        zr_tokenizer *tokenizer = NULL;
        zero_error error = {0};
        scratch_write(dir, "tokenizer.json", refusals[i].json);
        zero_status status = zr_tokenizer_load(dir->directory, &tokenizer, &error);
        if (status != refusals[i].status || !strstr(error.message, refusals[i].says) || !strstr(error.message, "tokenizer.json"))
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
    assert_int_equal(zr_tokenizer_encode(tokenizer, "abc", 3, "the file", &ids, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "the file: the tokenizer has no token for \"c\"");
    assert_int_equal(zr_tokenizer_encode(tokenizer, "a\x80", 2, "the file", &ids, &error), ZERO_ERR_DATA);
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
            zero_status status = zr_tokenizer_encode(tokenizer, "ab abb<e>_", 10, "text", &ids, NULL);
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
                status = zr_tokenizer_encode(tokenizer, "speaking, na\xc3\xafve e\xcc\x81 and more than forty letters in abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", 105, "text", &ids, &error);
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

// A few short strings in a file ask for no more memory than the text warrants: when it is loaded, and when it is used.
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
#define BOMB(added) BPE(added, "", "", "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" STEP "," STEP "," STEP "," STEP "," STEP "]},")
    snprintf(json, sizeof json, BOMB("{\"id\":0,\"content\":\"a\",\"normalized\":true}"), long_text, long_text, long_text, long_text, long_text);
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "tokenizer.json: the tokenizer's normalizer makes more than 64 times");
    snprintf(json, sizeof json, BOMB(""), long_text, long_text, long_text, long_text, long_text);
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "a text", 6, "the text", &ids, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "the text: the tokenizer's normalizer makes more than 64 times");
    assert_int_equal(zr_tokenizer_encode(tokenizer, "bb", 2, "the text", &ids, &error), ZERO_OK);
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
    snprintf(json, sizeof json, BPE("", "", "", "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"%s\"},"), long_text);
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "b", 1, "the text", &ids, &error), ZERO_ERR_DATA);
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
    snprintf(json, sizeof json, BPE("", "", "", "\"decoder\":" STEP ","), long_text);
    scratch_write(dir, "tokenizer.json", json);
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "the decoder makes more than 64 times");
    snprintf(json, sizeof json, BPE("", "", "", "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"%s\"},"), long_text);
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
    scratch_write(dir, "tokenizer.json", BPE("{\"id\":4,\"content\":\"<|endoftext|>\",\"special\":true},{\"id\":5,\"content\":\"<e>\",\"special\":true}", "", "", ""));
    assert_int_equal(end_of(dir, "{\"model_max_length\": 1024}", "{}"), 4);
    assert_int_equal(end_of(dir, "{\"model_max_length\": 1024}", "{\"eos_token\": \"<e>\"}"), 5);
    assert_int_equal(end_of(dir, "{}", "{\"eos_token\": {\"content\": \"<e>\", \"lstrip\": false}}"), 5);
    assert_int_equal(end_of(dir, "{\"eos_token\": \"<|endoftext|>\", \"added_tokens_decoder\": {}}", "{\"eos_token\": \"<e>\"}"), 4); // the newer file knows
    assert_int_equal(end_of(dir, "{\"eos_token\": null}", "{}"), -1);
    scratch_write(dir, "tokenizer_config.json", "{}");
    scratch_write(dir, "special_tokens_map.json", "{\"eos_token\": \"<f>\"}");
    assert_int_equal(zr_tokenizer_load(dir->directory, &tokenizer, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "the eos_token \"<f>\" of special_tokens_map.json");
}

static void assert_same_file(scratch *dir, const char *a, const char *b)
{
    char *data[2];
    size_t length[2];
    assert_int_equal(zr_file_read(scratch_path(dir, a), 1 << 20, &data[0], &length[0], NULL), ZERO_OK);
    assert_int_equal(zr_file_read(scratch_path(dir, b), 1 << 20, &data[1], &length[1], NULL), ZERO_OK);
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(data[0], data[1], length[0]);
    zr_free(data[0]);
    zr_free(data[1]);
}

#define TWO_FILES "{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3,\"<|endoftext|>\":4,\"\xc4\xa0" "ab\":5}"

static void assert_two_files(scratch *dir, const char *config, const char *added, int32_t count, const int32_t *expected)
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
    assert_int_equal(zr_encoder_append(encoder, ZR_ENCODE_SPECIAL, text, 0, sizeof text - 1, "text", &ids, &error), ZERO_OK);
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.at, expected, (size_t)count * sizeof *expected);
    assert_int_equal(zr_tokenizer_end(tokenizer), 4);
    zr_ids_free(&ids);
    zr_encoder_destroy(encoder);
    zr_tokenizer_destroy(tokenizer);
}

static void assert_added_refused(scratch *dir, const char *config, const char *added, zero_status status, const char *says)
{
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    scratch_write(dir, "tokenizer_config.json", config);
    scratch_write(dir, "added_tokens.json", added);
    if (zr_tokenizer_load(dir->directory, &tokenizer, &error) != status || !strstr(error.message, says))
        fail_msg("%s, %s: %s", config, added, error.message);
}

// As transformers' GPT2Tokenizer takes them.
static void added_tokens_of_two_files(void **state)
{
    static const char decoder[] = "{\"added_tokens_decoder\": {\"6\": {\"content\": \"<u>\", \"special\": false}, \"7\": {\"content\": \"<p>\", \"special\": true, \"lstrip\": true}}%s}";
    scratch *dir = *state;
    char config[512];
    scratch_write(dir, "vocab.json", TWO_FILES);
    scratch_write(dir, "merges.txt", "#version: 0.2\na b\n\xc4\xa0 ab\n");
    assert_two_files(dir, "{}", "{\"<u>\": 6, \"<p>\": 7}", 6, (int32_t[]){2, 6, 3, 1, 3, 7});
    snprintf(config, sizeof config, decoder, "");
    assert_two_files(dir, config, "{\"<u>\": 60}", 5, (int32_t[]){2, 6, 3, 1, 7}); // the older file is not read
    snprintf(config, sizeof config, decoder, ", \"add_prefix_space\": true");
    assert_two_files(dir, config, "{}", 5, (int32_t[]){5, 6, 3, 1, 7});
    assert_added_refused(dir, "{\"pad_token\": \"<p>\"}", "{}", ZERO_ERR_UNSUPPORTED, "its pad_token \"<p>\" has no id");
    assert_added_refused(dir, "{}", "{\"<u>\": \"6\"}", ZERO_ERR_DATA, "added_tokens.json gives \"<u>\" no integer");
    assert_added_refused(dir, "{}", "{\"ab\": 6}", ZERO_ERR_DATA, "has the id 2 in the vocabulary and 6");
    assert_added_refused(dir, "{}", "{\"<u>\": 7000000}", ZERO_ERR_DATA, "has the id 7000000");
    assert_added_refused(dir, "{\"added_tokens_decoder\": {\"x\": {\"content\": \"<u>\"}}}", "{}", ZERO_ERR_DATA, "says of \"x\" no token");
    assert_added_refused(dir, "{\"added_tokens_decoder\": {\"6\": \"<u>\"}}", "{}", ZERO_ERR_DATA, "says of \"6\" no token");
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
    scratch_write(dir, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"\xc4\xa0\":3,\"\xc4\xa0" "ab\":4,\"<|endoftext|>\":5,\"l\":6,\"'\":7,\"'l\":8}");
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

static zero_status collect(void *user, const int32_t *ids, int64_t count, zero_error *error)
{
    for (int64_t i = 0; i < count; i++)
        zr_ids_append(user, ids[i]);
    return ZERO_OK;
}

static int signs; // of life, before anything is encoded

static void count_sign(void *user, size_t bytes)
{
    signs += bytes == 0;
}

// A text that cannot be cut is one part: while it is encoded, others hear of it. By one thread, in which nobody else would speak.
static void a_long_part_gives_signs_of_life(void **state)
{
    enum { LENGTH = 16 << 20 };
    scratch *dir = *state;
    char *text = malloc(LENGTH);
    zr_tokenizer *tokenizer;
    zr_crew *crew;
    zr_ids made = {0};
    zero_error error = {0};
    scratch_write(dir, "tokenizer.json", "{\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":true},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"1\":3},\"merges\":[\"a b\"]}}");
    for (size_t i = 0; i < LENGTH; i++)
        text[i] = "aab1"[i % 4];
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_crew_create(tokenizer, 1, &crew, NULL), ZERO_OK);
    signs = 0;
    assert_int_equal(zr_crew_encode(crew, ZR_ENCODE_TEXT, text, LENGTH, "text", collect, count_sign, &made, &error), ZERO_OK);
    assert_int_equal(made.count, LENGTH / 4 * 3);
    assert_true(signs > 0);
    zr_ids_free(&made);
    zr_crew_destroy(crew);
    zr_tokenizer_destroy(tokenizer);
    free(text);
}

static void a_crew_gives_the_ids_of_one(void **state)
{
    enum { LENGTH = 5 << 20 };
    static const char *const words[] = {"king", " the", " Speak", "\n", "\n\n", "  ", "'ll", " 12345", "\xc3\xa9", " \xe4\xb8\xad", ", "};
    char path[512], *text = malloc(LENGTH + 32);
    size_t length = 0;
    zr_tokenizer *tokenizer;
    zr_ids made[2] = {{0}};
    zero_error error = {0};
    for (uint32_t random = 1; length < LENGTH; random = random * 1664525 + 1013904223)
        length += (size_t)sprintf(text + length, "%s", words[(random >> 16) % ZR_COUNT(words)]);
    snprintf(path, sizeof path, "%s/qwen2.json", TOKENIZERS);
    assert_int_equal(zr_tokenizer_load(path, &tokenizer, NULL), ZERO_OK);
    for (int i = 0; i < 2; i++) {
        zr_crew *crew;
        assert_int_equal(zr_crew_create(tokenizer, 1 + 2 * i, &crew, NULL), ZERO_OK);
        assert_int_equal(zr_crew_encode(crew, ZR_ENCODE_TEXT, text, length, "text", collect, NULL, &made[i], &error), ZERO_OK);
        zr_crew_destroy(crew);
    }
    assert_int_equal(made[0].count, made[1].count);
    assert_memory_equal(made[0].at, made[1].at, (size_t)made[0].count * sizeof(int32_t));
    zr_ids_free(&made[0]);
    zr_ids_free(&made[1]);
    zr_tokenizer_destroy(tokenizer);
    free(text);
}

static void a_note_says_whose_ids_they_are(void **state)
{
    scratch *dir = *state;
    zr_tokenizer *bytes, *chars;
    zr_token_writer writer;
    zr_token_file file;
    zr_token_note note = {.tokenizer = "bytes", .vocabulary = 256, .tokens = 2, .documents = 1, .end = -1}, read;
    zero_error error = {0};
    bool there;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_BYTES, NULL, 0, "none", &bytes, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_CHARS, "ab", 2, "ab", &chars, NULL), ZERO_OK);
    note.fingerprint = zr_tokenizer_fingerprint(bytes);
    assert_int_equal(zr_token_writer_open(scratch_path(dir, "x.bin"), 256, &writer, NULL), ZERO_OK);
    assert_int_equal(zr_token_writer_append(&writer, (int32_t[]){1, 2}, 2, NULL), ZERO_OK);
    assert_int_equal(zr_token_writer_commit(&writer, NULL), ZERO_OK);
    assert_int_equal(zr_token_file_open(dir->path, ZR_TOKENS_DETECT, &file, NULL), ZERO_OK);
    assert_int_equal(zr_token_note_read(&file, &read, &there, NULL), ZERO_OK);
    assert_false(there);
    assert_int_equal(zr_token_note_check(&file, chars, NULL), ZERO_OK);
    assert_int_equal(zr_token_note_write(dir->path, &note, NULL), ZERO_OK);
    assert_int_equal(zr_token_note_read(&file, &read, &there, NULL), ZERO_OK);
    assert_true(there && read.fingerprint == note.fingerprint && read.vocabulary == 256 && read.end == -1 && read.documents == 1);
    assert_string_equal(read.tokenizer, "bytes");
    assert_int_equal(zr_token_note_check(&file, bytes, NULL), ZERO_OK);
    assert_int_equal(zr_token_note_check(&file, chars, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "another tokenizer (bytes");
    note.tokens = 3;
    assert_int_equal(zr_token_note_write(dir->path, &note, NULL), ZERO_OK);
    assert_int_equal(zr_token_note_check(&file, bytes, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "belongs to another file");
    zr_token_file_close(&file);
    zr_tokenizer_destroy(bytes);
    zr_tokenizer_destroy(chars);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        CASE(what_a_file_may_not_say), CASE(what_has_no_token), CASE(garbled_files),
        CASE(every_allocation_may_fail), CASE(what_grows_beyond_all_proportion), CASE(what_ends_a_text), CASE(added_tokens_of_two_files), CASE(added_tokens_are_kept), CASE(gpt2s_two_files), CASE(a_crew_gives_the_ids_of_one), CASE(a_long_part_gives_signs_of_life),
        CASE(a_note_says_whose_ids_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
