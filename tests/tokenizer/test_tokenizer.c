// Bytes and chars: decode(encode(x)) == x, strict UTF-8 with offsets, and what a tokenizer.json may
// and may not say.
#define _GNU_SOURCE
#include "base/file.h"
#include "tokenizer/tokenizer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char sample[] = "Hello  world\n\n\tna\xc3\xafve \xe2\x80\x94 \xe6\x97\xa5\xe6\x9c\xac "
                             "\xf0\x9f\x98\x80 \"\\ e\xcc\x81\x7f end ";

static char *make_directory(void)
{
    char *directory = strdup("/tmp/zero-tokenizer-XXXXXX");
    assert_non_null(mkdtemp(directory));
    return directory;
}

static void remove_directory(char *directory)
{
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
    free(directory);
}

static void write_file(const char *directory, const char *name, const char *text, size_t length)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(zr_file_write_durable(path, text, length, NULL), ZERO_OK);
}

static char *read_file(const char *directory, const char *name, size_t *length)
{
    char path[256], *data = NULL;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(zr_file_read(path, 1 << 24, &data, length, NULL), ZERO_OK);
    return data;
}

static void assert_round_trip(const zr_tokenizer *tokenizer, const char *text, size_t length)
{
    zr_ids ids = {0};
    zr_buffer back = {0};
    assert_int_equal(zr_tokenizer_encode(tokenizer, text, length, "text", &ids, NULL), ZERO_OK);
    for (int64_t i = 0; i < ids.count; i++) {
        assert_in_range(ids.at[i], 0, zr_tokenizer_vocabulary(tokenizer) - 1);
        zr_tokenizer_decode(tokenizer, ids.at[i], &back);
    }
    assert_false(back.failed);
    assert_int_equal(back.length, length);
    assert_memory_equal(back.data, text, length);
    zr_buffer_free(&back);
    zr_ids_free(&ids);
}

static void test_bytes_are_their_ids(void **state)
{
    char all[256];
    zr_ids ids = {0};
    zr_tokenizer *tokenizer;
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_BYTES, NULL, 0, "none", &tokenizer, NULL),
                     ZERO_OK);
    assert_int_equal(zr_tokenizer_encode(tokenizer, all, 256, "all", &ids, NULL), ZERO_OK);
    assert_int_equal(ids.count, 256);
    for (int i = 0; i < 256; i++)
        assert_int_equal(ids.at[i], i);
    assert_round_trip(tokenizer, all, 256);
    assert_int_equal(zr_tokenizer_vocabulary(tokenizer), 256);
    assert_string_equal(zr_tokenizer_name(tokenizer), "bytes");
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
}

static size_t put_character(char *out, int32_t c)
{
    if (c < 0x80)
        return (size_t)sprintf(out, "%c", (int)c);
    if (c < 0x800)
        return (size_t)sprintf(out, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 63));
    if (c < 0x10000)
        return (size_t)sprintf(out, "%c%c%c", 0xe0 | c >> 12, 0x80 | (c >> 6 & 63),
                               0x80 | (c & 63));
    return (size_t)sprintf(out, "%c%c%c%c", 0xf0 | c >> 18, 0x80 | (c >> 12 & 63),
                           0x80 | (c >> 6 & 63), 0x80 | (c & 63));
}

static void test_every_character_there_is(void **state)
{
    char *text = zr_alloc(5 << 20, NULL);
    size_t length = 0;
    for (int32_t c = 0x10ffff; c > 0; c--) { // downwards: ids follow the code points, not the text
        if (c < 0xd800 || c > 0xdfff)
            length += put_character(text + length, c);
    }
    const int32_t characters = 0x110000 - 0x800 - 1;
    zr_ids ids = {0};
    zr_tokenizer *tokenizer;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_CHARS, text, length, "all", &tokenizer, NULL),
                     ZERO_OK);
    assert_int_equal(zr_tokenizer_vocabulary(tokenizer), characters);
    assert_int_equal(zr_tokenizer_encode(tokenizer, text, length, "all", &ids, NULL), ZERO_OK);
    assert_int_equal(ids.count, characters);
    for (int32_t i = 0; i < characters; i++)
        assert_int_equal(ids.at[i], characters - 1 - i);
    assert_round_trip(tokenizer, text, length);
    zr_tokenizer_destroy(tokenizer);
    zr_ids_free(&ids);
    zr_free(text);
}

