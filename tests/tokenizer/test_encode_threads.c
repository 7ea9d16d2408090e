// A crew of threads: it gives the same ids as one thread, and signs of life during a long part.
#include "../base/scratch_directory.h"

#include "tokenizer/tokenizer.h"

static zero_status collect(void *user, const int32_t *ids, int64_t count, zero_error *error)
{
    for (int64_t i = 0; i < count; i++)
        zr_ids_append(user, ids[i]);
    return ZERO_OK;
}

static int signs; // of life, before anything is encoded

static void count_sign(void *user, size_t bytes) { signs += bytes == 0; }

// A text that cannot be cut is one part: while it is encoded, others hear of it. By one thread, in
// which nobody else would speak.
static void a_long_part_gives_signs_of_life(void **state)
{
    enum { LENGTH = 16 << 20 };
    scratch *dir = *state;
    char *text = malloc(LENGTH);
    zr_tokenizer *tokenizer;
    zr_encode_threads *crew;
    zr_ids made = {0};
    zero_error error = {0};
    scratch_write(
        dir, "tokenizer.json",
        "{\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":true},\"model\":{\"type\":"
        "\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"1\":3},\"merges\":[\"a b\"]}}");
    for (size_t i = 0; i < LENGTH; i++)
        text[i] = "aab1"[i % 4];
    assert_int_equal(zr_tokenizer_load(dir->path, &tokenizer, NULL), ZERO_OK);
    assert_int_equal(zr_encode_threads_create(tokenizer, 1, &crew, NULL), ZERO_OK);
    signs = 0;
    assert_int_equal(zr_encode_threads_run(crew, ZR_ENCODE_TEXT, text, LENGTH, "text", collect,
                                           count_sign, &made, &error),
                     ZERO_OK);
    assert_int_equal(made.count, LENGTH / 4 * 3);
    assert_true(signs > 0);
    zr_ids_free(&made);
    zr_encode_threads_destroy(crew);
    zr_tokenizer_destroy(tokenizer);
    free(text);
}

static void a_crew_gives_the_ids_of_one(void **state)
{
    enum { LENGTH = 5 << 20 };
    static const char *const words[] = {"king", " the", " Speak", "\n",       "\n\n",
                                        "  ",   "'ll",  " 12345", "\xc3\xa9", " \xe4\xb8\xad",
                                        ", "};
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
        zr_encode_threads *crew;
        assert_int_equal(zr_encode_threads_create(tokenizer, 1 + 2 * i, &crew, NULL), ZERO_OK);
        assert_int_equal(zr_encode_threads_run(crew, ZR_ENCODE_TEXT, text, length, "text", collect,
                                               NULL, &made[i], &error),
                         ZERO_OK);
        zr_encode_threads_destroy(crew);
    }
    assert_int_equal(made[0].count, made[1].count);
    assert_memory_equal(made[0].at, made[1].at, (size_t)made[0].count * sizeof(int32_t));
    zr_ids_free(&made[0]);
    zr_ids_free(&made[1]);
    zr_tokenizer_destroy(tokenizer);
    free(text);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        CASE(a_long_part_gives_signs_of_life),
        CASE(a_crew_gives_the_ids_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
