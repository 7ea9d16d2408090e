// Parts of a corpus are passed on piece by piece, to a token file or as text: they are the same as
// a training reads. Also what is refused.
#define _GNU_SOURCE
#include "corpus_files.h"

static int make_records(void **state)
{
    char text[2048] = "";
    for (int i = 0; i < 20; i++)
        sprintf(text + strlen(text), "{\"text\": \"%c%c\"}\n", 'a' + i, 'a' + i);
    if (make(state))
        return 1;
    put_text("twenty.jsonl", text);
    return 0;
}

static zero_status collect(void *user, const int32_t *ids, int64_t count, zero_error *error)
{
    for (int64_t i = 0; i < count; i++)
        zr_ids_append(user, ids[i]);
    return ZERO_OK;
}

static zero_status join_texts(void *user, const char *text, size_t length, zero_error *error)
{
    zr_buffer_append(user, text, length);
    zr_buffer_append(user, "/", 1);
    return ZERO_OK;
}

// What is written to a token file is what a training reads, whatever the tokenizer has between
// files.
static void test_written_as_read(void **state)
{
    const char *const arguments[] = {"?.txt", "twenty.jsonl", "a.txt"};
    const zr_corpus_options options = {.arguments = arguments, .count = 3, .chat = &chat};
    for (int i = 0; i < 2; i++) {
        const zr_reading reading = {
            .tokenizer = i ? words : bytes, .vocabulary = 256, .seq = 4, .threads = 2};
        zr_corpus *read, *written;
        zr_dataset train;
        zr_ids ids = {0};
        int64_t documents;
        assert_int_equal(zr_corpus_open(&options, &read, NULL), ZERO_OK);
        assert_int_equal(zr_corpus_read(read, &reading, &train, NULL, NULL), ZERO_OK);
        assert_int_equal(zr_corpus_open(&options, &written, NULL), ZERO_OK);
        assert_int_equal(
            zr_corpus_write(written, &reading, ZR_ENCODE_TEXT, collect, &ids, &documents, NULL),
            ZERO_OK);
        assert_int_equal(documents, 2 + 20 + 1);
        int32_t *expected = zr_alloc((size_t)train.count * sizeof *expected, NULL);
        zr_stream_read(&train.streams[0], 0, train.count, expected);
        assert_int_equal(ids.count, train.count);
        assert_memory_equal(ids.at, expected, (size_t)ids.count * sizeof *expected);
        zr_free(expected);
        zr_ids_free(&ids);
        zr_dataset_free(&train);
        zr_corpus_close(read);
        zr_corpus_close(written);
    }
}

static void refuse_writing(zero_status status, const char *says, const char *argument)
{
    const zr_corpus_options options = {.arguments = &argument, .count = 1, .chat = &chat};
    const zr_reading reading = {.tokenizer = words};
    zr_corpus *corpus;
    zr_ids ids = {0};
    zr_buffer text = {0};
    zero_error error = {0};
    int64_t documents;
    assert_int_equal(zr_corpus_open(&options, &corpus, NULL), ZERO_OK);
    if (zr_corpus_write(corpus, &reading, ZR_ENCODE_TEXT, collect, &ids, &documents, &error) !=
            status ||
        !strstr(error.message, says))
        fail_msg("%s: %s", argument, error.message);
    if (status != ZERO_ERR_UNSUPPORTED)
        assert_int_equal(zr_corpus_each_text(corpus, join_texts, &text, NULL), status);
    zr_ids_free(&ids);
    zr_buffer_free(&text);
    zr_corpus_close(corpus);
}

static void test_what_is_not_written(void **state)
{
    put_text("masked.jsonl",
             "{\"text\": \"fine\"}\n{\"prompt\": \"2=\", \"completion\": \"two\"}\n");
    refuse_writing(ZERO_ERR_UNSUPPORTED, "masked.jsonl:2: a part of this record is not a target",
                   "masked.jsonl");
    refuse_writing(ZERO_ERR_DATA, "\"t.bin\" holds tokens already", "t.bin");
    refuse_writing(ZERO_ERR_USAGE, "\"a.txt:2\" has a weight", "a.txt:2");
}

static void test_every_text_is_taken(void **state)
{
    const char *const arguments[] = {"[ab].txt", "some.jsonl"};
    const zr_corpus_options options = {.arguments = arguments, .count = 2, .chat = &chat};
    zr_corpus *corpus;
    zr_buffer text = {0};
    put_text("some.jsonl", "{\"text\": \"one\"}\n{\"text\": \"\"}\n{\"text\": \"two\"}\n");
    assert_int_equal(zr_corpus_open(&options, &corpus, NULL), ZERO_OK);
    assert_int_equal(zr_corpus_each_text(corpus, join_texts, &text, NULL), ZERO_OK);
    assert_string_equal(text.data, "abcdefghij/ABCDEFGHIJ/one/two/");
    assert_int_equal(zr_corpus_empty(corpus), 1);
    zr_buffer_free(&text);
    zr_corpus_close(corpus);
}

// Records without text are passed over, and counted; the tenth that is held out is one of all
// lines.
static void test_records_without_text(void **state)
{
    char text[2048] = "", expected[256] = "";
    for (int i = 0; i < 20; i++)
        sprintf(text + strlen(text), "{\"text\": \"%.*s\"}\n", i % 2 == 0 ? 2 : 0, "xy");
    for (int i = 0; i < 9; i++)
        strcat(expected, "xy|");
    put_text("holes.jsonl", text);
    opened o = open_well(words, 2, true, "holes.jsonl", NULL);
    assert_string_equal(spelled(&o.train, 0), expected);
    assert_string_equal(spelled(&o.held, 0), "xy|");
    assert_int_equal(zr_corpus_empty(o.corpus), 10);
    close_opened(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_as_read),
        cmocka_unit_test(test_what_is_not_written),
        cmocka_unit_test(test_every_text_is_taken),
        cmocka_unit_test(test_records_without_text),
    };
    return cmocka_run_group_tests(tests, make_records, clean);
}
