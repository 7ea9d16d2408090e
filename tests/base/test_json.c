// Reading JSON: comments and trailing commas are blanked in place, everything else is strict, and
// errors name line and column.
#include "scratch_directory.h"

#include "base/json.h"
#include "base/random.h"

static void assert_blanks_to(const char *text, const char *expected)
{
    char *copy = strdup(text);
    zero_error error = {0};
    zero_status status = zr_json_blank(copy, strlen(copy), "f", &error);
    if (status != ZERO_OK)
        fail_msg("\"%s\": %s", text, error.message);
    assert_string_equal(copy, expected);
    free(copy);
}

static void comments_and_trailing_commas_become_spaces(void **state)
{
    assert_blanks_to("{\"a\": 1} # x", "{\"a\": 1}    ");
    assert_blanks_to("// x\n{\"a\":\r\n1 /* y\n z */, }", "    \n{\"a\":\r\n1     \n       }");
    assert_blanks_to("[1, [2,],\t3, # three\n]", "[1, [2 ],\t3         \n]");
    assert_blanks_to("{\"a\": \"# no // comment /* here */ ,}\", \"b\\\"#\": 5#c",
                     "{\"a\": \"# no // comment /* here */ ,}\", \"b\\\"#\": 5  ");
    assert_blanks_to("{\"a\": 1//c\n}", "{\"a\": 1   \n}");
    assert_blanks_to("{\"a\": [{},],}", "{\"a\": [{} ] }");
    assert_blanks_to("{\"a\": \"x\", /**/ /***/ }", "{\"a\": \"x\"             }");
    assert_blanks_to("\xef\xbb\xbf{}", "   {}");
    assert_blanks_to("", "");
    assert_blanks_to("[,]", "[,]"); // no trailing comma: left for the parser to refuse
    assert_blanks_to("{,}", "{,}");
    assert_blanks_to("[1,,]", "[1,,]");
    assert_blanks_to("{\"a\":,}", "{\"a\":,}");
}

static void assert_blank_refuses(const char *text, const char *message)
{
    char *copy = strdup(text);
    zero_error error = {0};
    assert_int_equal(zr_json_blank(copy, strlen(copy), "f", &error), ZERO_ERR_DATA);
    assert_contains(error.message, message);
    free(copy);
}

static void hjson_s_other_liberties_are_named(void **state)
{
    assert_blank_refuses("{\n  /* never\n closed", "f:2:3: the comment that begins here");
    assert_blank_refuses("{\n  stage: 3\n}", "f:2:3: the key stage has no quotes: write \"stage\"");
    assert_blank_refuses("{\"a\": 1, # c\n\tb : 2}", "f:2:2: the key b has no quotes");
    assert_blank_refuses("\"a\": 1", "f:1:1: the file does not begin with {");
    assert_blank_refuses("# c\n3", "f:2:1: the file does not begin with {");
    assert_blank_refuses("a: 1", "f:1:1: the key a has no quotes");
    assert_blank_refuses("{'a': 1}", "f:1:2: strings stand in double quotes");
    assert_blank_refuses("{\"a\": '''x'''}", "f:1:7: strings stand in double quotes");
}

static void assert_parse_refuses(const char *text, const char *message)
{
    zero_error error = {0};
    json_t *root;
    assert_int_equal(zr_json_parse(text, strlen(text), "ds.json", &root, &error), ZERO_ERR_DATA);
    assert_null(root);
    assert_contains(error.message, message);
}

static void strict_parsing_names_the_place(void **state)
{
    assert_parse_refuses("{\"a\": 1,\n \"b\": 2,\n  \"a\": 3}",
                         "ds.json:3:3: the key \"a\" is given twice");
    assert_parse_refuses("{\"x\": {\"deep\": [{\"k\": 1, \"k\": 1}]}}",
                         "ds.json:1:26: the key \"k\" is given twice");
    assert_parse_refuses("{\"a\": NaN}", "ds.json:1:7: NaN is not a number in JSON");
    assert_parse_refuses("[1, Infinity]", "ds.json:1:5: Infinity");
    assert_parse_refuses("[1,\n -Infinity]", "ds.json:2:2: -Infinity");
    assert_parse_refuses("{\"a\": True}", "ds.json:1:7: True is no value");
    // characters, not bytes, are counted
    assert_parse_refuses("{\"\xc3\xa9\xe2\x82\xac\": yes}", "ds.json:1:8: yes");
    assert_parse_refuses("{\"a\": 1} x", "ds.json:1:10: x is no value");
    assert_parse_refuses("{\"a\": 1} {}", "ds.json:1:10: end of file expected");
    assert_parse_refuses("{\"a\": 1", "ds.json:1:8: '}' expected near end of file");
    assert_parse_refuses("{\"a\": 1 \"b\": 2}", "ds.json:1:9: '}' expected near '\"b\"'");
    assert_parse_refuses("{\"a\": 01}", "ds.json:1:7:");
    assert_parse_refuses("{\"a\": 1e999}", "ds.json:1:7: real number overflow");
    assert_parse_refuses("{\"a\": \"x\\u0000\"}", "ds.json:1:7: the character \\u0000");
    assert_parse_refuses("{\"\\u0000\": 1}", "ds.json:1:2: the character \\u0000");
    assert_parse_refuses("{\"a\": \"\\udc00\"}", "ds.json:1:7: half of a pair");
    assert_parse_refuses("{\"a\": \"\\ud800x\"}", "ds.json:1:7: half of a pair");
    assert_parse_refuses("{\"a\": \"x\n\"}", "ds.json:1:7:");
    assert_parse_refuses("{\"a\": \"\xff\"}", "ds.json:1:");
    assert_parse_refuses("[,]", "ds.json:1:2:");
    assert_parse_refuses("", "ds.json:1:1:");
    assert_parse_refuses("3", "ds.json:1:1:");
}

