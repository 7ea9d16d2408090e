// Conversations become ids and marks of what is trained on; both as in transformers
// (tests/oracle/chat_ids.py).
#include "base/json.h"
#include "chat/chat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *path = GOLDEN;

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static zr_tokenizer *load(const char *name)
{
    char *file = zr_sprintf(NULL, "%s/%s.json", TOKENIZERS, name);
    zr_tokenizer *tokenizer;
    assert_int_equal(zr_tokenizer_load(file, &tokenizer, NULL), ZERO_OK);
    zr_free(file);
    return tokenizer;
}

// With `cut`, the text is cut at the marks that are tokens, as in a training; the ids must not
// depend on it.
static void make_chat(const json_t *row, const zr_tokenizer *tokenizer, bool cut, zr_chat *chat)
{
    assert_int_equal(zr_chat_load(NULL, text_of(row, "format"), NULL, chat, NULL), ZERO_OK);
    json_object_del(chat->tokens, "bos_token");
    if (*text_of(row, "bos"))
        json_object_set(chat->tokens, "bos_token", json_object_get(row, "bos"));
    json_object_set(chat->tokens, "eos_token", json_object_get(row, "eos"));
    // The small Llama 3 tokenizer lacks some of the marks.
    if (!cut || !strcmp(text_of(row, "format"), "llama3"))
        return;
    zero_error error = {0};
    if (zr_chat_check_marks(chat, text_of(row, "format"), tokenizer, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_true(chat->mark_count > 0);
}

static void check_row(const json_t *row, size_t number, const zr_tokenizer *tokenizer, bool cut)
{
    zr_chat chat;
    zr_document document = {0};
    zr_encoding encoding;
    const json_t *ids = json_object_get(row, "ids");
    const char *mask = text_of(row, "mask");
    make_chat(row, tokenizer, cut, &chat);
    assert_int_equal(zr_chat_render(&chat,
                                    &(zr_conversation){.messages = json_object_get(row, "messages"),
                                                       .name = "row"},
                                    &document, NULL),
                     ZERO_OK);
    assert_int_equal(zr_encoding_begin(tokenizer, &encoding, NULL), ZERO_OK);
    assert_int_equal(zr_encoding_add(&encoding, &document, "row", NULL), ZERO_OK);
    for (int64_t i = 0; i < encoding.ids.count && i < (int64_t)json_array_size(ids); i++) {
        int32_t id = encoding.ids.at[i],
                expected = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
        if ((id < 0 ? ~id : id) != expected || (id >= 0) != (mask[i] == '1'))
            fail_msg("row %zu (%s, %s), token %lld: id %d%s, where transformers has %d%s", number,
                     text_of(row, "tokenizer"), text_of(row, "format"), (long long)i,
                     id < 0 ? ~id : id, id < 0 ? " of the prompt" : "", expected,
                     mask[i] == '1' ? "" : " of the prompt");
    }
    assert_int_equal(encoding.ids.count, json_array_size(ids));
    zr_encoding_free(&encoding);
    zr_document_free(&document);
    zr_chat_free(&chat);
}

static void test_ids_and_masks(void **state)
{
    json_t *rows, *row;
    size_t i;
    const char *name = "";
    zr_tokenizer *tokenizer = NULL;
    assert_int_equal(zr_json_load(path, 256 << 20, &rows, NULL), ZERO_OK);
    assert_true(json_array_size(rows) >= 50);
    json_array_foreach(rows, i, row)
    {
        if (strcmp(name, text_of(row, "tokenizer"))) {
            zr_tokenizer_destroy(tokenizer);
            tokenizer = load(name = text_of(row, "tokenizer"));
        }
        check_row(row, i, tokenizer, false);
        check_row(row, i, tokenizer, true);
    }
    zr_tokenizer_destroy(tokenizer);
    json_decref(rows);
}

// "he" is one token. A part of it is trained, so all of it is.
static void test_tokens_across_a_border(void **state)
{
    zr_tokenizer *tokenizer = load("qwen2");
    int32_t he, x;
    assert_true(zr_tokenizer_find(tokenizer, "he", &he));
    assert_true(zr_tokenizer_find(tokenizer, "x", &x));
    for (int trained_first = 0; trained_first < 2; trained_first++) {
        zr_document document = {0};
        zr_encoding encoding;
        zr_document_add(&document, "xh", 2, trained_first);
        zr_document_add(&document, "ex", 2, !trained_first);
        assert_int_equal(zr_encoding_begin(tokenizer, &encoding, NULL), ZERO_OK);
        assert_int_equal(zr_encoding_add(&encoding, &document, "he", NULL), ZERO_OK);
        assert_int_equal(encoding.ids.count, 3);
        assert_int_equal(encoding.ids.at[0], trained_first ? x : ~x);
        assert_int_equal(encoding.ids.at[1], he);
        assert_int_equal(encoding.ids.at[2], trained_first ? ~x : x);
        zr_encoding_free(&encoding);
        zr_document_free(&document);
    }
    zr_tokenizer_destroy(tokenizer);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids_and_masks),
                                       cmocka_unit_test(test_tokens_across_a_border)};
    path = argc > 1 ? argv[1] : path;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
