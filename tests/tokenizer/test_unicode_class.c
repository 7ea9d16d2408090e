// Our pinned classes of characters agree with those of utf8proc, which has another version of
// Unicode, for all characters that utf8proc knows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tokenizer/pretokenize.h"

#include <utf8proc.h>

static zr_class class_of(utf8proc_int32_t c)
{
    utf8proc_category_t category = utf8proc_category(c);
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
        return ZR_LETTER;
    if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
        return ZR_NUMBER;
    bool space = category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
                 category == UTF8PROC_CATEGORY_ZP || (c >= 9 && c <= 13) || c == 0x85;
    return space ? ZR_SPACE : ZR_OTHER;
}

static void known_characters_agree(void **state)
{
    zr_classes *classes = zr_alloc(sizeof *classes, NULL);
    int known = 0, newer = 0;
    zr_classes_fill(classes);
    for (utf8proc_int32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000)
            continue;
        char text[4];
        int bytes;
        utf8proc_ssize_t length = utf8proc_encode_char(c, (utf8proc_uint8_t *)text);
        zr_class class = zr_class_at(classes, text, (size_t)length, &bytes);
        assert_int_equal(bytes, length);
        if (utf8proc_category(c) == UTF8PROC_CATEGORY_CN) {
            newer += class != ZR_OTHER;
        } else {
            known++;
            assert_int_equal(class, class_of(c));
        }
    }
    assert_true(known > 280000 && newer < 6000);
    zr_free(classes);
}

static void words_are_letters_marks_digits_and_low_lines(void **state)
{
    static const int32_t words[] = {'a',   'Z',    '0',    '_',    0xe9,   0x301,
                                    0x663, 0x2167, 0x203f, 0x4e2d, 0x24b6, 0x200d},
                         others[] = {' ', '-', '\'', '<', 0xbd, 0x2014, 0x1f600, 0x3000};
    for (int i = 0; i < ZR_COUNT(words); i++)
        assert_true(zr_is_word(words[i]));
    for (int i = 0; i < ZR_COUNT(others); i++)
        assert_false(zr_is_word(others[i]));
}

static void invalid_bytes_are_one_each(void **state)
{
    static const char *const texts[] = {"\x80",     "\xff",         "\xc3(",
                                        "\xe4\xb8", "\xed\xa0\x80", "\xf5\x80\x80\x80"};
    zr_classes *classes = zr_alloc(sizeof *classes, NULL);
    zr_classes_fill(classes);
    for (int i = 0; i < ZR_COUNT(texts); i++) {
        int bytes;
        assert_int_equal(zr_class_at(classes, texts[i], 2 - (i < 2), &bytes), ZR_OTHER);
        assert_int_equal(bytes, 1);
    }
    zr_free(classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_characters_agree),
        cmocka_unit_test(words_are_letters_marks_digits_and_low_lines),
        cmocka_unit_test(invalid_bytes_are_one_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
