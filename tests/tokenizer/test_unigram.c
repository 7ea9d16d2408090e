// Unigram models: sums in fp32 over a long text, as the library sentencepiece has them; texts that
// are cut; charsmaps whose units point anywhere; and what a tokenizer.json may not say. What both
// libraries make of many texts is compared in test_sentencepiece.c.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"

#include "tokenizer/bpe.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/unigram.h"

#define MODEL TOKENIZERS "/../sentencepiece/uni-bytes.model"

static zr_tokenizer *load(const char *path)
{
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    if (zr_tokenizer_load(path, &tokenizer, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return tokenizer;
}

// Makes a text of at least `length` bytes: words, runs whose pieces have equal sums in any order,
// and characters that are no pieces.
static void make_text(size_t length, zr_buffer *out)
{
    static const char *const words[] = {
        "king",
        " the",
        "             speak",
        "=======",
        "======================",
        "\xc3\xa9",
        " \xe4\xb8\xad\xe6\x96\x87",
        "          if x",
        " 1234",
        " [x]",
        "$$$$$$$$$$$$$$$$$$$$$",
        "~~~~",
    };
    uint32_t state = 1;
    while (out->length < length) {
        state = (state * 1103515245u + 12345u) & 0x7fffffff;
        const char *word = words[(state >> 16) % ZR_COUNT(words)];
        zr_buffer_append(out, word, strlen(word));
    }
}

static zr_ids encode_in_parts(const zr_tokenizer *tokenizer, const zr_buffer *text, size_t part)
{
    zr_encoder *encoder;
    zr_ids ids = {0};
    assert_int_equal(zr_encoder_create(tokenizer, &encoder, NULL), ZERO_OK);
    for (size_t at = 0, end; at < text->length; at = end) {
        end = zr_tokenizer_cut(tokenizer, text->data, at, ZR_MIN(text->length, at + part),
                               text->length);
        assert_int_equal(
            zr_encoder_append(encoder, ZR_ENCODE_TEXT, text->data, at, end, "text", &ids, NULL),
            ZERO_OK);
    }
    zr_encoder_destroy(encoder);
    return ids;
}

// The numbers are those of `sentencepiece` 0.2.3 for the same text; the sum of the scores passes
// 1e5, where it begins again.
static void a_long_text_is_added_in_fp32(void **state)
{
    zr_tokenizer *tokenizer = load(MODEL);
    zr_buffer text = {0};
    uint32_t hash = 0;
    make_text(65000, &text);
    assert_int_equal(text.length, 65011);
    zr_ids ids = encode_in_parts(tokenizer, &text, 1000);
    for (int64_t i = 0; i < ids.count; i++)
        hash = hash * 31 + (uint32_t)ids.at[i];
    assert_int_equal(ids.count, 37666);
    assert_int_equal(hash, 2179040597u);
    zr_ids_free(&ids);
    zr_buffer_free(&text);
    zr_tokenizer_destroy(tokenizer);
}

static void a_longer_text_has_the_same_ids_in_parts(void **state)
{
    zr_tokenizer *tokenizer = load(MODEL);
    zr_buffer text = {0};
    make_text(4 * ZR_UNIGRAM_ROUNDED, &text);
    zr_ids whole = encode_in_parts(tokenizer, &text, text.length);
    assert_true(zr_tokenizer_cut(tokenizer, text.data, 0, 10, text.length) > ZR_UNIGRAM_ROUNDED);
    for (size_t part = 1; part < text.length; part = part * 37 + 11) {
        zr_ids parts = encode_in_parts(tokenizer, &text, part);
        assert_int_equal(parts.count, whole.count);
        assert_memory_equal(parts.at, whole.at, (size_t)whole.count * sizeof *whole.at);
        zr_ids_free(&parts);
    }
    zr_ids_free(&whole);
    zr_buffer_free(&text);
    zr_tokenizer_destroy(tokenizer);
}

// ---- Charsmaps

static uint32_t next_number(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

// Whatever the units are, what is found is one of the texts.
static void a_charsmap_of_anything_stays_inside(void **state)
{
    enum { UNITS = 64, TEXTS = 1000 };
    unsigned char bytes[4 + 4 * UNITS + TEXTS] = {4 * UNITS & 255, 4 * UNITS >> 8};
    uint32_t random = 7;
    int found = 0;
    for (int round = 0; round < 4000; round++) {
        zr_charsmap map;
        char text[12];
        size_t taken;
        for (size_t i = 4; i < sizeof bytes; i++) // small numbers lead to other units
            bytes[i] = round % 2 || i % 4 < 2
                           ? (unsigned char)(next_number(&random) % (round % 2 ? 256 : 8))
                           : 0;
        bytes[sizeof bytes - 1] = 0;
        assert_int_equal(zr_charsmap_create("map", (char *)bytes, sizeof bytes, &map, NULL),
                         ZERO_OK);
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (char)(next_number(&random) % 6);
        for (int longest = 0; longest < 2; longest++) {
            const char *made = zr_charsmap_find(&map, longest, text, sizeof text, &taken);
            found += made != NULL;
            if (made)
                assert_true(taken > 0 && taken <= sizeof text && made >= map.texts &&
                            made + strlen(made) < map.texts + map.text_bytes);
        }
        zr_charsmap_free(&map);
    }
    assert_true(found > 100);
}

// ---- What a tokenizer.json may not say

#define UNIGRAM(more, vocab)                                                                       \
    "{\"model\":{\"type\":\"Unigram\"," more "\"vocab\":" vocab "},\"decoder\":{\"type\":"         \
    "\"Fuse\"}}"
#define PIECES "[[\"<unk>\",0],[\"a\",-1.5],[\"b\",-2]]"
#define NORMALIZED(normalizer)                                                                     \
    "{\"normalizer\":" normalizer                                                                  \
    ",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":" PIECES "}}"
#define RULES(more)                                                                                \
    "\"libzero\":{\"add_dummy_prefix\":true,\"remove_extra_whitespaces\":false,"                   \
    "\"escape_whitespaces\":true" more "},"

static const struct {
    const char *json;
    zero_status status;
    const char *says;
} refusals[] = {
    {UNIGRAM("", "{\"a\":0}"), ZERO_ERR_DATA, "no list \"vocab\""},
    {UNIGRAM("", "[]"), ZERO_ERR_DATA, "without a token"},
    {UNIGRAM("", "[\"a\"]"), ZERO_ERR_DATA, "piece 0 of the Unigram model is no pair"},
    {UNIGRAM("", "[[\"a\",1,2]]"), ZERO_ERR_DATA, "is no pair"},
    {UNIGRAM("", "[[\"a\",-1],[\"b\",\"c\"]]"), ZERO_ERR_DATA,
     "piece 1 of the Unigram model has no"},
    {UNIGRAM("", "[[\"a\",-1],[\"a\",-2]]"), ZERO_ERR_DATA, "the pieces 0 and 1 are both \"a\""},
    {UNIGRAM("", "[[\"\",-1]]"), ZERO_ERR_DATA, "is empty"},
    {UNIGRAM("\"unk_id\":3,", PIECES), ZERO_ERR_DATA, "none of its ids, 0 to 2"},
    {UNIGRAM("\"unk_id\":\"a\",", PIECES), ZERO_ERR_DATA, "none of its ids"},
    {UNIGRAM("\"libzero\":{},", PIECES), ZERO_ERR_DATA, "no add_dummy_prefix"},
    {UNIGRAM(RULES(""), PIECES), ZERO_ERR_DATA, "no treat_whitespace_as_suffix"},
    {UNIGRAM(RULES(",\"treat_whitespace_as_suffix\":false,\"user_defined\":[3]"), PIECES),
     ZERO_ERR_DATA, "user_defined with rising ids"},
    {UNIGRAM(RULES(",\"treat_whitespace_as_suffix\":false,\"user_defined\":[2,1]"), PIECES),
     ZERO_ERR_DATA, "user_defined with rising ids"},
    {NORMALIZED("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"a\"}"), ZERO_ERR_DATA,
     "no base64 text"},
    {NORMALIZED("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}"), ZERO_ERR_DATA,
     "precompiled_charsmap of 3 bytes"},
    {NORMALIZED("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" +\"},\"content\":\"\"}"),
     ZERO_ERR_UNSUPPORTED, "\"Regex\":\" +\""},
    {NORMALIZED("{\"type\":\"Strip\",\"strip_left\":1}"), ZERO_ERR_UNSUPPORTED, "Strip"},
    {NORMALIZED("{\"type\":\"NFKC\"}"), ZERO_ERR_UNSUPPORTED, "the normalizer {\"type\":\"NFKC\"}"},
};

static void what_a_file_may_not_say(void **state)
{
    for (int i = 0; i < ZR_COUNT(refusals); i++) {
        zr_tokenizer *tokenizer;
        zero_error error = {0};
        scratch_write(*state, "tokenizer.json", refusals[i].json);
        zero_status status = zr_tokenizer_load(((scratch *)*state)->directory, &tokenizer, &error);
        if (status != refusals[i].status || !strstr(error.message, refusals[i].says) ||
            !strstr(error.message, "tokenizer.json"))
            fail_msg("%s gave %s: %s", refusals[i].json, zero_status_name(status), error.message);
        assert_null(tokenizer);
    }
}

static void a_character_without_a_token_is_named(void **state)
{
    zr_ids ids = {0};
    zero_error error = {0};
    scratch_write(*state, "tokenizer.json", UNIGRAM("", PIECES));
    zr_tokenizer *tokenizer = load(((scratch *)*state)->directory);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "abba", 4, "text", &ids, &error), ZERO_OK);
    assert_int_equal(ids.count, 4);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "abc", 3, "text", &ids, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "text: the tokenizer has no token for \"c\"");
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
}

