// Tokenizers as llama.cpp's lists of tokens: what is made of a list again has the ids of the
// tokenizer, and one that no list can be is refused with the reason.
#include "../base/scratch_directory.h"

#include "base/json.h"
#include "tokenizer/bpe.h"
#include "tokenizer/token_list.h"

enum { IDS = 1000 };

static zr_tokenizer *load(const char *path)
{
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    if (zr_tokenizer_load(path, &tokenizer, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return tokenizer;
}

static zr_tokenizer *load_family(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.json", TOKENIZERS, name);
    return load(path);
}

// Writes the list as files and loads them.
static zr_tokenizer *reload(scratch *made, const zr_token_list *list)
{
    zr_buffer json = {0}, config = {0};
    zero_error error = {0};
    if (zr_token_list_json(list, "list", &json, &config, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    scratch_write(made, "tokenizer.json", json.data);
    scratch_write(made, "tokenizer_config.json", config.data);
    zr_buffer_free(&json);
    zr_buffer_free(&config);
    return load(made->directory);
}

static void assert_same_ids(const zr_tokenizer *a, const zr_tokenizer *b, const char *text)
{
    zr_ids ids[2] = {{0}};
    zero_error error = {0};
    const zr_tokenizer *both[] = {a, b};
    for (int i = 0; i < 2; i++)
        if (zr_tokenizer_encode(both[i], text, strlen(text), "text", &ids[i], &error) != ZERO_OK)
            fail_msg("%s", error.message);
    assert_int_equal(ids[0].count, ids[1].count);
    if (ids[0].count)
        assert_memory_equal(ids[0].at, ids[1].at, (size_t)ids[0].count * sizeof(int32_t));
    zr_ids_free(&ids[0]);
    zr_ids_free(&ids[1]);
}

static void assert_same_around(const zr_tokenizer *a, const zr_tokenizer *b)
{
    const int32_t *before[2], *after[2];
    int befores[2], afters[2];
    zr_tokenizer_template(a, &before[0], &befores[0], &after[0], &afters[0]);
    zr_tokenizer_template(b, &before[1], &befores[1], &after[1], &afters[1]);
    assert_int_equal(befores[0], befores[1]);
    assert_int_equal(afters[0], afters[1]);
    for (int i = 0; i < befores[0]; i++)
        assert_int_equal(before[0][i], before[1][i]);
}

// Llama 3's, SmolLM's, Llama 2's: every case that Hugging Face's library was asked.
static void what_comes_back_has_the_same_ids(void **state)
{
    static const struct {
        const char *family, *pre;
        bool cases;
    } all[] = {
        {"llama3", "llama-bpe", true},
        {"smollm2", "smollm", true},
        {"llama2", NULL, true},
        {"qwen2", "qwen2", false}, // without NFC, as in llama.cpp
    };
    for (int f = 0; f < ZR_COUNT(all); f++) {
        zr_tokenizer *tokenizer = load_family(all[f].family), *back;
        char path[512];
        json_t *cases = NULL;
        zr_token_list list;
        zero_error error = {0};
        if (zr_token_list_of(tokenizer, IDS, &list, &error) != ZERO_OK)
            fail_msg("%s: %s", all[f].family, error.message);
        assert_int_equal(list.scored, !all[f].pre);
        if (all[f].pre)
            assert_string_equal(list.pre, all[f].pre);
        assert_int_equal(list.count, IDS);
        assert_int_equal(list.kinds[IDS - 1], ZR_TOKEN_UNUSED);
        back = reload(*state, &list);
        snprintf(path, sizeof path, "%s/%s.cases", TOKENIZERS, all[f].family);
        assert_int_equal(zr_json_load(path, 1 << 24, &cases, NULL), ZERO_OK);
        for (size_t i = 0; i < json_array_size(cases) && all[f].cases; i++)
            assert_same_ids(tokenizer, back,
                            json_string_value(json_array_get(json_array_get(cases, i), 0)));
        assert_same_ids(tokenizer, back, "  We'Ll see 12345 \xf0\x9f\x99\x82 x=y\r\n\n end ");
        assert_same_around(tokenizer, back);
        json_decref(cases);
        zr_token_list_free(&list);
        zr_tokenizer_destroy(tokenizer);
        zr_tokenizer_destroy(back);
    }
}

static void bytes_are_tokens(void **state)
{
    zr_tokenizer *tokenizer, *back;
    zr_token_list list;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_BYTES, "", 0, "bytes", &tokenizer, NULL),
                     ZERO_OK);
    assert_int_equal(zr_token_list_of(tokenizer, 256, &list, NULL), ZERO_OK);
    assert_int_equal(list.end, 0); // the byte that no text has
    assert_int_equal(list.kinds[0], ZR_TOKEN_NORMAL);
    assert_false(list.adds_begin || list.adds_end);
    back = reload(*state, &list);
    assert_same_ids(tokenizer, back, "It's 12 o'clock,\n\n caf\xc3\xa9");
    zr_token_list_free(&list);
    zr_tokenizer_destroy(tokenizer);
    zr_tokenizer_destroy(back);
}

// SentencePiece's: 256 bytes, characters, and words by scores.
static void make_scored(zr_token_list *out, float score_of_pairs)
{
    static const char *const pieces[] = {"\xe2\x96\x81",
                                         "a",
                                         "b",
                                         "c",
                                         "ab",
                                         "bc",
                                         "\xe2\x96\x81"
                                         "ab",
                                         "abc"};
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    const float scores[] = {-9, -9, -9, -9, -1, score_of_pairs, -3, -4};
    int32_t count = 3 + 256 + ZR_COUNT(pieces);
    *out = (zr_token_list){.scored = true,
                           .count = count,
                           .begin = 1,
                           .end = 2,
                           .adds_begin = true,
                           .adds_space = true,
                           .byte_fallback = true};
    out->tokens = zr_alloc((size_t)count * sizeof *out->tokens, NULL);
    out->kinds = zr_alloc((size_t)count * sizeof *out->kinds, NULL);
    out->scores = zr_alloc((size_t)count * sizeof *out->scores, NULL);
    for (int32_t id = 0; id < count; id++) {
        char byte[8];
        int piece = id - 259;
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)(id - 3) & 255);
        const char *text = id < 3 ? special[id] : piece < 0 ? byte : pieces[piece];
        out->tokens[id] = (zr_text_span){(uint32_t)out->text.length, (uint32_t)strlen(text)};
        zr_buffer_append(&out->text, text, strlen(text));
        out->kinds[id] = id == 0     ? ZR_TOKEN_UNKNOWN
                         : id < 3    ? ZR_TOKEN_CONTROL
                         : piece < 0 ? ZR_TOKEN_BYTE
                                     : ZR_TOKEN_NORMAL;
        out->scores[id] = piece < 0 ? 0 : scores[piece];
    }
}

