// Which tokens of a document are targets if merges reach across the end of a prompt.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"

#include "tokenizer/document.h"

// "bc" merges before "ab": "abc" is a, bc, while "ab" alone is ab. With SentencePiece's spaces, and
// as bytes.
#define MODEL(rest, space)                                                                         \
    "{" rest                                                                                       \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"" space    \
    "\":5,\"" space "ab\":6,\"" space "a\":7},"                                                    \
    "\"merges\":[\"b c\",\"a b\",\"" space " ab\",\"" space " a\"]}}"
static const char *const tokenizers[] = {
    MODEL("\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
          ",\"decoder\":{\"type\":\"ByteLevel\"},",
          "\xc4\xa0"),
    MODEL("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
          "\"prepend\":\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
          "\"},\"content\":\"\xe2\x96\x81\"}]},"
          "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
          "\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},{\"type\":\"Fuse\"}]},",
          "\xe2\x96\x81"),
};

// `parts`: text, "[" and "]" around what is trained on. `expected`: the tokens, each followed by |
// and those that are targets in [].
static void check(const zr_tokenizer *tokenizer, const char *parts, const char *expected)
{
    zr_document document = {0};
    zr_encoding encoding;
    zr_buffer got = {0};
    for (const char *at = parts; *at;) {
        bool trained = *at == '[';
        size_t length = strcspn(at + trained, "[]");
        zr_document_add(&document, at + trained, length, trained);
        at += length + 2 * trained;
    }
    assert_int_equal(zr_encoding_begin(tokenizer, &encoding, NULL), ZERO_OK);
    assert_int_equal(zr_encoding_add(&encoding, &document, "text", NULL), ZERO_OK);
    for (int64_t i = 0; i < encoding.ids.count; i++) {
        int32_t id = encoding.ids.at[i];
        zr_buffer_printf(&got, id < 0 ? "" : "[");
        zr_tokenizer_decode(tokenizer, id < 0 ? ~id : id, &got);
        zr_buffer_printf(&got, id < 0 ? "|" : "]");
    }
    assert_string_equal(got.data, expected);
    zr_buffer_free(&got);
    zr_encoding_free(&encoding);
    zr_document_free(&document);
}

static void tokens_of_a_prompt_alone_are_no_targets(void **state)
{
    scratch *dir = *state;
    for (int i = 0; i < ZR_COUNT(tokenizers); i++) {
        zr_tokenizer *tokenizer;
        zero_error error = {0};
        scratch_write(dir, "tokenizer.json", tokenizers[i]);
        if (zr_tokenizer_load(dir->path, &tokenizer, &error) != ZERO_OK)
            fail_msg("%s", error.message);
        // alone the prompt is " ab"; " a" lies in it, "bc" across its end
        check(tokenizer, i ? "ab[c]" : " ab[c]", " a|[bc]");
        check(tokenizer, i ? "ab[ab]" : " ab[ab]", " ab|[ab]");
        // what lies across belongs to what is trained on
        check(tokenizer, i ? "[ab]c" : "[ ab]c", "[ a][bc]");
        check(tokenizer, i ? "a[b]c[bc]" : " a[b]c[bc]", " a|[bc][bc]");
        check(tokenizer, i ? "ab ab[c]b" : " ab ab[c]b", " ab| a|[bc]b|");
        zr_tokenizer_destroy(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        tokens_of_a_prompt_alone_are_no_targets, scratch_open, scratch_close)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
