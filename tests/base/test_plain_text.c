// Control characters, which a terminal would obey, are escaped wherever text from files is shown.
#include "scratch_directory.h"

#include "base/text.h"

#include <stdio.h>

static void what_is_plain_stays(void **state)
{
    static const char *const texts[] = {
        "", "plain \"text\" with \\ and 'quotes'", "h.0.attn",
        "\xc2\xa0\xc3\xa4nd \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\xa6\x89", "\\x1b is no escape"};
    char out[128];
    for (int i = 0; i < ZR_COUNT(texts); i++) {
        assert_int_equal(zr_plain_text(texts[i], out, sizeof out), strlen(texts[i]));
        assert_string_equal(out, texts[i]);
    }
}

static void what_is_not_is_escaped(void **state)
{
    static const char *const texts[][2] = {
        {"a\x1b[31mb\x07", "a\\x1b[31mb\\x07"},
        {"a\r\nDAMAGED\tb", "a\\r\\nDAMAGED\\tb"},
        {"\x7f", "\\x7f"},
        {"\xc2\x9b"
         "1m",
         "\\xc2\\x9b1m"},
        {"\xc2\x9f", "\\xc2\\x9f"},
        {"\xff\xfe", "\\xff\\xfe"},
        {"\xe6\xbc", "\\xe6\\xbc"},
        {"\xc0\x9b", "\\xc0\\x9b"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
    };
    char out[128], again[128];
    for (int i = 0; i < ZR_COUNT(texts); i++) {
        assert_int_equal(zr_plain_text(texts[i][0], out, sizeof out), strlen(texts[i][1]));
        assert_string_equal(out, texts[i][1]);
        zr_plain_text(out, again, sizeof again);
        assert_string_equal(again, out);
    }
}

static void text_is_cut_before_what_does_not_fit(void **state)
{
    char out[8];
    for (size_t size = 1; size <= sizeof out; size++) {
        size_t length = zr_plain_text("a\xe6\xbc\xa2\x1b", out, size);
        assert_int_equal(length, size < 5 ? (size > 1) : size < 9 ? 4 : 8);
        assert_int_equal(strlen(out), length);
    }
}

static void append(void *user, const char *text) { strncat(user, text, 255 - strlen(user)); }

static void lines_of_reports_keep_their_end(void **state)
{
    char text[256] = "";
    zr_plain_line("a\nb\x1b\n", append, text);
    zr_plain_line("c", append, text);
    assert_string_equal(text, "a\\nb\\x1b\nc");
}

static void keep(void *user, zero_log_level level, const char *message)
{
    snprintf(user, 256, "%s", message);
}

static void messages_are_escaped(void **state)
{
    zero_error error = {0};
    char said[256];
    const zero_logger logger = {keep, said};
    zr_fail(&error, ZERO_ERR_DATA, "tensor \"%s\"", "\x1b[2J\nzero: fine\xff");
    assert_string_equal(error.message, "tensor \"\\x1b[2J\\nzero: fine\\xff\"");
    zr_error_prefix(&error, "%s", "\x07");
    assert_string_equal(error.message, "\\x07: tensor \"\\x1b[2J\\nzero: fine\\xff\"");
    zr_log(&logger, ZERO_LOG_INFO, "%s", "\x1b[2J\n");
    assert_string_equal(said, "\\x1b[2J\\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_plain_stays),
        cmocka_unit_test(what_is_not_is_escaped),
        cmocka_unit_test(text_is_cut_before_what_does_not_fit),
        cmocka_unit_test(lines_of_reports_keep_their_end),
        cmocka_unit_test(messages_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