static void test_invalid_utf8_is_refused_where_it_is(void **state)
{
    static const char *const invalid[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xfe",
        "\xc3",
        "\xc3(",
        "\xe2\x82",
        "\xe2\x82 ",
        "\xf0\x9f\x98",
        "\xf0\x9f\x98z",
    };
    zr_tokenizer *all, *none = NULL;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_CHARS, "ab\xc3\xa9", 4, "good", &all, NULL),
                     ZERO_OK);
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        char text[16];
        zr_ids ids = {0};
        zero_error error;
        size_t length = (size_t)snprintf(text, sizeof text, "ab\xc3\xa9%s", invalid[i]);
        assert_int_equal(
            zr_tokenizer_create(ZR_TOKENIZER_CHARS, text, length, "bad.txt", &none, &error),
            ZERO_ERR_DATA);
        assert_non_null(strstr(error.message, "bad.txt: byte 4 "));
        assert_int_equal(zr_tokenizer_encode(all, text, length, "bad.txt", &ids, &error),
                         ZERO_ERR_DATA);
        assert_non_null(strstr(error.message, "bad.txt: byte 4 "));
        zr_ids_free(&ids);
    }
    assert_null(none);
    zr_tokenizer_destroy(all);
}

static void test_text_that_chars_cannot_hold(void **state)
{
    zr_tokenizer *tokenizer = NULL;
    zero_error error;
    assert_int_equal(
        zr_tokenizer_create(ZR_TOKENIZER_CHARS, "ab\0c", 4, "nul.txt", &tokenizer, &error),
        ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "nul.txt: byte 2 is 0"));
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_CHARS, "", 0, "none.txt", &tokenizer, &error),
                     ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "none.txt"));
    assert_null(tokenizer);

    zr_ids ids = {0};
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_CHARS, "abc", 3, "abc", &tokenizer, NULL),
                     ZERO_OK);
    assert_int_equal(zr_tokenizer_encode(tokenizer, "ab\xe2\x82\xac", 5, "new.txt", &ids, &error),
                     ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "new.txt: byte 2: the character U+20AC"));
    assert_int_equal(zr_tokenizer_encode(tokenizer, "a\0", 2, "new.txt", &ids, &error),
                     ZERO_ERR_DATA);
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
}

static void test_parts_give_offsets_of_the_whole(void **state)
{
    zr_tokenizer *tokenizer;
    zero_error error;
    zr_ids ids = {0};
    zr_encoder *encoder;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_CHARS, "abc", 3, "abc", &tokenizer, NULL),
                     ZERO_OK);
    assert_int_equal(zr_encoder_create(tokenizer, &encoder, NULL), ZERO_OK);
    assert_int_equal(zr_encoder_append(encoder, ZR_ENCODE_TEXT, "abccba", 2, 5, "abc", &ids, NULL),
                     ZERO_OK);
    assert_int_equal(ids.count, 3);
    assert_memory_equal(ids.at, ((int32_t[]){2, 2, 1}), sizeof(int32_t[3]));
    assert_int_equal(
        zr_encoder_append(encoder, ZR_ENCODE_TEXT, "abca?a", 3, 6, "abc", &ids, &error),
        ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "byte 4:"));
    zr_ids_free(&ids);
    zr_encoder_destroy(encoder);
    zr_tokenizer_destroy(tokenizer);
}

static void test_ids_outside_the_vocabulary(void **state)
{
    for (int kind = ZR_TOKENIZER_BYTES; kind <= ZR_TOKENIZER_CHARS; kind++) {
        zr_tokenizer *tokenizer;
        zr_buffer out = {0};
        assert_int_equal(
            zr_tokenizer_create((zr_tokenizer_kind)kind, "abc", 3, "abc", &tokenizer, NULL),
            ZERO_OK);
        zr_tokenizer_decode(tokenizer, zr_tokenizer_vocabulary(tokenizer), &out);
        zr_tokenizer_decode(tokenizer, -1, &out);
        assert_string_equal(out.data, "\xef\xbf\xbd\xef\xbf\xbd");
        zr_buffer_free(&out);
        zr_tokenizer_destroy(tokenizer);
    }
}

