// Notes next to token files: which tokenizer the ids belong to.
#include "../base/scratch_directory.h"

#include "data/token_note.h"

static void a_note_says_whose_ids_they_are(void **state)
{
    scratch *dir = *state;
    zr_tokenizer *bytes, *chars;
    zr_token_writer writer;
    zr_token_file file;
    zr_token_note note = {.tokenizer = "bytes",
                          .vocabulary = 256,
                          .tokens = 2,
                          .documents = 1,
                          .end = -1},
                  read;
    zero_error error = {0};
    bool there;
    assert_int_equal(zr_tokenizer_create(ZR_TOKENIZER_BYTES, NULL, 0, "none", &bytes, NULL),
                     ZERO_OK);
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
    assert_true(there && read.fingerprint == note.fingerprint && read.vocabulary == 256 &&
                read.end == -1 && read.documents == 1);
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
        CASE(a_note_says_whose_ids_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
