// BPE tokenizers compared with what Hugging Face's `tokenizers` made of the same files
// (tests/oracle/tokenizer_golden.py): ids with and without special tokens, and text from ids as a
// stream; parts of a text; long pieces; and what a file may not say.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"

#include "base/json.h"
#include "tokenizer/tokenizer.h"

static const char *const families[] = {
    "llama3",        "qwen2",         "smollm2", "llama2",  "llama2-first", "llama2-always",
    "unknown-fused", "unknown-apart", "odd",     "odd-nfc", "odd-llama2"};

static void load_family(const char *name, zr_tokenizer **tokenizer, json_t **cases)
{
    char path[512];
    zero_error error = {0};
    snprintf(path, sizeof path, "%s/%s.json", TOKENIZERS, name);
    if (zr_tokenizer_load(path, tokenizer, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    snprintf(path, sizeof path, "%s/%s.cases", TOKENIZERS, name);
    if (cases && zr_json_load(path, 1 << 24, cases, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

// In parts of about `part` bytes; 0: at once.
static zr_ids encode(const zr_tokenizer *tokenizer, zr_encode_mode mode, const char *text,
                     size_t length, size_t part)
{
    zr_encoder *encoder;
    zr_ids ids = {0};
    zero_error error = {0};
    assert_int_equal(zr_encoder_create(tokenizer, &encoder, NULL), ZERO_OK);
    for (size_t at = 0, end; at < length; at = end) {
        end = part ? zr_tokenizer_cut(tokenizer, text, at, ZR_MIN(length, at + part), length)
                   : length;
        assert_true(end > at);
        if (zr_encoder_append(encoder, mode, text, at, end, "text", &ids, &error) != ZERO_OK)
            fail_msg("%s", error.message);
    }
    zr_encoder_destroy(encoder);
    return ids;
}

static void assert_same(const char *family, const char *text, const zr_ids *ids,
                        const json_t *expected)
{
    bool same = (size_t)ids->count == json_array_size(expected);
    for (int64_t i = 0; i < ids->count && same; i++)
        same = ids->at[i] == json_integer_value(json_array_get(expected, (size_t)i));
    if (!same)
        fail_msg("%s: other ids for \"%s\"", family, text);
}

static zr_buffer decode(const zr_tokenizer *tokenizer, const zr_ids *ids, bool skip)
{
    zr_decoder decoder;
    zr_buffer text = {0};
    zr_buffer_append(&text, "", 0);
    zr_decoder_begin(&decoder, tokenizer, skip);
    for (int64_t i = 0; i < ids->count; i++)
        zr_decoder_push(&decoder, ids->at[i], &text);
    zr_decoder_end(&decoder, &text);
    return text;
}

static void check_case(const char *family, const zr_tokenizer *tokenizer, const json_t *row)
{
    const char *text = json_string_value(json_array_get(row, 0));
    static const size_t parts[] = {0, 1, 9};
    for (int p = 0; p < ZR_COUNT(parts); p++) {
        for (int mode = ZR_ENCODE_TEXT; mode <= ZR_ENCODE_SPECIAL; mode++) {
            zr_ids ids = encode(tokenizer, (zr_encode_mode)mode, text, strlen(text), parts[p]);
            assert_same(family, text, &ids, json_array_get(row, 1 + (size_t)mode));
            zr_ids_free(&ids);
        }
    }
    zr_ids ids = encode(tokenizer, ZR_ENCODE_SPECIAL, text, strlen(text), 0);
    for (int skip = 0; skip < 2; skip++) {
        zr_buffer back = decode(tokenizer, &ids, skip);
        assert_string_equal(back.data, json_string_value(json_array_get(row, 3 + (size_t)skip)));
        zr_buffer_free(&back);
    }
    zr_ids_free(&ids);
}

static void the_library_has_the_same_ids_and_text(void **state)
{
    for (int f = 0; f < ZR_COUNT(families); f++) {
        zr_tokenizer *tokenizer;
        json_t *cases;
        load_family(families[f], &tokenizer, &cases);
        assert_true(json_array_size(cases) > 60);
        assert_int_equal(zr_tokenizer_is_qwen2(tokenizer),
                         !strcmp(families[f], "qwen2") || !strcmp(families[f], "odd-nfc"));
        for (size_t i = 0; i < json_array_size(cases); i++)
            check_case(families[f], tokenizer, json_array_get(cases, i));
        json_decref(cases);
        zr_tokenizer_destroy(tokenizer);
    }
}

static void texts_longer_than_any_part(void **state)
{
    enum { LENGTH = 60000 };
    static const char *const words[] = {
        "king", " the", " Speak", "\n",           "\n\n",
        "  ",   "'ll",  " 12345", "\xc3\xa9",     " \xe4\xb8\xad\xe6\x96\x87",
        ", ",   "<r>",  " <lr> ", "<|endoftext|>"};
    char *text = malloc(LENGTH + 32);
    size_t length = 0;
    for (uint32_t random = 1; length < LENGTH; random = random * 1664525 + 1013904223)
        length += (size_t)sprintf(text + length, "%s", words[(random >> 16) % ZR_COUNT(words)]);
    for (int f = 0; f < ZR_COUNT(families); f++) {
        zr_tokenizer *tokenizer;
        load_family(families[f], &tokenizer, NULL);
        for (int mode = ZR_ENCODE_TEXT; mode <= ZR_ENCODE_SPECIAL; mode++) {
            zr_ids whole = encode(tokenizer, (zr_encode_mode)mode, text, length, 0),
                   parts = encode(tokenizer, (zr_encode_mode)mode, text, length, 100);
            for (int64_t i = 0; i < ZR_MIN(whole.count, parts.count); i++)
                if (whole.at[i] != parts.at[i])
                    fail_msg("%s: token %lld of mode %d is %d in the whole, %d in parts",
                             families[f], (long long)i, mode, whole.at[i], parts.at[i]);
            assert_int_equal(whole.count, parts.count);
            zr_ids_free(&whole);
            zr_ids_free(&parts);
        }
        zr_tokenizer_destroy(tokenizer);
    }
    free(text);
}

enum { LONG = 300, LONGEST_TOKEN = 32 };

// The rank of the merge of two tokens, -1: there is none.
static int rank_of(const json_t *merges, const char *left, const char *right)
{
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *pair = json_array_get(merges, i);
        if (strcmp(json_string_value(json_array_get(pair, 0)), left) == 0 &&
            strcmp(json_string_value(json_array_get(pair, 1)), right) == 0)
            return (int)i;
    }
    return -1;
}

// Merges as the definition says: of all neighbours the pair of lowest rank, of equal ones the
// leftmost, until there is none.
static int merge_slowly(const json_t *merges, char tokens[][LONGEST_TOKEN], int count)
{
    for (;;) {
        int best = -1, best_rank = INT32_MAX;
        for (int i = 0; i + 1 < count; i++) {
            int rank = rank_of(merges, tokens[i], tokens[i + 1]);
            if (rank >= 0 && rank < best_rank) {
                best = i;
                best_rank = rank;
            }
        }
        if (best < 0)
            return count;
        size_t left = strlen(tokens[best]), right = strlen(tokens[best + 1]);
        assert_true(left + right < LONGEST_TOKEN);
        memcpy(tokens[best] + left, tokens[best + 1], right + 1);
        memmove(tokens[best + 1], tokens[best + 2], (size_t)(count - best - 2) * LONGEST_TOKEN);
        count--;
    }
}

// Long pieces go another way than short ones: both give what slow merging gives.
static void pieces_of_every_length_merge_alike(void **state)
{
    static const int lengths[] = {2, 5, 17, 38, 39, 40, 41, 42, 60, 150, LONG};
    zr_tokenizer *tokenizer;
    json_t *root;
    uint32_t random = 7;
    load_family("llama3", &tokenizer, NULL);
    assert_int_equal(zr_json_load(TOKENIZERS "/llama3.json", 1 << 20, &root, NULL), ZERO_OK);
    const json_t *merges = json_object_get(json_object_get(root, "model"), "merges");
    for (int n = 0; n < 4 * ZR_COUNT(lengths); n++) {
        char text[LONG + 1] = "", tokens[LONG][LONGEST_TOKEN] = {{0}};
        int length = lengths[n % ZR_COUNT(lengths)];
        for (int i = 0; i < length; i++, random = random * 1664525 + 1013904223)
            tokens[i][0] = text[i] = "speakhrthew"[(random >> 20) % 11];
        int count = merge_slowly(merges, tokens, length);
        zr_ids ids = encode(tokenizer, ZR_ENCODE_TEXT, text, (size_t)length, 0);
        assert_int_equal(ids.count, count);
        for (int i = 0; i < count; i++) {
            zr_buffer token = {0};
            zr_tokenizer_decode(tokenizer, ids.at[i], &token);
            assert_string_equal(token.data, tokens[i]);
            zr_buffer_free(&token);
        }
        zr_ids_free(&ids);
    }
    json_decref(root);
    zr_tokenizer_destroy(tokenizer);
}

static void bytes_that_are_no_text(void **state)
{
    char all[512];
    uint32_t random = 3;
    for (int f = 0; f < ZR_COUNT(families); f++) {
        zr_tokenizer *tokenizer;
        load_family(families[f], &tokenizer, NULL);
        for (int round = 0; round < 50; round++) {
            zr_buffer raw = {0};
            for (size_t i = 0; i < sizeof all; i++, random = random * 1664525 + 1013904223)
                all[i] = (char)(random >> 23);
            zr_ids ids = encode(tokenizer, ZR_ENCODE_TEXT, all, sizeof all, 0),
                   parts = encode(tokenizer, ZR_ENCODE_TEXT, all, sizeof all, 40);
            assert_int_equal(ids.count, parts.count);
            assert_memory_equal(ids.at, parts.at, (size_t)ids.count * sizeof *ids.at);
            for (int64_t i = 0; i < ids.count; i++)
                zr_tokenizer_decode(tokenizer, ids.at[i], &raw);
            if (f == 0 || f == 2) { // no normalizer: what goes in comes out
                assert_int_equal(raw.length, sizeof all);
                assert_memory_equal(raw.data, all, sizeof all);
            }
            zr_buffer_free(&raw);
            zr_ids_free(&ids);
            zr_ids_free(&parts);
        }
        zr_tokenizer_destroy(tokenizer);
    }
}

static void what_ends_and_begins_a_text(void **state)
{
    zr_tokenizer *tokenizer;
    const int32_t *before, *after;
    int before_count, after_count;
    int32_t id;
    load_family("llama2", &tokenizer, NULL);
    assert_int_equal(zr_tokenizer_end(tokenizer), 2); // </s>
    zr_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count);
    assert_true(before_count == 1 && before[0] == 1 && after_count == 0);
    assert_true(zr_tokenizer_find(tokenizer, "<s>", &id) && id == 1 &&
                zr_tokenizer_is_special(tokenizer, 1));
    assert_false(zr_tokenizer_is_special(tokenizer, 100));
    assert_false(zr_tokenizer_find(tokenizer, "<|im_start|>", &id));
    assert_string_equal(zr_tokenizer_name(tokenizer), "BPE");
    zr_tokenizer_destroy(tokenizer);
    load_family("llama3", &tokenizer, NULL);
    assert_true(zr_tokenizer_find(tokenizer, "<|begin_of_text|>", &id));
    zr_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count);
    assert_true(before_count == 1 && before[0] == id);
    assert_true(zr_tokenizer_find(tokenizer, "<|endoftext|>", &id));
    assert_int_equal(zr_tokenizer_end(tokenizer), id);
    assert_string_equal(zr_tokenizer_name(tokenizer), "byte-level BPE");
    zr_tokenizer_destroy(tokenizer);
}

// What may become a character is held back, and nothing that was given out is invalid.
static void a_stream_is_valid_at_every_moment(void **state)
{
    static const char text[] = "a\xf0\x9f\x98\x80\xe4\xb8\xad z";
    static const char *const of[] = {"qwen2", "llama2"};
    for (int f = 0; f < ZR_COUNT(of); f++) {
        zr_tokenizer *tokenizer;
        zr_decoder decoder;
        zr_buffer out = {0};
        load_family(of[f], &tokenizer, NULL);
        zr_ids ids = encode(tokenizer, ZR_ENCODE_TEXT, text, sizeof text - 1, 0);
        zr_decoder_begin(&decoder, tokenizer, false);
        for (int64_t i = 0; i < ids.count; i++) {
            zr_decoder_push(&decoder, ids.at[i], &out);
            for (size_t at = 0; at < out.length;) { // whole characters only
                unsigned char lead = (unsigned char)out.data[at];
                at += lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : 3;
                assert_true(at <= out.length);
            }
        }
        zr_decoder_end(&decoder, &out);
        assert_string_equal(out.data, text);
        out.length = 0;
        zr_decoder_push(&decoder, ids.at[0], &out);
        for (int64_t i = 0; i < 3; i++) // begun and never ended
            zr_decoder_push(&decoder, ids.at[f ? 2 : 1], &out);
        zr_decoder_end(&decoder, &out);
        assert_contains(out.data, "\xef\xbf\xbd");
        zr_buffer_free(&out);
        zr_ids_free(&ids);
        zr_tokenizer_destroy(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_has_the_same_ids_and_text),
        cmocka_unit_test(texts_longer_than_any_part),
        cmocka_unit_test(pieces_of_every_length_merge_alike),
        cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(what_ends_and_begins_a_text),
        cmocka_unit_test(a_stream_is_valid_at_every_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
