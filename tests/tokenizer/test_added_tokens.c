// Added tokens are found where the `tokenizers` library finds them, leftmost and then longest,
// however many there are.
#include "../base/scratch_directory.h"

#include "base/random.h"
#include "tokenizer/bpe_encode.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>

// A tokenizer of "a" and "b" with added tokens of these contents, their ids from 2 on.
static zr_tokenizer *load(scratch *dir, char *const *contents, int count)
{
    zr_buffer json = {0};
    zr_tokenizer *tokenizer = NULL;
    zero_error error = {0};
    zr_buffer_printf(&json, "{\"added_tokens\":[");
    for (int i = 0; i < count; i++)
        zr_buffer_printf(&json,
                         "%s{\"id\":%d,\"content\":\"%s\",\"special\":false,\"normalized\":%s}",
                         i ? "," : "", i + 2, contents[i], i % 3 ? "false" : "true");
    zr_buffer_printf(&json,
                     "],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}");
    assert_false(json.failed);
    scratch_write(dir, "tokenizer.json", json.data);
    zr_buffer_free(&json);
    if (zr_tokenizer_load(dir->directory, &tokenizer, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return tokenizer;
}

// As it is defined: every token at every place.
static int expected_at(char *const *contents, int count, bool normalized, const char *text,
                       size_t length, size_t from, size_t *at)
{
    int best = -1;
    for (*at = from; *at < length && best < 0; *at += best < 0)
        for (int i = 0; i < count; i++) {
            size_t width = strlen(contents[i]);
            bool fits = (i % 3 == 0) == normalized && width <= length - *at &&
                        !memcmp(text + *at, contents[i], width);
            best = fits && (best < 0 || width > strlen(contents[best])) ? i : best;
        }
    return best;
}

static void the_longest_of_the_leftmost(void **state)
{
    uint64_t drawn = 0;
    for (int round = 0; round < 40; round++) {
        char *contents[24], text[200];
        int count = 0;
        // of three letters, so that many begin and overlap alike; none twice
        while (count < ZR_COUNT(contents)) {
            char one[8];
            int length = 2 + (int)(zr_philox4x32(3, 0, drawn++).v[0] % 5), twice = 0;
            for (int i = 0; i <= length; i++)
                one[i] = i < length ? "abc"[zr_philox4x32(3, 0, drawn++).v[0] % 3] : 0;
            for (int i = 0; i < count; i++)
                twice |= !strcmp(contents[i], one);
            if (!twice)
                contents[count++] = zr_strdup(one, NULL);
        }
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = "abc"[zr_philox4x32(3, 0, drawn++).v[0] % 3];
        zr_tokenizer *tokenizer = load(*state, contents, count);
        for (int normalized = 0; normalized < 2; normalized++)
            for (size_t from = 0; from < sizeof text; from += 3) {
                size_t at, wanted;
                int best =
                    expected_at(contents, count, normalized, text, sizeof text, from, &wanted);
                const zr_added_token *found =
                    zr_added_find(tokenizer->bpe, normalized, text, from, sizeof text, &at);
                assert_int_equal(found ? found->id - 2 : -1, best);
                assert_true(!found || at == wanted);
            }
        zr_tokenizer_destroy(tokenizer);
        for (int i = 0; i < count; i++)
            zr_free(contents[i]);
    }
}

// 20,000 tokens that begin alike, in a text where each place could be one: looking at each of them
// at each place would outlast the test.
static void many_tokens_cost_no_more_than_few(void **state)
{
    enum { MANY = 20000, LENGTH = 1 << 20 };
    char **contents = zr_alloc(MANY * sizeof *contents, NULL), *text = zr_alloc(LENGTH + 1, NULL);
    size_t at;
    for (int i = 0; i < MANY; i++)
        contents[i] = zr_sprintf(NULL, "<<unused%05d>>", i);
    memset(text, '<', LENGTH);
    zr_tokenizer *tokenizer = load(*state, contents, MANY);
    assert_null(zr_added_find(tokenizer->bpe, false, text, 0, LENGTH, &at));
    // not normalised, as 19,999 is no multiple of 3
    memcpy(text + LENGTH - 20, contents[MANY - 1], strlen(contents[MANY - 1]));
    const zr_added_token *found = zr_added_find(tokenizer->bpe, false, text, 0, LENGTH, &at);
    assert_non_null(found);
    assert_int_equal(found->id, MANY + 1);
    assert_int_equal(at, LENGTH - 20);
    zr_tokenizer_destroy(tokenizer);
    for (int i = 0; i < MANY; i++)
        zr_free(contents[i]);
    zr_free(contents);
    zr_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_longest_of_the_leftmost, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(many_tokens_cost_no_more_than_few, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