static void test_written_and_read_back(void **state)
{
    for (int kind = ZR_TOKENIZER_BYTES; kind <= ZR_TOKENIZER_CHARS; kind++) {
        char *directory = make_directory();
        zr_tokenizer *written, *read;
        zr_ids ids[2] = {{0}};
        assert_int_equal(zr_tokenizer_create((zr_tokenizer_kind)kind, sample, sizeof sample - 1,
                                             "sample", &written, NULL),
                         ZERO_OK);
        assert_int_equal(zr_tokenizer_save(written, directory, NULL), ZERO_OK);
        assert_int_equal(zr_tokenizer_load(directory, &read, NULL), ZERO_OK);
        assert_int_equal(zr_tokenizer_kind_of(read), kind);
        assert_string_equal(zr_tokenizer_name(read), zr_tokenizer_name(written));
        assert_int_equal(zr_tokenizer_vocabulary(read), zr_tokenizer_vocabulary(written));
        assert_int_equal(
            zr_tokenizer_encode(written, sample, sizeof sample - 1, "sample", &ids[0], NULL),
            ZERO_OK);
        assert_int_equal(
            zr_tokenizer_encode(read, sample, sizeof sample - 1, "sample", &ids[1], NULL), ZERO_OK);
        assert_int_equal(ids[0].count, ids[1].count);
        assert_memory_equal(ids[0].at, ids[1].at, (size_t)ids[0].count * sizeof(int32_t));
        zr_ids_free(&ids[0]);
        zr_ids_free(&ids[1]);
        assert_round_trip(read, sample, sizeof sample - 1);
        size_t length;
        char *config = read_file(directory, "tokenizer_config.json", &length);
        assert_non_null(strstr(config, "\"PreTrainedTokenizerFast\""));
        zr_free(config);
        zr_tokenizer_destroy(read);
        zr_tokenizer_destroy(written);
        remove_directory(directory);
    }
}

static void test_bytes_are_spelt_in_gpt2s_alphabet(void **state)
{
    static const char *const entries[] = {
        "\"\xc4\x80\":0,",   "\"\xc4\x8a\":10,",  "\"\xc4\xa0\":32,",  "\"!\":33,",
        "\"\\\"\":34,",      "\"\\\\\":92,",      "\"~\":126,",        "\"\xc4\xa1\":127,",
        "\"\xc5\x82\":160,", "\"\xc2\xa1\":161,", "\"\xc5\x83\":173,", "\"\xc2\xae\":174,",
        "\"\xc3\xbf\":255",
    };
    char *directory = make_directory();
    zr_tokenizer *tokenizer;
    size_t length;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_BYTES, NULL, 0, "none", &tokenizer, NULL),
                     ZERO_OK);
    assert_int_equal(zr_tokenizer_save(tokenizer, directory, NULL), ZERO_OK);
    char *text = read_file(directory, "tokenizer.json", &length);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (!strstr(text, entries[i]))
            fail_msg("no %s", entries[i]);
    }
    zr_free(text);
    zr_tokenizer_destroy(tokenizer);
    remove_directory(directory);
}

static void test_saving_where_nothing_can_be_written(void **state)
{
    zr_tokenizer *tokenizer;
    zero_error error;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_BYTES, NULL, 0, "none", &tokenizer, NULL),
                     ZERO_OK);
    assert_int_equal(zr_tokenizer_save(tokenizer, "/nonexistent/directory", &error), ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "/nonexistent/directory/tokenizer.json"));
    zr_tokenizer_destroy(tokenizer);
}

static const struct refusal {
    const char *json;
    zero_status status;
    const char *says;
} refusals[] = {
    {"{", ZERO_ERR_DATA, "tokenizer.json"},
    {"[]", ZERO_ERR_DATA, "model"},
    {"{}", ZERO_ERR_DATA, "model"},
    {"{\"model\":3}", ZERO_ERR_DATA, "model"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", ZERO_ERR_DATA, "vocab"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", ZERO_ERR_UNSUPPORTED,
     "WordPiece tokenizer: not built"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}",
     ZERO_ERR_UNSUPPORTED, "dropout"},
    {"{\"added_tokens\":[{}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     ZERO_ERR_DATA, "added token 0"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", ZERO_ERR_DATA, "vocabulary of 0"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\":0},\"merges\":[]}}", ZERO_ERR_DATA, "is empty"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1},\"merges\":[]}}", ZERO_ERR_DATA,
     "out of range"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", ZERO_ERR_DATA,
     "out of range"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", ZERO_ERR_DATA,
     "given twice"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"},\"merges\":[]}}", ZERO_ERR_DATA,
     "no integer"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}", ZERO_ERR_DATA,
     "tokenizer.json"},
};

static void test_what_a_tokenizer_json_may_not_say(void **state)
{
    char *directory = make_directory();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        zr_tokenizer *tokenizer = NULL;
        zero_error error = {0};
        write_file(directory, "tokenizer.json", refusals[i].json, strlen(refusals[i].json));
        zero_status status = zr_tokenizer_load(directory, &tokenizer, &error);
        if (status != refusals[i].status || !strstr(error.message, refusals[i].says))
            fail_msg("%s\ngave %s: %s", refusals[i].json, zero_status_name(status), error.message);
        assert_null(tokenizer);
    }
    remove_directory(directory);
}

