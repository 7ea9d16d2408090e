// Base64: the examples of RFC 4648, all bytes and back, and what is none.
#include "scratch_directory.h"

#include "base/base64.h"

static void the_examples_of_the_standard(void **state)
{
    static const char *const examples[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (int i = 0; i < ZR_COUNT(examples); i++) {
        zr_buffer text = {0}, bytes = {0};
        zr_buffer_append(&text, "", 0);
        zr_buffer_append(&bytes, "", 0);
        zr_base64_write(examples[i][0], strlen(examples[i][0]), &text);
        assert_string_equal(text.data, examples[i][1]);
        assert_true(zr_base64_read(text.data, text.length, &bytes));
        assert_string_equal(bytes.data, examples[i][0]);
        zr_buffer_free(&text);
        zr_buffer_free(&bytes);
    }
}

static void all_bytes_come_back(void **state)
{
    unsigned char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (unsigned char)(255 - i);
    for (size_t count = 250; count <= sizeof all; count++) {
        zr_buffer text = {0}, bytes = {0};
        zr_base64_write(all, count, &text);
        assert_true(zr_base64_read(text.data, text.length, &bytes));
        assert_int_equal(bytes.length, count);
        assert_memory_equal(bytes.data, all, count);
        zr_buffer_free(&text);
        zr_buffer_free(&bytes);
    }
}

static void other_texts_are_refused(void **state)
{
    static const char *const others[] = {"Z", "Zg=", "Zm9", "Z===", "Zm 9", "Zg==Zg==", "Zm9\xff"};
    for (int i = 0; i < ZR_COUNT(others); i++) {
        zr_buffer bytes = {0};
        assert_false(zr_base64_read(others[i], strlen(others[i]), &bytes));
        zr_buffer_free(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_standard),
        cmocka_unit_test(all_bytes_come_back),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