// An unknown character scores 10 less than the worst piece, "z": it is worth more than one bad
// piece and less than two. SentencePiece's rules have a worst piece of their own, without symbols.
static void an_unknown_character_scores_ten_less_than_the_worst(void **state)
{
#define SCORED                                                                                     \
    "[[\"<unk>\",0],[\"z\",-10],[\"ab\",-8],[\"cd\",-8],[\"bcd\",-1],[\"e\",-8],[\"f\",-8],["      \
    "\"bef\",-1]]"
    static const char *const models[] = {
        UNIGRAM("\"unk_id\":0,", SCORED),
        UNIGRAM("\"unk_id\":0,\"libzero\":{\"add_dummy_prefix\":false,"
                "\"remove_extra_whitespaces\":false,\"escape_whitespaces\":true,"
                "\"treat_whitespace_as_suffix\":false,\"user_defined\":[]},",
                SCORED)};
    for (int i = 0; i < ZR_COUNT(models); i++) {
        zr_ids ids = {0};
        scratch_write(*state, "tokenizer.json", models[i]);
        zr_tokenizer *tokenizer = load(((scratch *)*state)->directory);
        assert_int_equal(zr_tokenizer_encode(tokenizer, "abcd", 4, "text", &ids, NULL), ZERO_OK);
        assert_int_equal(zr_tokenizer_encode(tokenizer, "abef", 4, "text", &ids, NULL), ZERO_OK);
        assert_int_equal(ids.count, 4);
        assert_memory_equal(ids.at, ((int32_t[]){2, 3, 0, 7}), sizeof(int32_t[4]));
        zr_ids_free(&ids);
        zr_tokenizer_destroy(tokenizer);
    }
}