static void test_directories_without_tokenizer_json(void **state)
{
    char *directory = make_directory();
    zr_tokenizer *tokenizer;
    zero_error error;
    assert_int_equal(zr_tokenizer_load(directory, &tokenizer, &error), ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "no tokenizer.json in"));
    write_file(directory, "merges.txt", "#version: 0.2\n", 14);
    assert_int_equal(zr_tokenizer_load(directory, &tokenizer, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "merges.txt: merges without a vocab.json"));
    assert_int_equal(zr_tokenizer_load("/nonexistent/tokenizer", &tokenizer, &error), ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "/nonexistent/tokenizer"));
    remove_directory(directory);
}

static void test_an_id_given_twice_is_refused(void **state)
{
    char *directory = make_directory();
    zr_tokenizer *tokenizer;
    zero_error error;
    size_t length;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_BYTES, NULL, 0, "none", &tokenizer, NULL),
                     ZERO_OK);
    assert_int_equal(zr_tokenizer_save(tokenizer, directory, NULL), ZERO_OK);
    zr_tokenizer_destroy(tokenizer);
    char *text = read_file(directory, "tokenizer.json", &length);
    size_t at = 0;
    while (at + 6 < length && memcmp(text + at, "\"A\":65", 6))
        at++;
    text[at + 5] = '6';
    write_file(directory, "tokenizer.json", text, length);
    assert_int_equal(zr_tokenizer_load(directory, &tokenizer, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "the id 66 is given to "));
    zr_free(text);
    remove_directory(directory);
}

// No prefix of a good file, and no change of one byte, may do worse than fail.
static void test_garbled_files(void **state)
{
    static const char text[] =
        "{\"pre_tokenizer\":null,\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"\xc3\xa9\":1},\"merges\":[]}}";
    static const char changes[] = {0, '"', '{', '}', '[', '9', '-', '\\', ' ', (char)0xff};
    char *directory = make_directory();
    zr_tokenizer *tokenizer;
    char path[256];
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    for (size_t at = 0; at < sizeof text - 1; at++) {
        for (size_t change = 0; change <= sizeof changes; change++) {
            char garbled[sizeof text];
            memcpy(garbled, text, sizeof text);
            bool truncate = change == sizeof changes;
            if (!truncate)
                garbled[at] = changes[change];
            size_t length = truncate ? at : sizeof text - 1;
            assert_int_equal(pwrite(fd, garbled, length, 0), length);
            assert_int_equal(ftruncate(fd, (off_t)length), 0);
            zero_status status = zr_tokenizer_load(directory, &tokenizer, NULL);
            if (status == ZERO_OK) {
                assert_false(truncate);
                assert_int_equal(zr_tokenizer_vocabulary(tokenizer), 2);
                zr_tokenizer_destroy(tokenizer);
            }
        }
    }
    close(fd);
    remove_directory(directory);
}

static void test_every_allocation_may_fail(void **state)
{
    char *directory = make_directory();
    zero_status status = ZERO_ERR_MEMORY;
    for (int nth = 1; status != ZERO_OK; nth++) {
        assert_true(nth < 200);
        zr_tokenizer *tokenizer = NULL, *read = NULL;
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        status = zr_tokenizer_create(ZR_TOKENIZER_CHARS, sample, sizeof sample - 1, "sample",
                                     &tokenizer, &error);
        if (status == ZERO_OK)
            status = zr_tokenizer_save(tokenizer, directory, &error);
        if (status == ZERO_OK)
            status = zr_tokenizer_load(directory, &read, &error);
        zr_alloc_fail_at(0);
        if (status != ZERO_OK) {
            assert_int_equal(status, ZERO_ERR_MEMORY);
            assert_int_equal(error.status, ZERO_ERR_MEMORY);
        }
        zr_tokenizer_destroy(tokenizer);
        zr_tokenizer_destroy(read);
    }
    remove_directory(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_their_ids),
        cmocka_unit_test(test_every_character_there_is),
        cmocka_unit_test(test_invalid_utf8_is_refused_where_it_is),
        cmocka_unit_test(test_text_that_chars_cannot_hold),
        cmocka_unit_test(test_parts_give_offsets_of_the_whole),
        cmocka_unit_test(test_ids_outside_the_vocabulary),
        cmocka_unit_test(test_written_and_read_back),
        cmocka_unit_test(test_bytes_are_spelt_in_gpt2s_alphabet),
        cmocka_unit_test(test_saving_where_nothing_can_be_written),
        cmocka_unit_test(test_what_a_tokenizer_json_may_not_say),
        cmocka_unit_test(test_directories_without_tokenizer_json),
        cmocka_unit_test(test_an_id_given_twice_is_refused),
        cmocka_unit_test(test_garbled_files),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