static void valid_text_is_parsed(void **state)
{
    const char *text = "{\"a\": [1, 2.5, true, null, \"x\"], \"b\": {\"c\": 9223372036854775807}}";
    json_t *root;
    assert_int_equal(zr_json_parse(text, strlen(text), "f", &root, NULL), ZERO_OK);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "b"), "c")),
                     INT64_MAX);
    assert_int_equal(json_array_size(json_object_get(root, "a")), 5);
    json_decref(root);
    // the length is the end
    assert_int_equal(zr_json_parse("{}trailing", 2, "f", &root, NULL), ZERO_OK);
    json_decref(root);
}

// What no int64 holds is no integer, and no reason to refuse a file that nobody reads it from;
// places stay.
static void integers_beyond_int64_are_reals(void **state)
{
    static const struct {
        const char *text;
        double value;
    } reals[] = {{"1000000000000000019884624838656", 1e30},
                 {"9223372036854775808", 0x1p63},
                 {"-9223372036854775809", -0x1p63},
                 {"18446744073709551615", 0x1p64}};
    static const char *const integers[] = {"9223372036854775807", "-9223372036854775808",
                                           "1000000000000000000"};
    char text[64];
    json_t *root;
    zero_error error = {0};
    for (int i = 0; i < ZR_COUNT(reals); i++) {
        int length = snprintf(text, sizeof text, "[%s]", reals[i].text);
        assert_int_equal(zr_json_parse(text, (size_t)length, "f", &root, NULL), ZERO_OK);
        assert_false(json_is_integer(json_array_get(root, 0)));
        assert_true(json_real_value(json_array_get(root, 0)) == reals[i].value);
        json_decref(root);
    }
    for (int i = 0; i < ZR_COUNT(integers); i++) {
        int length = snprintf(text, sizeof text, "[%s]", integers[i]);
        assert_int_equal(zr_json_parse(text, (size_t)length, "f", &root, NULL), ZERO_OK);
        assert_int_equal(json_integer_value(json_array_get(root, 0)),
                         strtoll(integers[i], NULL, 10));
        json_decref(root);
    }
    const char damaged[] =
        "[1000000000000000019884624838656, 18446744073709551616, \"18446744073709551616\" x]";
    assert_int_equal(zr_json_parse(damaged, sizeof damaged - 1, "f", &root, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "f:1:80: x is no value");
    assert_parse_refuses("[100000000000000000000x]", "ds.json:1:2:");
    assert_parse_refuses("[010000000000000000000]", "ds.json:1:2:");
    assert_parse_refuses("[-]", "ds.json:1:2:");
}

static char *nested(size_t depth)
{
    char *text = malloc(2 * depth + 1);
    assert_non_null(text);
    for (size_t i = 0; i < 2 * depth; i++)
        text[i] = i < depth ? '[' : ']';
    text[2 * depth] = 0;
    return text;
}

static void nesting_is_bounded(void **state)
{
    char *text = nested(ZR_JSON_MAX_DEPTH);
    json_t *root;
    assert_int_equal(zr_json_parse(text, strlen(text), "f", &root, NULL), ZERO_OK);
    json_decref(root);
    free(text);
    text = nested(ZR_JSON_MAX_DEPTH + 1);
    assert_parse_refuses(text, "ds.json:1:65: nested deeper than 64 levels");
    free(text);
    text = nested(10000);
    assert_parse_refuses(text, "nested deeper than 64 levels");
    assert_int_equal(zr_json_blank(text, strlen(text), "f", NULL), ZERO_OK);
    assert_int_equal(zr_json_find(text, strlen(text), "0.0.0").column, 4);
    free(text);
    assert_parse_refuses(
        "{\"[[[[\": \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"",
        "expected near end of file");
}

static void files_are_loaded_with_their_name(void **state)
{
    scratch *dir = *state;
    zero_error error = {0};
    json_t *root;
    scratch_write(dir, "a.json", "{\"a\": 1}");
    assert_int_equal(zr_json_load(scratch_path(dir, "a.json"), 100, &root, NULL), ZERO_OK);
    assert_int_equal(json_integer_value(json_object_get(root, "a")), 1);
    json_decref(root);
    scratch_write(dir, "b.json", "{\"a\": }");
    assert_int_equal(zr_json_load(dir->path, 100, &root, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "b.json:1:7:");
    assert_int_equal(zr_json_load(dir->path, 3, &root, &error), ZERO_ERR_DATA);
    assert_null(root);
    assert_int_equal(zr_json_load(dir->directory, 100, &root, &error), ZERO_ERR_DATA);
}

static void assert_found(const char *text, const char *path, int line, int column)
{
    zr_json_position place = zr_json_find(text, strlen(text), path);
    if (place.line != line || place.column != column)
        fail_msg("\"%s\" found at %d:%d instead of %d:%d", path, place.line, place.column, line,
                 column);
}

static void values_are_found(void **state)
{
    const char *text = "{\n"
                       "  \"zero\": {\"stage\": 3, \"list\": [10, {\"x\": 1}, [7, 8]]},\n"
                       "  \"\xc3\xa9\": {\"stage\": 4}, \"stage\": 5,\n"
                       "  \"a.b\": {\"c\": \"}]\\\"\"}, \"z\":\n"
                       "     null\n}";
    assert_found(text, "", 1, 1);
    assert_found(text, "zero", 2, 11);
    assert_found(text, "zero.stage", 2, 21);
    assert_found(text, "zero.list.0", 2, 33);
    assert_found(text, "zero.list.1.x", 2, 43);
    assert_found(text, "zero.list.2", 2, 47);
    assert_found(text, "zero.list.2.1", 2, 51);
    assert_found(text, "\xc3\xa9.stage", 3, 18);
    assert_found(text, "stage", 3, 31);
    assert_found(text, "a.b.c", 4, 16);
    assert_found(text, "z", 5, 6);
    static const char *const absent[] = {"zer",          "zero.",
                                         "zero.stag",    "zero.stage.x",
                                         "zero.list.3",  "zero.list.01",
                                         "zero.list.-1", "zero.list.x",
                                         "list",         "a",
                                         "a.b.c.d",      ".",
                                         "zero..stage"};
    for (int i = 0; i < ZR_COUNT(absent); i++)
        assert_found(text, absent[i], 0, 0);
    assert_found("", "a", 0, 0);
    assert_found("", "", 0, 0);
    assert_found("{\"a\"", "a", 0, 0);
    assert_found("{\"a\":", "a", 0, 0);
    assert_found("{\"a\":}", "a", 0, 0);
    assert_found("[]", "0", 0, 0);
}

// Damaged texts: nothing crashes, and what parses can be found.
static void damaged_texts_are_safe(void **state)
{
    static const char seed[] = "{\"zero\": {\"stage\": 3, # c\n \"list\": [1, -2.5e3, "
                               "\"s\\u00e9\", {}],}, /* x */ \"b\": [true, null,],}";
    static const char insert[] = "{}[]:,\"\\#/*'n1-e.\n\xff\xc3 ";
    char text[sizeof seed];
    int parsed = 0;
    for (uint64_t round = 0; round < 30000; round++) {
        memcpy(text, seed, sizeof seed);
        zr_philox random = zr_philox4x32(11, 0, round);
        for (uint32_t i = 0; i < random.v[0] % 4; i++) {
            zr_philox change = zr_philox4x32(11, 1 + i, round);
            text[change.v[0] % (sizeof seed - 1)] = insert[change.v[1] % (sizeof insert - 1)];
        }
        size_t length = random.v[1] % 4 ? sizeof seed - 1 : random.v[2] % sizeof seed;
        char *exact = malloc(length + 1); // so that the sanitizer sees a byte too far
        memcpy(exact, text, length);
        json_t *root = NULL;
        if (zr_json_blank(exact, length, "f", NULL) == ZERO_OK &&
            zr_json_parse(exact, length, "f", &root, NULL) == ZERO_OK) {
            parsed++;
            json_t *zero = json_object_get(root, "zero");
            zr_json_position place = zr_json_find(exact, length, "zero.stage");
            assert_int_equal(place.line > 0, json_object_get(zero, "stage") != NULL);
        }
        json_decref(root);
        zr_json_find(exact, length, "zero.list.3");
        free(exact);
    }
    assert_in_range(parsed, 1000, 29000);
}

static void a_byte_0_is_refused(void **state)
{
    zero_error error = {0};
    json_t *root;
    assert_int_equal(zr_json_parse("[4\0]", 4, "ds.json", &root, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "ds.json:1:3: a byte 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_0_is_refused),
        cmocka_unit_test(comments_and_trailing_commas_become_spaces),
        cmocka_unit_test(hjson_s_other_liberties_are_named),
        cmocka_unit_test(strict_parsing_names_the_place),
        cmocka_unit_test(valid_text_is_parsed),
        cmocka_unit_test(integers_beyond_int64_are_reals),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test_setup_teardown(files_are_loaded_with_their_name, scratch_open,
                                        scratch_close),
        cmocka_unit_test(values_are_found),
        cmocka_unit_test(damaged_texts_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