// The expressions that exports have for SentencePiece's rules, as `tokenizers` applies them.
static void runs_of_spaces_are_replaced(void **state)
{
    static const struct {
        const char *expression, *content, *text, *made;
    } all[] = {
        {" {2,}", "_", "  a a   a ", "_a a_a "},
        {"\\\\A +", "", "  a  a ", "a  a "},
        {" +\\\\z", "", "  a  a  ", "  a  a"},
        {" +\\\\z", "x", "  a  a", "  a  a"},
        {"\xe2\x96\x81+\\\\z", "",
         "\xe2\x96\x81"
         "a\xe2\x96\x81\xe2\x96\x81",
         "\xe2\x96\x81"
         "a"},
        {"\\\\z", "x", "a a", "a ax"},
    };
    for (int i = 0; i < ZR_COUNT(all); i++) {
        zr_ids ids[2] = {{0}};
        char json[600];
        for (int made = 0; made < 2; made++) {
            const char *text = made ? all[i].made : all[i].text;
            snprintf(
                json, sizeof json,
                "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"%s\":\"%s\"},\"content\":"
                "\"%s\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],"
                "[\"a\",-1],[\" \",-1],[\"\xe2\x96\x81\",-1],[\"x\",-1],[\"_\",-1]]}}",
                made ? "String" : "Regex", made ? "none" : all[i].expression, all[i].content);
            scratch_write(*state, "tokenizer.json", json);
            zr_tokenizer *tokenizer = load(((scratch *)*state)->directory);
            assert_int_equal(
                zr_tokenizer_encode(tokenizer, text, strlen(text), "text", &ids[made], NULL),
                ZERO_OK);
            zr_tokenizer_destroy(tokenizer);
        }
        assert_int_equal(ids[0].count, ids[1].count);
        assert_memory_equal(ids[0].at, ids[1].at, (size_t)ids[0].count * sizeof *ids[0].at);
        zr_ids_free(&ids[0]);
        zr_ids_free(&ids[1]);
    }
}

