// Writing JSON: what is written is read back with the same bytes and the same bits, in any locale.
#include "scratch_directory.h"

#include "base/json.h"
#include "base/random.h"
#include <locale.h>
#include <math.h>

static void assert_string_written(const char *text, size_t length, const char *expected)
{
    zr_buffer buffer = {0};
    zr_json_append_string(&buffer, text, length);
    assert_string_equal(buffer.data, expected);
    zr_buffer_free(&buffer);
}

static void strings_are_escaped(void **state)
{
    assert_string_written("", 0, "\"\"");
    assert_string_written("a\"b\\c/d\n\r\t\b\f", 12, "\"a\\\"b\\\\c/d\\n\\r\\t\\b\\f\"");
    assert_string_written("\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\"");
    assert_string_written("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
                          "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

static void invalid_utf8_is_replaced(void **state)
{
    static const char *const invalid[] = {"\xff",
                                          "\x80",
                                          "\xc3",
                                          "\xc0\x80",
                                          "\xe0\x80\x80",
                                          "\xed\xa0\x80",
                                          "\xf0\x80\x80\x80",
                                          "\xf4\x90\x80\x80",
                                          "\xf5\x80\x80\x80",
                                          "\xe2\x82",
                                          "\xf0\x9f\x98"};
    for (int i = 0; i < ZR_COUNT(invalid); i++) {
        char text[16], expected[64] = "\"a";
        snprintf(text, sizeof text, "a%sb", invalid[i]);
        for (size_t k = 0; k < strlen(invalid[i]); k++)
            strcat(expected, "\\ufffd");
        strcat(expected, "b\"");
        assert_string_written(text, strlen(text), expected);
    }
    assert_string_written("\xe2\x82\xac", 2, "\"\\ufffd\\ufffd\""); // cut short by the length
}

static void assert_double_written(double value, const char *expected)
{
    zr_buffer buffer = {0};
    zr_json_append_double(&buffer, value);
    assert_string_equal(buffer.data, expected);
    zr_buffer_free(&buffer);
}

static void doubles_are_short(void **state)
{
    assert_double_written(0.1, "0.1");
    assert_double_written(1.0, "1.0");
    assert_double_written(-0.0, "-0.0");
    assert_double_written(1e-4, "0.0001");
    assert_double_written(0.1 + 0.2, "0.30000000000000004");
    assert_double_written(1e300, "1e+300");
    assert_double_written(0x1p-1074, "4.94065645841247e-324");
    assert_double_written(NAN, "null");
    assert_double_written(-INFINITY, "null");
}

static void assert_survives(double value)
{
    zr_buffer buffer = {0};
    zr_buffer_append(&buffer, "[", 1);
    zr_json_append_double(&buffer, value);
    zr_buffer_append(&buffer, "]", 1);
    json_t *root;
    assert_int_equal(zr_json_parse(buffer.data, buffer.length, "f", &root, NULL), ZERO_OK);
    double back = json_real_value(json_array_get(root, 0));
    assert_true(json_is_real(json_array_get(root, 0)));
    assert_memory_equal(&back, &value, sizeof value);
    json_decref(root);
    zr_buffer_free(&buffer);
}

static void doubles_come_back_bit_for_bit(void **state)
{
    assert_survives(-0.0);
    assert_survives(0x1p1023);
    for (uint64_t i = 0; i < 20000; i++) {
        zr_philox random = zr_philox4x32(4, 0, i);
        uint64_t bits = (uint64_t)random.v[0] << 32 | random.v[1];
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            assert_survives(value);
        assert_survives((float)random.v[2] * 1e-7f);
    }
}

static void the_locale_does_not_matter(void **state)
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE",
                                         "ps_AF.UTF-8"};
    bool found = false;
    for (int i = 0; i < ZR_COUNT(commas) && !found; i++)
        found = setlocale(LC_NUMERIC, commas[i]) != NULL;
    if (!found) {
        print_message("SKIPPED: no locale with a decimal comma is installed here\n");
        skip();
    }
    assert_double_written(0.5, "0.5");
    assert_double_written(2.0, "2.0");
    assert_survives(0.1);
    setlocale(LC_NUMERIC, "C");
}

static void values_have_paths(void **state)
{
    json_t *root = json_object();
    json_object_set_new(root, "word", json_string("text"));
    assert_true(zr_json_put(root, "a.b.c", json_integer(3)));
    assert_true(zr_json_put(root, "word.inner", json_true())); // what is no section is replaced
    assert_true(zr_json_put(root, "top", json_integer(1)));
    assert_false(zr_json_put(root, "a.b.d", NULL)); // as where memory has run out
    assert_int_equal(json_integer_value(zr_json_get(root, "a.b.c")), 3);
    assert_true(json_is_true(zr_json_get(root, "word.inner")));
    assert_null(zr_json_get(root, "a.b.d"));
    assert_null(zr_json_get(root, "top.b"));
    zr_json_drop(root, "a.b.c");
    zr_json_drop(root, "top");
    zr_json_drop(root, "nowhere.at.all");
    assert_null(zr_json_get(root, "a.b.c"));
    assert_non_null(zr_json_get(root, "a.b"));
    assert_null(zr_json_get(root, "top"));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(invalid_utf8_is_replaced),
        cmocka_unit_test(doubles_are_short),
        cmocka_unit_test(doubles_come_back_bit_for_bit),
        cmocka_unit_test(the_locale_does_not_matter),
        cmocka_unit_test(values_have_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