static void scores_become_merges_and_scores_again(void **state)
{
    for (int bc_first = 0; bc_first < 2; bc_first++) {
        zr_token_list list, again;
        zero_error error = {0};
        make_scored(&list, bc_first ? -0.5F : -2);
        zr_tokenizer *tokenizer = reload(*state, &list), *back;
        zr_ids ids = {0};
        assert_int_equal(zr_tokenizer_encode(tokenizer, "abc", 3, "text", &ids, NULL), ZERO_OK);
        // "ab" is merged before "bc", or "bc" before "ab"; then no more with the space
        const int32_t wanted[2][2] = {{3 + 256 + 6, 3 + 256 + 3}, {3 + 256, 3 + 256 + 7}};
        assert_int_equal(ids.count, 2);
        assert_memory_equal(ids.at, wanted[bc_first], sizeof wanted[0]);
        zr_ids_free(&ids);
        if (zr_token_list_of(tokenizer, list.count, &again, &error) != ZERO_OK)
            fail_msg("%s", error.message);
        assert_true(again.scored && again.adds_space && again.adds_begin);
        for (int32_t id = 259; id < list.count; id++)
            for (int32_t other = 259; other < list.count; other++)
                assert_int_equal(list.scores[id] < list.scores[other],
                                 again.scores[id] < again.scores[other]);
        assert_memory_equal(list.kinds, again.kinds, (size_t)list.count * sizeof *list.kinds);
        back = reload(*state, &again);
        assert_same_ids(tokenizer, back, " ab cab \xc3\xa9\n bcabc");
        assert_same_around(tokenizer, back);
        zr_token_list_free(&list);
        zr_token_list_free(&again);
        zr_tokenizer_destroy(tokenizer);
        zr_tokenizer_destroy(back);
    }
}