// Special tokens are no pieces, neither in data nor where the normalizer makes their spelling.
static void special_tokens_are_not_pieces(void **state)
{
    zr_ids ids = {0};
    scratch_write(*state, "tokenizer.json",
                  "{\"added_tokens\":[{\"id\":3,\"content\":\"ab\",\"special\":true}],"
                  "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":"
                  "\"ab\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],"
                  "[\"a\",-1.5],[\"b\",-2],[\"ab\",0]]}}");
    zr_tokenizer *tokenizer = load(((scratch *)*state)->directory);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "abx", 3, "text", &ids, NULL), ZERO_OK);
    assert_int_equal(ids.count, 4);
    assert_memory_equal(ids.at, ((int32_t[]){1, 2, 1, 2}), sizeof(int32_t[4]));
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
}

static void no_memory_is_an_error(void **state)
{
    static const char text[] = "king \xef\xac\x81  speak\xe3\x80\x80=====";
    zero_status status = ZERO_ERR_MEMORY;
    for (int64_t nth = 1; status != ZERO_OK; nth++) {
        zr_tokenizer *tokenizer = NULL;
        zr_ids ids = {0};
        zr_alloc_fail_at(nth);
        status =
            zr_tokenizer_load(TOKENIZERS "/../sentencepiece/uni-table.model", &tokenizer, NULL);
        if (status == ZERO_OK)
            status = zr_tokenizer_encode(tokenizer, text, sizeof text - 1, "text", &ids, NULL);
        zr_alloc_fail_at(0);
        assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        assert_true(nth < 10000);
        zr_ids_free(&ids);
        zr_tokenizer_destroy(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_text_is_added_in_fp32),
        cmocka_unit_test(a_longer_text_has_the_same_ids_in_parts),
        cmocka_unit_test(a_charsmap_of_anything_stays_inside),
        cmocka_unit_test_setup_teardown(what_a_file_may_not_say, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(a_character_without_a_token_is_named, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(an_unknown_character_scores_ten_less_than_the_worst,
                                        scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(runs_of_spaces_are_replaced, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(special_tokens_are_not_pieces, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