// Writes the tokenizer of make_scored with another merge in place of one of its.
static zr_tokenizer *load_with_merge(scratch *made, const char *merge, const char *instead)
{
    zr_token_list list;
    zr_buffer json = {0}, config = {0}, changed = {0};
    make_scored(&list, -2);
    assert_int_equal(zr_token_list_json(&list, "list", &json, &config, NULL), ZERO_OK);
    const char *found = strstr(json.data, merge);
    assert_non_null(found);
    zr_buffer_printf(&changed, "%.*s%s%s", (int)(found - json.data), json.data, instead,
                     found + strlen(merge));
    scratch_write(made, "tokenizer.json", changed.data);
    zr_buffer_free(&json);
    zr_buffer_free(&config);
    zr_buffer_free(&changed);
    zr_token_list_free(&list);
    return load(scratch_path(made, "tokenizer.json"));
}

#define SPACE_AB "[\"" ZR_METASPACE "\",\"ab\"]"
#define A_BC "[\"a\",\"bc\"]"
static void merges_without_scores_are_refused(void **state)
{
    static const char *const changes[][3] = {
        {"[\"b\",\"c\"]", "[\"a\",\"b\"]", "no merge of them"}, // "b" and "c" do not merge
        {SPACE_AB ",\n" A_BC, A_BC ",\n" SPACE_AB, "do not follow from scores"}, // "abc" twice
    };
    for (int i = 0; i < ZR_COUNT(changes); i++) {
        zr_token_list list;
        zero_error error = {0};
        zr_tokenizer *tokenizer = load_with_merge(*state, changes[i][0], changes[i][1]);
        assert_int_equal(zr_token_list_of(tokenizer, IDS, &list, &error), ZERO_ERR_UNSUPPORTED);
        assert_contains(error.message, changes[i][2]);
        zr_tokenizer_destroy(tokenizer);
    }
}

static void others_are_refused(void **state)
{
    static const struct {
        const char *family, *why;
    } all[] = {
        {"odd", "ways to cut text"},
        {"unknown-fused", "byte fallback"},
        {"../sentencepiece/fallback", "it is a Unigram model"},
    };
    zr_token_list list;
    zero_error error = {0};
    for (int i = 0; i < ZR_COUNT(all); i++) {
        zr_tokenizer *tokenizer = load_family(all[i].family);
        assert_int_equal(zr_token_list_of(tokenizer, IDS, &list, &error), ZERO_ERR_UNSUPPORTED);
        assert_contains(error.message, all[i].why);
        zr_tokenizer_destroy(tokenizer);
    }
    zr_tokenizer *chars, *llama3 = load_family("llama3");
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_CHARS, "abc", 3, "text", &chars, NULL),
                     ZERO_OK);
    assert_int_equal(zr_token_list_of(chars, 3, &list, &error), ZERO_ERR_UNSUPPORTED);
    assert_contains(error.message, "characters");
    assert_int_equal(zr_token_list_of(llama3, 100, &list, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "100");
    zr_tokenizer_destroy(chars);
    zr_tokenizer_destroy(llama3);
}

// Ids out of range, two tokens of one text, empty ones, merges that are none.
static void lists_are_checked(void **state)
{
    for (int what = 0; what < 5; what++) {
        zr_token_list list;
        zr_buffer json = {0}, config = {0};
        zero_error error = {0};
        make_scored(&list, -2);
        if (what == 0)
            list.end = list.count;
        if (what == 1)
            list.tokens[4] = list.tokens[5];
        if (what == 2)
            list.tokens[7].length = 0;
        if (what == 3)
            list.begin = -1;
        if (what == 4) {
            list.scored = false;
            list.pre = "gpt-2";
            list.merges = zr_alloc(sizeof *list.merges, NULL);
            list.merges[0] = list.tokens[3]; // "<0x00>"
            list.merge_count = 1;
        }
        assert_int_equal(zr_token_list_json(&list, "list", &json, &config, &error), ZERO_ERR_DATA);
        assert_contains(error.message, "list");
        zr_buffer_free(&json);
        zr_buffer_free(&config);
        zr_token_list_free(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_comes_back_has_the_same_ids, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(bytes_are_tokens, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(scores_become_merges_and_scores_again, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(merges_without_scores_are_refused, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(lists_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
